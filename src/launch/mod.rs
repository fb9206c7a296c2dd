//! From a plan to processes: the only effects. The steps are [`Step::ALL`], in that order.
//!
//! ```text
//! supervisor ── setup process (outside the pid namespace, holds the lease) ── pid 1 ── the command and all it starts
//! ```
#![forbid(unsafe_code)]

mod detach;
mod failure;
mod filter;
mod graft;
mod group;
mod init;
mod limits;
mod message;
mod mirror;
mod mounts;
mod network;
pub mod ordered;
mod overlay;
mod preload;
mod proc;
mod setup;
mod stdio;
mod step;
mod stubs;
mod supervise;
mod user;
mod watch;

pub use detach::{Detached, Report, Supervisor, Waiting, detach};
pub use failure::{Failure, STATUS_FAILED, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND, chain};
pub use mounts::{DEVICE_LINKS, DEVICES};
pub use overlay::{Full, OverlayReport};
pub use step::Step;
pub use supervise::{Ended, Running, Started, Status};
pub use user::{UserError, become_user};

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::overlay::Layers;
use crate::plan::{Op, Plan};
use crate::policy::{Limit, Network};
use crate::session::Lease;
use crate::sys::process::{self, Forked};
pub use crate::sys::stream::Stream;
use crate::sys::{Errno, fs, signal, socket};
use group::Group;
use mounts::PrivateDir;
use setup::Setup;
use stdio::Stdio;

/// Called with each step and the time since the launch began, if the run is traced.
pub type Trace = Box<dyn FnMut(Step, Duration)>;

/// Start the run. The process must have one thread. `layers` are those of the overlays on disk.
///
/// # Errors
/// What could not be prepared; failures of the new processes come from [`Running::wait`].
pub fn start(plan: &Plan, lease: &Lease, layers: &[Layers], mut trace: Option<Trace>) -> Result<Running, Failure> {
    let begin = Instant::now();
    let mut traced = |step| {
        if let Some(trace) = &mut trace {
            trace(step, begin.elapsed());
        }
    };
    traced(Step::PrepareStdio);
    let stdio = Stdio::prepare(plan)?;
    traced(Step::OpenPrivate);
    let private = open_private(plan, lease)?;
    let network = match plan.network.value {
        Network::None => lease.network().map_err(|error| Failure::of(Step::EnterNetwork, &error))?,
        Network::Host => None,
    };
    let at_fork = |error| Failure::of(Step::Fork, &error);
    let (ours, theirs) = socket::pair().map_err(at_fork)?;
    let graft = (!plan.guarded.is_empty()).then(socket::pair).transpose().map_err(at_fork)?.unzip();
    let group = match (&plan.memory_group, plan.limits.get(Limit::Memory)) {
        (Some(parent), Some(bytes)) => Some(Group::new(parent, bytes)?),
        _ => None,
    };
    let parent = plan.request.die_with_parent.then(supervise::caller).transpose()?;
    let mask = signal::block(&supervise::SIGNALS).map_err(at_fork)?;
    let supervisor = process::own_pid();
    let foreground = supervise::owns_terminal();
    match process::fork().map_err(at_fork)? {
        Forked::Child => {
            drop((ours, graft.0));
            let locks = layers.iter().flat_map(|layers| &layers.leases);
            let leases = lease.fds().chain(locks.map(AsFd::as_fd)).collect();
            let traced = trace.is_some();
            let setup = Setup {
                plan,
                private: &private,
                layers,
                stdio: &stdio,
                control: theirs,
                graft: graft.1,
                group: group.as_ref(),
                supervisor,
                mask,
                leases,
                trace: traced,
                foreground,
            };
            setup::run(&setup, network)
        }
        Forked::Parent(child) => {
            drop((theirs, graft.1));
            let running = Running::new(plan, child, (ours, graft.0), stdio, parent, begin, trace)?;
            Ok(running.limited(&plan.limits, private.into_iter().map(|dir| dir.host).collect(), group))
        }
    }
}

/// Take a descriptor that the caller passed to us by its number.
///
/// # Errors
/// If it is not open.
pub fn take_descriptor(number: i32) -> std::io::Result<std::fs::File> {
    Ok(process::take_descriptor(number)?.into())
}

/// Take a descriptor that the caller passed to us by its number, for what is written without waiting; `None` where nobody
/// reads it any more.
///
/// # Errors
/// If it is not open for writing, or is a pipe of another user's.
pub fn take_stream(number: i32) -> std::io::Result<Option<Stream>> {
    match Stream::new(process::take_descriptor(number)?) {
        Err(error) if error.is(Errno::NXIO) => Ok(None),
        stream => Ok(Some(stream?)),
    }
}

/// Does this say that nobody will ever read what is written?
#[must_use]
pub fn is_over(errno: Errno) -> bool {
    matches!(errno, Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
}

fn open_private(plan: &Plan, lease: &Lease) -> Result<Vec<PrivateDir>, Failure> {
    let paths = plan.mounts.iter().filter_map(|op| match op {
        Op::Private { path, .. } => Some(path),
        _ => None,
    });
    paths.map(|path| open_one(lease, path.clone())).collect()
}

fn open_one(lease: &Lease, path: PathBuf) -> Result<PrivateDir, Failure> {
    let (fd, host) =
        lease.private(&path).map_err(|error| Failure::of(Step::OpenPrivate, &error).about(path.display()))?;
    let stat = fs::fstat(&fd).map_err(|error| Failure::of(Step::OpenPrivate, &error).about(path.display()))?;
    Ok(PrivateDir { path, host, file: stat.file })
}

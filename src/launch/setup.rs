//! The process between the supervisor and pid 1: makes the namespaces and the file system, then waits for pid 1.
//!
//! It stays outside the pid namespace, so nothing inside can see or signal it, and it holds the session's lease.

use std::mem::take;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use super::group::Group;
use super::message::{self, Order, Received, Report};
use super::mirror::Mirror;
use super::mounts::{self, Built, PrivateDir};
use super::overlay::{Memory, OverlayReport};
use super::stdio::Stdio;
use super::{Failure, STATUS_FAILED, Step, init, network, watch};
use crate::overlay::Layers;
use crate::plan::{Identity, Plan, ProcView};
use crate::policy::Network;
use crate::session;
use crate::sys::mount::Attributes;
use crate::sys::process::{self, Forked, Pid, UnshareFlags};
use crate::sys::signal::{self, Mask};
use crate::sys::{self, fs, mount, socket};

/// What the forked child needs.
pub(super) struct Setup<'a> {
    pub(super) plan: &'a Plan,
    pub(super) private: &'a [PrivateDir],
    pub(super) layers: &'a [Layers],
    pub(super) stdio: &'a Stdio,
    pub(super) control: OwnedFd,
    /// Where the broker tells of directories that it made or moved, if names are guarded.
    pub(super) graft: Option<OwnedFd>,
    /// The supervisor.
    pub(super) supervisor: Pid,
    /// The signal mask that the command gets.
    pub(super) mask: Mask,
    /// Held open here for as long as a process of the run lives, and closed in pid 1.
    pub(super) leases: Vec<BorrowedFd<'a>>,
    /// The control group of the run, if it has a limit on memory.
    pub(super) group: Option<&'a Group>,
    pub(super) trace: bool,
    /// The command takes the terminal's foreground before it starts.
    pub(super) foreground: bool,
}

/// The whole life of the process. Never returns.
pub(super) fn run(setup: &Setup<'_>, network: Option<session::Network>) -> ! {
    let status = match prepare(setup, network).and_then(|built| Ok((fork_init(setup, &built)?, built))) {
        Ok(((init, ended), mut built)) => {
            let (memory, not_overlaid) = (take(&mut built.memory), take(&mut built.not_overlaid));
            let status = watch::until_end(setup, init, &ended, built);
            tell_overlays(setup, &memory, not_overlaid);
            status
        }
        Err(failure) => {
            // Without a supervisor nobody is left to be told.
            let _ = message::send(&setup.control, &Report::Failed(failure), &[]);
            STATUS_FAILED.into()
        }
    };
    process::exit_now(status)
}

impl Setup<'_> {
    pub(super) fn trace(&self, step: Step) {
        if self.trace {
            // Tracing must not be what fails a run.
            let _ = message::send(&self.control, &Report::Step(step), &[]);
        }
    }
}

fn at<T>(step: Step, result: sys::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of(step, &error))
}

fn prepare(setup: &Setup<'_>, network: Option<session::Network>) -> Result<Built, Failure> {
    setup.trace(Step::Fork);
    at(Step::Fork, process::die_with_parent())?;
    if process::parent() != Some(setup.supervisor) {
        return Err(Failure::because(Step::Fork, "the supervisor is gone"));
    }
    setup.group.map_or(Ok(()), Group::enter)?;
    // Signals of the terminal are the supervisor's to handle.
    at(Step::Fork, signal::block_all())?;
    let network = match network {
        Some(network) => {
            setup.trace(Step::EnterNetwork);
            network::enter(setup, network)?
        }
        None => setup.plan.network.value == Network::Host,
    };
    setup.trace(Step::Unshare);
    at(Step::Unshare, process::unshare(namespaces(network)))?;
    setup.trace(Step::MapUsers);
    map_users(setup)?;
    setup.trace(Step::PrivatePropagation);
    let private = Attributes { propagation: mount::PRIVATE, ..Attributes::default() };
    at(Step::PrivatePropagation, mount::set_attributes(fs::CWD, Path::new("/"), true, private))?;
    if setup.plan.request.proc == ProcView::Host {
        // Pid 1 will have no /proc in which it may write.
        setup.trace(Step::LimitNamespaces);
        init::limit_namespaces(setup.plan)?;
    }
    let built = mounts::build(setup.plan, setup.private, setup.layers, &mut |step| setup.trace(step))?;
    if !network {
        setup.trace(Step::Loopback);
        at(Step::Loopback, socket::loopback_up())?;
    }
    Ok(built)
}

/// What is unshared; a new network namespace too, unless there is one already.
fn namespaces(network: bool) -> UnshareFlags {
    let always = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if network { always } else { always | UnshareFlags::NEWNET }
}

/// One user: written by ourselves. All users: only the parent namespace may write that.
fn map_users(setup: &Setup<'_>) -> Result<(), Failure> {
    match setup.plan.identity {
        Identity::One { uid, gid } => map_one(uid, gid),
        Identity::Same { .. } => {
            at(Step::MapUsers, message::send(&setup.control, &Report::MapUsers, &[]))?;
            match at(Step::MapUsers, message::receive::<Order>(&setup.control))? {
                Some(Received { message: Order::Mapped, .. }) => Ok(()),
                _ => Err(Failure::because(Step::MapUsers, "the supervisor is gone")),
            }
        }
    }
}

pub(super) fn map_one(uid: u32, gid: u32) -> Result<(), Failure> {
    // setgroups must be given up before an ordinary user may map its group (user_namespaces(7)).
    write_map("/proc/self/setgroups", "deny")?;
    write_map("/proc/self/uid_map", &format!("{uid} {uid} 1\n"))?;
    write_map("/proc/self/gid_map", &format!("{gid} {gid} 1\n"))
}

/// Write one of the files of a user namespace; the kernel wants each in a single write.
pub(super) fn write_map(path: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        let errno = sys::Errno::from_io_error(&error).unwrap_or(sys::Errno::IO);
        Failure::of(Step::MapUsers, &sys::Error::new("write", format_args!("{path:?}, {text:?}"), errno))
    })
}

/// Start pid 1; gives a descriptor too that becomes readable when it has ended.
fn fork_init(setup: &Setup<'_>, built: &Built) -> Result<(Pid, OwnedFd), Failure> {
    setup.trace(Step::ForkInit);
    at(Step::ForkInit, process::unshare(UnshareFlags::NEWPID))?;
    // Pid 1 cannot see its parent's number; it looks at this descriptor to know whether we still live.
    let ourselves = at(Step::ForkInit, process::pidfd(process::own_pid()))?;
    match at(Step::ForkInit, process::fork())? {
        Forked::Child => init::run(setup, &ourselves),
        Forked::Parent(init) => {
            // Before everything else is closed: a value that is dropped later must not close its number again.
            drop(ourselves);
            let ended = at(Step::ForkInit, process::pidfd(init))?;
            let mut keep = setup.leases.clone();
            keep.extend([setup.control.as_fd(), ended.as_fd()]);
            keep.extend(setup.graft.as_ref().map(AsFd::as_fd));
            keep.extend(built.masks.as_ref().map(AsFd::as_fd));
            keep.extend(built.free.iter().map(|free| free.tree.as_fd()));
            keep.extend(built.mirrors.iter().flat_map(Mirror::fds));
            keep.extend(built.memory.iter().map(AsFd::as_fd));
            keep.extend(built.mounts.as_ref().map(AsFd::as_fd));
            keep_only(&keep, &[])?;
            Ok((init, ended))
        }
    }
}

/// Nothing runs any more: what an overlay holds now is what it held in the end.
fn tell_overlays(setup: &Setup<'_>, memory: &[Memory], read_only: Vec<String>) {
    let overlays = OverlayReport { full: memory.iter().filter_map(Memory::full).collect(), read_only };
    if overlays != OverlayReport::default() {
        // Without a supervisor nobody is left to be told.
        let _ = message::send(&setup.control, &Report::Overlays(overlays), &[]);
    }
}

/// Close every descriptor but these and those of these numbers, so that nothing of the caller is held open by us.
pub(super) fn keep_only(keep: &[BorrowedFd<'_>], numbers: &[RawFd]) -> Result<(), Failure> {
    let mut keep: Vec<_> = keep.iter().map(AsRawFd::as_raw_fd).chain(numbers.iter().copied()).collect();
    keep.sort_unstable();
    at(Step::CloseDescriptors, process::close_except(&keep))
}

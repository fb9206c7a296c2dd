//! The broker's process: it outlives the monitor as long as something of the sandbox lives, as bubblewrap's sandboxes do.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::watcher::Watched;
use super::{Done, Failure, Log, failed};
use crate::guard::{self, Broker, Denials, Escaped, Regions};
use crate::launch::graft;
use crate::plan::ordered::{Guard, Ids};
use crate::policy::{Access, Target};
use crate::sys::process::{self, Forked};
use crate::sys::{signal, socket};

/// A broker that was started.
pub(super) struct Started {
    /// Asks for the log to be written; closed when the broker ends.
    control: OwnedFd,
    logs: bool,
}

impl Started {
    /// Have everything that was denied so far written down, and wait until it is.
    pub(super) fn write_log(self) {
        if self.logs && socket::send(&self.control, b"log", &[]).is_ok() {
            // A broker that has ended has written everything.
            let _ = socket::receive(&self.control);
        }
    }
}

/// Write down what is guarded.
pub(super) fn log_guarded(log: &mut Log, guard: &Guard) -> Done<()> {
    for rule in guard.rules.all() {
        let Target::Path(path) = &rule.target else { continue };
        // Nobody asked for that; it is what holds where nothing is said.
        if rule.access == Access::Read && path == Path::new("/") {
            continue;
        }
        let path = Escaped(path.as_os_str().as_encoded_bytes());
        let what = if rule.access == Access::Write { "serves" } else { "guards" };
        writeln!(log.file, "{}{what} {path} ({})", log.prefix, Escaped(rule.origin.to_string().as_bytes()))
            .map_err(|error| log_failed(&error))?;
    }
    Ok(())
}

fn log_failed(error: &std::io::Error) -> Failure {
    Failure(format!("Can't write what is guarded and denied: {error}"))
}

/// Fork the broker for the calls of `listener`.
pub(super) fn start(
    guard: &Guard,
    ids: &Ids,
    listener: OwnedFd,
    logs: Vec<Log>,
    watched: Option<Watched>,
) -> Done<Started> {
    let (ours, theirs) = socket::pair().map_err(failed("socketpair"))?;
    let has_logs = !logs.is_empty();
    match process::fork().map_err(failed("Can't fork"))? {
        Forked::Child => {
            drop(ours);
            let served = serve(guard, ids, listener, logs, theirs, watched);
            process::exit_now(i32::from(served.is_err()))
        }
        Forked::Parent(_) => Ok(Started { control: ours, logs: has_logs }),
    }
}

fn serve(
    guard: &Guard,
    ids: &Ids,
    listener: OwnedFd,
    mut logs: Vec<Log>,
    control: OwnedFd,
    watched: Option<Watched>,
) -> Done<()> {
    // A terminal's ^C is for the command, and whoever waits for the end of our standard files must not wait for us.
    signal::block_all().map_err(failed("sigprocmask"))?;
    let mut keep: Vec<_> = [listener.as_raw_fd(), control.as_raw_fd()].into();
    keep.extend(logs.iter().map(|log| log.file.as_raw_fd()));
    keep.extend(watched.iter().flat_map(|watched| watched.fds().map(|fd| fd.as_raw_fd())));
    keep.sort_unstable();
    process::close_except(&keep).map_err(failed("close_range"))?;
    let denials = Arc::new(Mutex::new(Denials::default()));
    let (tell, mut watched) = watched.map(Watched::split).unzip();
    let tell = tell.map(graft::teller);
    let setup = guard::Setup {
        rules: Arc::clone(&guard.rules),
        mounts: std::collections::HashSet::new(),
        denials: Arc::clone(&denials),
        renumbered: match ids {
            Ids::One { user, group } => Some([*user, *group]),
            Ids::Same { .. } | Ids::Given => None,
        },
        regions: Some(Regions::new(guard.regions.clone())),
        tell,
        offline: None,
        watch: None,
    };
    let broker = Broker::new(listener, setup).map_err(|error| Failure(error.to_string()))?;
    let (done, until) = socket::pipe().map_err(failed("pipe"))?;
    std::thread::spawn(move || {
        // What stopped it early was seen inside as calls that failed.
        let _ = broker.run();
        drop(until);
    });
    let (mut control, mut written) = (Some(control), 0);
    loop {
        let mut fds = vec![done.as_fd()];
        fds.extend(control.as_ref().map(AsFd::as_fd));
        fds.extend(watched.as_ref().map(AsFd::as_fd));
        let ready = socket::wait_readable(&fds, None).map_err(failed("poll"))?;
        let (asked, unwatched) = (control.is_some() && ready[1], watched.is_some() && ready[ready.len() - 1]);
        written = log_denials(&mut logs, &denials, written)?;
        if ready[0] {
            return Ok(());
        }
        if asked {
            control = answer(control)?;
            if control.is_none() {
                logs.retain(|log| log.until_end);
            }
        }
        if unwatched && let Some(watched) = watched.take() {
            watched.end();
        }
    }
}

/// Everything is written down. A monitor that is gone asks no more; what it left running is still served.
fn answer(control: Option<OwnedFd>) -> Done<Option<OwnedFd>> {
    let Some(control) = control else { return Ok(None) };
    match socket::receive(&control) {
        Ok(Some(_)) => socket::send(&control, b"done", &[]).map(|()| Some(control)).map_err(failed("send")),
        _ => Ok(None),
    }
}

/// Write down the denials from the given one on; gives how many there are.
fn log_denials(logs: &mut [Log], denials: &Mutex<Denials>, from: usize) -> Done<usize> {
    let denials = denials.lock().unwrap_or_else(PoisonError::into_inner);
    for denial in &denials.all()[from..] {
        for log in &mut *logs {
            writeln!(log.file, "{}denied {denial}", log.prefix).map_err(|error| log_failed(&error))?;
        }
    }
    Ok(denials.all().len())
}

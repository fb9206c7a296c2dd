//! The broker's process: it outlives the monitor as long as something of the sandbox lives, as bubblewrap's sandboxes do.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Done, Failure, failed};
use crate::guard::{self, Broker, Denials, Escaped, Regions};
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
pub(super) fn log_guarded(log: &mut File, guard: &Guard) -> Done<()> {
    for rule in guard.rules.all() {
        let Target::Path(path) = &rule.target else { continue };
        // Nobody asked for that; it is what holds where nothing is said.
        if rule.access == Access::Read && path == Path::new("/") {
            continue;
        }
        let path = Escaped(path.as_os_str().as_encoded_bytes());
        let what = if rule.access == Access::Write { "serves" } else { "guards" };
        writeln!(log, "{what} {path} ({})", Escaped(rule.origin.to_string().as_bytes()))
            .map_err(|error| log_failed(&error))?;
    }
    Ok(())
}

fn log_failed(error: &std::io::Error) -> Failure {
    Failure(format!("Can't write to $BWRAP_STOCKADE_LOG: {error}"))
}

/// Fork the broker for the calls of `listener`.
pub(super) fn start(guard: &Guard, ids: &Ids, listener: OwnedFd, log: Option<File>) -> Done<Started> {
    let (ours, theirs) = socket::pair().map_err(failed("socketpair"))?;
    let logs = log.is_some();
    match process::fork().map_err(failed("Can't fork"))? {
        Forked::Child => {
            drop(ours);
            let served = serve(guard, ids, listener, log, &theirs);
            process::exit_now(i32::from(served.is_err()))
        }
        Forked::Parent(_) => Ok(Started { control: ours, logs }),
    }
}

fn serve(guard: &Guard, ids: &Ids, listener: OwnedFd, log: Option<File>, control: &OwnedFd) -> Done<()> {
    // A terminal's ^C is for the command, and whoever waits for the end of our standard files must not wait for us.
    signal::block_all().map_err(failed("sigprocmask"))?;
    let mut keep: Vec<_> = [listener.as_raw_fd(), control.as_raw_fd()].into();
    keep.extend(log.as_ref().map(AsRawFd::as_raw_fd));
    keep.sort_unstable();
    process::close_except(&keep).map_err(failed("close_range"))?;
    let denials = Arc::new(Mutex::new(Denials::default()));
    let setup = guard::Setup {
        rules: Arc::clone(&guard.rules),
        mounts: std::collections::HashSet::new(),
        denials: Arc::clone(&denials),
        renumbered: match ids {
            Ids::One { user, group } => Some([*user, *group]),
            Ids::Same { .. } => None,
        },
        regions: Some(Regions::new(guard.regions.clone())),
        tell: None,
        offline: None,
        watch: None,
    };
    let broker = Broker::new(listener, setup).map_err(|error| Failure(error.to_string()))?;
    let Some(mut log) = log else { return broker.run().map_err(|error| Failure(error.to_string())) };
    let (done, until) = socket::pipe().map_err(failed("pipe"))?;
    std::thread::spawn(move || {
        // What stopped it early was seen inside as calls that failed.
        let _ = broker.run();
        drop(until);
    });
    let mut written = 0;
    loop {
        let ready = socket::wait_readable(&[done.as_fd(), control.as_fd()], None).map_err(failed("poll"))?;
        written = log_denials(&mut log, &denials, written)?;
        if ready[0] {
            return Ok(());
        }
        match socket::receive(control) {
            Ok(Some(_)) => socket::send(control, b"done", &[]).map_err(failed("send"))?,
            // The monitor is gone; what it left running is still served.
            _ => {
                let _ = socket::wait_readable(&[done.as_fd()], None);
            }
        }
    }
}

/// Write down the denials from the given one on; gives how many there are.
fn log_denials(log: &mut File, denials: &Mutex<Denials>, from: usize) -> Done<usize> {
    let denials = denials.lock().unwrap_or_else(PoisonError::into_inner);
    for denial in &denials.all()[from..] {
        writeln!(log, "denied {denial}").map_err(|error| log_failed(&error))?;
    }
    Ok(denials.all().len())
}

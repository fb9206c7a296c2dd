//! A sandbox for which something is held until its last process has ended, though the program returns with the command.
//!
//! ```text
//! front ── keeper, which is the monitor, then waits for all that is left ── the sandbox, its broker, its watcher
//! ```
//!
//! What the command leaves running becomes the keeper's child (`PR_SET_CHILD_SUBREAPER`), with a pid namespace or without.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Done, Failure, Log, failed, run_masked, status};
use crate::launch::message;
use crate::plan::ordered::Ordered;
use crate::sys::process::{self, Forked, Pid, Signal};
use crate::sys::{fs, signal, socket};

/// Called in the keeper at its start; what it gives is called when no process is left. Whatever it owns is closed in the
/// sandbox.
pub type Hold = Box<dyn FnOnce() -> Box<dyn FnOnce()>>;

/// As [`run`](super::run), holding something until no process of the sandbox is left.
///
/// # Errors
/// What kept the command from being executed.
pub fn run_held(plan: &Ordered, logs: Vec<Log>, hold: Hold) -> Result<u8, Failure> {
    if plan.process.die_with_parent {
        process::die_with_parent().map_err(failed("prctl"))?;
    }
    let (ours, theirs) = socket::pair().map_err(failed("socketpair"))?;
    let front = process::own_pid();
    match process::fork().map_err(failed("Can't fork"))? {
        Forked::Child => {
            drop(ours);
            keep(plan, logs, hold, &theirs, front)
        }
        Forked::Parent(_) => {
            drop((theirs, hold, logs));
            // Whoever waits for their end is not to wait for us.
            drop(status::Descriptors::take(plan)?);
            drop(plan.process.sync.map(process::take_descriptor));
            match message::receive::<Result<u8, Failure>>(&ours).map_err(failed("receive from the keeper"))? {
                Some(message::Received { message, .. }) => message,
                None => Err(Failure("the process that holds the session is gone".into())),
            }
        }
    }
}

fn keep(plan: &Ordered, logs: Vec<Log>, hold: Hold, front: &OwnedFd, parent: Pid) -> ! {
    let end = hold();
    let done = start(plan, logs, parent);
    let child = done.as_ref().ok().map(|(_, child)| *child);
    // With the command's end we are nobody's child any more.
    let freed = process::live_on().map_err(failed("prctl"));
    // A front that is gone wants to know nothing.
    let _ = message::send(front, &freed.and(done.map(|(code, _)| code)), &[]);
    if let Some(child) = child.filter(|_| plan.process.die_with_parent) {
        // Its parent, as it is meant, has ended. It may have ended too.
        let _ = process::kill(child, Signal::KILL);
    }
    // Whoever waits for the end of our standard files must not wait for us.
    if let Ok(null) = fs::open(Path::new("/dev/null"), fs::OFlags::RDWR) {
        (0..3).for_each(|number| drop(process::duplicate_to(&null, number)));
    }
    while let Ok(Some(_)) = process::wait(None, process::until_end()) {}
    end();
    process::exit_now(0)
}

fn start(plan: &Ordered, logs: Vec<Log>, parent: Pid) -> Done<(u8, Pid)> {
    // A terminal's ^C is for the command; the front ends by it, as a monitor does.
    let mask = signal::block_all().map_err(failed("sigprocmask"))?;
    process::adopt_descendants().map_err(failed("prctl"))?;
    if plan.process.die_with_parent {
        process::die_with_parent().map_err(failed("prctl"))?;
        if process::parent() != Some(parent) {
            return Err(Failure("the parent process is gone".into()));
        }
    }
    run_masked(plan, logs, Some(mask))
}

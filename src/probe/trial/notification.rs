//! One system call that is answered by a supervisor, with everything that the broker does to a caller.

use std::os::fd::{AsFd, OwnedFd};

use super::{errno, number};
use crate::sys::caller::Caller;
use crate::sys::notify::{Answer, Listener, Notification};
use crate::sys::process::{self, Forked, Pid, UnshareFlags};
use crate::sys::{Errno, Result, seccomp, socket};

/// What the caller is told is its parent.
const PARENT: i32 = 4242;
/// What is read out of the caller's memory.
static MARK: [u8; 8] = *b"stockade";

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notified {
    /// The kernel refused the filter with the listener.
    pub refused: Option<Errno>,
    /// The caller's memory cannot be read.
    pub memory: Option<Errno>,
    /// No descriptor can be put into the caller.
    pub descriptor: Option<Errno>,
    /// The caller got the answer.
    pub answered: bool,
    /// The other side can be woken on the same processor.
    pub wakes: bool,
}

/// A child asks, and this process answers.
///
/// # Errors
/// When no process can be made, or the kernel breaks off in between.
pub fn notification() -> Result<Notified> {
    let (ours, theirs) = socket::pair()?;
    match process::fork()? {
        Forked::Child => {
            drop(ours);
            process::exit_now(ask(&theirs))
        }
        Forked::Parent(child) => {
            drop(theirs);
            let told = answer(&ours);
            drop(ours);
            let ended = process::wait(Some(child), process::until_end())?;
            let answered = ended.is_some_and(|(_, status)| status.exit_status() == Some(0));
            Ok(Notified { answered, ..told? })
        }
    }
}

/// The child's part: its exit status is 0 if the answer was the one that the supervisor made up.
fn ask(control: &OwnedFd) -> i32 {
    // As in a run, where that makes the supervisor the master of the caller's memory. Where it cannot be, that is a
    // finding of another trial.
    let _ = process::unshare(UnshareFlags::NEWUSER);
    let listener = process::die_with_parent()
        .and_then(|()| process::set_no_new_privs())
        .and_then(|()| seccomp::install_with_listener(&seccomp::ask_about_parent()));
    let told = match &listener {
        Ok(listener) => socket::send(control, &0_i32.to_ne_bytes(), &[listener.as_fd()]),
        Err(error) => socket::send(control, &number(error).to_ne_bytes(), &[]),
    };
    drop(listener);
    let heard = told.is_ok() && process::parent().map(Pid::as_raw_nonzero).is_some_and(|pid| pid.get() == PARENT);
    i32::from(!heard)
}

fn answer(control: &OwnedFd) -> Result<Notified> {
    let Some(received) = socket::receive(control)? else { return Ok(refused(Errno::CHILD)) };
    let Some(fd) = received.fds.into_iter().next() else {
        let number = received.bytes.try_into().map_or(Errno::IO.raw_os_error(), i32::from_ne_bytes);
        return Ok(refused(errno(number)));
    };
    let mut listener = Listener::new(fd)?;
    let wakes = listener.wake_synchronously();
    let Some(Notification { id, tid, .. }) = listener.wait()? else { return Ok(refused(Errno::CHILD)) };
    let mut read = [0; MARK.len()];
    let memory = match Caller::new(tid).read(MARK.as_ptr().addr() as u64, &mut read) {
        Ok(()) if read == MARK => None,
        Ok(()) => Some(Errno::FAULT),
        Err(errno) => Some(errno),
    };
    let descriptor = listener.add_fd(id, control.as_fd(), true).err();
    // A caller that is gone shows in its exit status.
    let _ = listener.answer(id, Answer::Value(PARENT.into()));
    Ok(Notified { refused: None, memory, descriptor, answered: false, wakes })
}

fn refused(errno: Errno) -> Notified {
    Notified { refused: Some(errno), ..Notified::default() }
}

//! Signals of our own process: blocked and read from a descriptor, put back before the command starts.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Errno, Error, Result, last_errno};

/// A set of blocked signals, to be restored.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for &signal in signals {
        // SAFETY: the set was initialised above; an invalid number is refused and leaves it alone.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: initialised by sigemptyset.
    unsafe { set.assume_init() }
}

/// Block these signals for the calling thread; gives what was blocked before (`pthread_sigmask(3)`).
pub fn block(signals: &[i32]) -> Result<Mask> {
    change(libc::SIG_BLOCK, &set_of(signals))
}

/// Block every signal that can be blocked.
pub fn block_all() -> Result<Mask> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: initialised above.
    let set = unsafe { set.assume_init() };
    change(libc::SIG_SETMASK, &set)
}

/// Put a saved mask back.
pub fn restore(mask: Mask) -> Result<()> {
    change(libc::SIG_SETMASK, &mask.0).map(|_| ())
}

fn change(how: i32, set: &libc::sigset_t) -> Result<Mask> {
    let mut old = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for the call, the second is written by it.
    let errno = unsafe { libc::pthread_sigmask(how, set, old.as_mut_ptr()) };
    if errno != 0 {
        return Err(Error::new("pthread_sigmask", format_args!("{how}"), Errno::from_raw_os_error(errno)));
    }
    // SAFETY: written by the successful call.
    Ok(Mask(unsafe { old.assume_init() }))
}

/// `signalfd(2)`: the (blocked) signals become readable.
pub fn descriptor(signals: &[i32]) -> Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: the set is valid for the call.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Error::new("signalfd", format_args!("{signals:?}"), last_errno()));
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One signal and who sent it.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    pub signal: i32,
    /// Sent by the kernel (a terminal's Ctrl-C, say), not by a process.
    pub by_kernel: bool,
}

/// The next pending signal, if any.
#[must_use]
pub fn read(fd: &OwnedFd) -> Option<Received> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer is as large as said.
    let count = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
    if count != size.cast_signed() {
        return None;
    }
    // SAFETY: fully written by the kernel (and zeroed before).
    let info = unsafe { info.assume_init() };
    Some(Received { signal: info.ssi_signo.cast_signed(), by_kernel: info.ssi_code == libc::SI_KERNEL })
}

/// Give a signal its default action again (Rust ignores `SIGPIPE` at start).
pub fn set_default(signal: i32) -> Result<()> {
    // SAFETY: SIG_DFL runs no code of ours.
    if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(Error::new("signal", format_args!("{signal}, SIG_DFL"), last_errno()));
    }
    Ok(())
}

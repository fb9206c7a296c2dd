//! The listener's end of seccomp user notification (`seccomp_unotify(2)`).
//!
//! On a hot path: errors are bare errnos, nothing is formatted.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};

use super::{Errno, Error, Fd, Result, host, last_errno};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6)
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`
const CONTINUE: u32 = 1;

/// One call that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// Names the call until it is answered, or its thread is killed.
    pub id: u64,
    /// The calling thread, as this process's pid namespace numbers it.
    pub tid: i32,
    pub nr: i32,
    pub args: [u64; 6],
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The kernel carries it out as if there were no filter, reading its arguments again.
    Continue,
    /// It fails.
    Errno(Errno),
    /// It has been carried out, with this result.
    Value(i64),
}

/// A listener.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Room for a notification and an answer as long as the kernel's own.
    request: Vec<u64>,
    response: Vec<u64>,
    /// A request may be waited for without asking first whether anybody is left to make one.
    recv_ends: bool,
}

impl Listener {
    /// Take over a listener that [`super::seccomp::install_with_listener`] gave.
    pub fn new(fd: OwnedFd) -> Result<Self> {
        let sizes = sizes()?;
        let words = |size: u16, least: usize| vec![0; usize::from(size).max(least).div_ceil(8)];
        Ok(Self {
            request: words(sizes.seccomp_notif, size_of::<libc::seccomp_notif>()),
            response: words(sizes.seccomp_notif_resp, size_of::<libc::seccomp_notif_resp>()),
            recv_ends: host::version() >= (6, 11),
            fd,
        })
    }

    /// Wake the other side on this processor, in the same breath. False: the kernel cannot (before 6.6).
    #[must_use]
    pub fn wake_synchronously(&self) -> bool {
        // SAFETY: the flags are passed by value; nothing is read or written.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) == 0 }
    }

    /// Wait for the next call; `None` when the last filtered task is gone.
    pub fn wait(&mut self) -> Result<Option<Notification>> {
        loop {
            // Before 6.11 the request below would wait for ever once nobody is left.
            if !self.recv_ends && self.hung_up(true)? {
                return Ok(None);
            }
            match self.receive() {
                Ok(notification) => return Ok(Some(notification)),
                // The caller died while it waited, or all did.
                Err(Errno::NOENT) if self.hung_up(false)? => return Ok(None),
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(errno) => {
                    return Err(Error::new("ioctl", format_args!("{}, NOTIF_RECV", Fd(self.fd.as_fd())), errno));
                }
            }
        }
    }

    fn receive(&mut self) -> std::result::Result<Notification, Errno> {
        // The kernel insists on zeroes.
        self.request.fill(0);
        self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, self.request.as_ptr().cast_mut().cast())?;
        // SAFETY: the buffer is aligned, at least as long as the structure, and any bytes make a valid one.
        let got = unsafe { &*self.request.as_ptr().cast::<libc::seccomp_notif>() };
        Ok(Notification { id: got.id, tid: got.pid.cast_signed(), nr: got.data.nr, args: got.data.args })
    }

    /// Is every filtered task gone? With `wait`, not before there is something to receive.
    fn hung_up(&self, wait: bool) -> Result<bool> {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let timeout = (!wait).then_some(rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 });
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) => Ok(polled[0].revents().contains(PollFlags::HUP)),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(Error::new("poll", format_args!("{}", Fd(self.fd.as_fd())), errno)),
        }
    }

    /// Does the call still wait? Its thread may have been killed, and its number may name another by now.
    #[must_use]
    pub fn is_valid(&self, id: u64) -> bool {
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw const id).cast_mut().cast()).is_ok()
    }

    /// Answer a call. `ENOENT`: it does not wait any more.
    pub fn answer(&mut self, id: u64, answer: Answer) -> std::result::Result<(), Errno> {
        let (val, error, flags) = match answer {
            Answer::Continue => (0, 0, CONTINUE),
            Answer::Errno(errno) => (0, -errno.raw_os_error(), 0),
            Answer::Value(value) => (value, 0, 0),
        };
        let response = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: the buffer is aligned and at least as long as the structure.
        unsafe { self.response.as_mut_ptr().cast::<libc::seccomp_notif_resp>().write(response) };
        self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, self.response.as_ptr().cast_mut().cast()).map(drop)
    }

    /// Put a copy of `fd` into the caller, at the lowest free number, which is given back.
    ///
    /// The call goes on waiting: answered in the same breath (`SECCOMP_ADDFD_FLAG_SEND`), it would run while this process
    /// still holds the file open for writing, and executing it would fail with `ETXTBSY`.
    pub fn add_fd(&self, id: u64, fd: BorrowedFd<'_>, close_on_exec: bool) -> std::result::Result<i32, Errno> {
        let add = libc::seccomp_notif_addfd {
            id,
            flags: 0,
            srcfd: fd.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        loop {
            match self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, (&raw const add).cast_mut().cast()) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    fn control(&self, request: libc::Ioctl, data: *mut libc::c_void) -> std::result::Result<i32, Errno> {
        // SAFETY: every caller passes the structure that belongs to the request, which outlives the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, data) };
        if result >= 0 { Ok(result) } else { Err(last_errno()) }
    }
}

fn sizes() -> Result<libc::seccomp_notif_sizes> {
    let mut sizes = libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the kernel writes one `seccomp_notif_sizes`.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes) };
    if result == 0 { Ok(sizes) } else { Err(Error::new("seccomp", format_args!("GET_NOTIF_SIZES"), last_errno())) }
}

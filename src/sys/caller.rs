//! Looking at a thread that waits for an answer: its memory, its directories and descriptors, its umask and limits.
//!
//! All of it may be refused or belong to another thread by the time it is used: the caller can be killed at any moment.
//! Whoever acts on what was read asks [`super::notify::Listener::is_valid`] last. Errors are bare errnos (hot path).

use std::fmt::Arguments;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};

use super::{Errno, last_errno};

/// The longest path that the kernel takes, with its NUL.
const PATH_MAX: usize = 4096;
/// Memory protection changes at multiples of this; it is the smallest page.
const PAGE: u64 = 4096;
/// `PIDFD_THREAD` (Linux 6.9)
const PIDFD_THREAD: libc::c_uint = libc::O_EXCL.cast_unsigned();

/// A thread of another process, by its number in our pid namespace.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    tid: i32,
}

/// What a thread's `/proc/TID/status` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    pub umask: u32,
    /// The process that the thread belongs to.
    pub tgid: i32,
    /// The process, in the innermost pid namespace that it is in.
    pub inner_tgid: i32,
}

impl Caller {
    #[must_use]
    pub fn new(tid: i32) -> Self {
        Self { tid }
    }

    #[must_use]
    pub fn tid(self) -> i32 {
        self.tid
    }

    /// Fill `buffer` from the thread's memory. `EFAULT` if not all of it can be read.
    pub fn read(self, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        if self.read_some(address, buffer)? == buffer.len() { Ok(()) } else { Err(Errno::FAULT) }
    }

    fn read_some(self, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: buffer.len() };
        // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`; `remote` is not of this process.
        let got = unsafe { libc::process_vm_readv(self.tid, &raw const local, 1, &raw const remote, 1, 0) };
        usize::try_from(got).map_err(|_| last_errno())
    }

    /// A path or name that ends in NUL, without it. `ENAMETOOLONG` if there is none within `PATH_MAX`.
    ///
    /// Never reads past the page in which the text ends: the next one may not be mapped.
    pub fn read_string(self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::with_capacity(256);
        while text.len() < PATH_MAX {
            let at = address.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let to_page_end = usize::try_from(PAGE - at % PAGE).unwrap_or(PATH_MAX);
            let start = text.len();
            text.resize(start + to_page_end.min(256).min(PATH_MAX - start), 0);
            let got = self.read_some(at, &mut text[start..])?;
            if let Some(len) = text[start..start + got].iter().position(|&byte| byte == 0) {
                text.truncate(start + len);
                return Ok(text);
            }
            if start + got != text.len() {
                return Err(Errno::FAULT);
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    /// The working directory (`O_PATH`).
    pub fn cwd(self) -> Result<OwnedFd, Errno> {
        self.open(format_args!("cwd"), OFlags::PATH)
    }

    /// The root directory (`O_PATH`).
    pub fn root(self) -> Result<OwnedFd, Errno> {
        self.open(format_args!("root"), OFlags::PATH)
    }

    /// What an open descriptor refers to (`O_PATH`); whether it can be written is not carried over.
    pub fn fd(self, number: i32) -> Result<OwnedFd, Errno> {
        self.open(format_args!("fd/{number}"), OFlags::PATH)
    }

    /// Its mount namespace.
    pub fn mount_namespace(self) -> Result<OwnedFd, Errno> {
        self.open(format_args!("ns/mnt"), OFlags::RDONLY)
    }

    fn open(self, what: Arguments<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut path = [0; 64];
        let mut rest = &mut path[..];
        write!(rest, "/proc/{}/{what}", self.tid).map_err(|_| Errno::NAMETOOLONG)?;
        let len = 64 - rest.len();
        rustix::fs::openat(CWD, &path[..len], flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Its umask and its own idea of its number. Costs some 10 µs.
    pub fn status(self) -> Result<Status, Errno> {
        let file = self.open(format_args!("status"), OFlags::RDONLY)?;
        let mut text = [0; 2048];
        let len = rustix::io::read(&file, &mut text)?;
        let text = String::from_utf8_lossy(&text[..len]);
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let last = |line: &str| line.split_whitespace().last().and_then(|number| number.parse().ok());
        Ok(Status {
            umask: field("Umask:").and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).ok_or(Errno::SRCH)?,
            tgid: field("Tgid:").and_then(last).ok_or(Errno::SRCH)?,
            inner_tgid: field("NStgid:").and_then(last).unwrap_or(0),
        })
    }

    /// The name of its program, at most 15 bytes.
    pub fn comm(self) -> Result<Vec<u8>, Errno> {
        let file = self.open(format_args!("comm"), OFlags::RDONLY)?;
        let mut text = [0; 64];
        let len = rustix::io::read(&file, &mut text)?;
        Ok(text[..len].strip_suffix(b"\n").unwrap_or(&text[..len]).to_vec())
    }

    /// Its `RLIMIT_FSIZE` in bytes; `None` without a limit.
    pub fn size_limit(self) -> Result<Option<u64>, Errno> {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: without a new limit the kernel only writes the old one, to a structure of ours.
        let result = unsafe { libc::prlimit64(self.tid, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit) };
        match (result, limit.rlim_cur) {
            (0, libc::RLIM64_INFINITY) => Ok(None),
            (0, bytes) => Ok(Some(bytes)),
            _ => Err(last_errno()),
        }
    }

    /// Send it `SIGXFSZ`, as the kernel does for a file that would grow beyond the limit.
    pub fn signal_size_limit(self) {
        // SAFETY: tkill takes two numbers. It is too late to tell anybody that the thread is gone.
        unsafe { libc::syscall(libc::SYS_tkill, self.tid, libc::SIGXFSZ) };
    }

    /// A copy of one of its descriptors (`pidfd_getfd(2)`), close-on-exec.
    pub fn take_fd(self, number: i32) -> Result<OwnedFd, Errno> {
        let pidfd = match pidfd(self.tid, PIDFD_THREAD) {
            // Before 6.9 only a process can be named; its threads share their descriptors unless they took care not to.
            Err(Errno::INVAL) => pidfd(self.status()?.tgid, 0)?,
            other => other?,
        };
        // SAFETY: pidfd_getfd takes three numbers.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) };
        owned(raw)
    }
}

/// `pidfd_open(2)`
fn pidfd(id: i32, flags: libc::c_uint) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_open takes two numbers.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) };
    owned(raw)
}

/// The descriptor that a call gave, or why it gave none.
fn owned(raw: libc::c_long) -> Result<OwnedFd, Errno> {
    match i32::try_from(raw) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(last_errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_thread() -> Caller {
        Caller::new(rustix::thread::gettid().as_raw_nonzero().get())
    }

    #[test]
    fn reads_a_string_and_a_string_that_straddles_a_page() {
        const LEN: usize = 4096;
        let mut pages = vec![b'x'; 4 * LEN];
        let start = pages.as_ptr() as usize;
        let edge = start.next_multiple_of(LEN) + LEN;
        pages[edge - start + 5] = 0;
        assert_eq!(this_thread().read_string((edge - 7) as u64), Ok(vec![b'x'; 12]));
    }

    #[test]
    fn a_string_without_end_is_too_long_and_no_memory_is_a_fault() {
        let long = vec![b'x'; 3 * PATH_MAX];
        assert_eq!(this_thread().read_string(long.as_ptr() as u64), Err(Errno::NAMETOOLONG));
        assert_eq!(this_thread().read_string(16), Err(Errno::FAULT));
        assert_eq!(this_thread().read_string(u64::MAX - 3), Err(Errno::FAULT));
    }

    #[test]
    fn knows_itself() {
        let me = this_thread();
        assert_eq!(me.status().expect("status").inner_tgid, std::process::id().cast_signed());
        assert!(me.cwd().is_ok() && me.root().is_ok() && me.take_fd(0).is_ok());
        assert!(!me.comm().expect("comm").is_empty());
    }
}

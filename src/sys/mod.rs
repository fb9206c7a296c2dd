//! One function a system call, typed; an error is the call with its arguments. The only `unsafe`, `rustix` and `libc`.
//!
//! rustix is asked first; what it lacks is called through libc. Nothing here decides anything.
#![allow(unsafe_code, reason = "the one place for it; every other module is denied it")]
#![allow(
    clippy::missing_errors_doc,
    reason = "every function fails as the call that it is named after; see its man page"
)]

pub mod act;
pub mod attr;
pub mod caller;
pub mod fs;
pub mod host;
pub mod layer;
pub mod lock;
pub mod mount;
pub mod mountinfo;
pub mod namespace;
pub mod notify;
pub mod pipe;
pub mod presence;
pub mod process;
pub mod seccomp;
pub mod signal;
pub mod socket;
pub mod stream;
pub mod terminal;
pub mod watch;

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

pub use rustix::io::Errno;

/// The cure for a call that the kernel does not have (`ENOSYS`).
pub const TOO_OLD: &str = "this kernel lacks the call, or a sandbox around this withholds it: see `stockade doctor`";

/// Shorthand for what every function here gives.
pub type Result<T> = std::result::Result<T, Error>;

/// A system call that failed: which, with what, and the kernel's answer (the error's source).
#[derive(Debug)]
pub struct Error {
    call: &'static str,
    args: Box<str>,
    errno: Errno,
}

impl Error {
    /// An error of `call` with its arguments as text.
    #[must_use]
    pub fn new(call: &'static str, args: fmt::Arguments<'_>, errno: Errno) -> Self {
        Self { call, args: args.to_string().into_boxed_str(), errno }
    }

    /// The kernel's answer.
    #[must_use]
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// Is this the error `errno`?
    #[must_use]
    pub fn is(&self, errno: Errno) -> bool {
        self.errno == errno
    }

    /// The call's name.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.call, self.args)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.errno.kind(), error)
    }
}

/// A descriptor as it is written in an error: `[4]</srv/x>`, or `[cwd]`.
pub(crate) struct Fd<'a>(pub(crate) BorrowedFd<'a>);

impl fmt::Display for Fd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = self.0.as_raw_fd();
        if raw == rustix::fs::CWD.as_raw_fd() {
            return f.write_str("[cwd]");
        }
        match std::fs::read_link(Path::new("/proc/self/fd").join(raw.to_string())) {
            Ok(path) => write!(f, "[{raw}]<{}>", path.display()),
            Err(_) => write!(f, "[{raw}]"),
        }
    }
}

/// The errno that a raw call through libc left behind.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

//! What becomes of one call, as the early end of a function that looks into it.
#![forbid(unsafe_code)]

use crate::sys::Errno;

/// The outcome for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The kernel decides; where the broker would have to grant something, it says no.
    Continue,
    /// The call has been carried out, with this result.
    Done(i64),
    /// The call fails, as it would on a writable mount.
    Errno(Errno),
    /// Nobody waits any more.
    Gone,
}

/// A value, or what becomes of the call at once.
pub(super) type Step<T> = Result<T, Reply>;

impl From<Errno> for Reply {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// For failures of our own looking, which are no answer to the caller: the kernel finds the right one.
pub(super) trait OrContinue<T> {
    fn or_continue(self) -> Step<T>;
}

impl<T> OrContinue<T> for Result<T, Errno> {
    fn or_continue(self) -> Step<T> {
        self.map_err(|_| Reply::Continue)
    }
}

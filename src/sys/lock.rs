//! `flock(2)`: a lock that belongs to the open file description, so that every copy of a descriptor, in whatever process,
//! keeps it, and the kernel drops it when the last one is closed.

use std::os::fd::AsFd;

use rustix::fs::FlockOperation;

use super::{Errno, Error, Fd, Result};

/// Who else may hold the lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Any number of other shared holders.
    Shared,
    /// Nobody.
    Exclusive,
}

impl Lock {
    fn try_operation(self) -> FlockOperation {
        match self {
            Self::Shared => FlockOperation::NonBlockingLockShared,
            Self::Exclusive => FlockOperation::NonBlockingLockExclusive,
        }
    }
}

/// Take the lock if that is possible now; `false`: somebody else is in the way. Changing a lock one already has is not
/// atomic: where it fails, the old one is gone too (flock(2)).
pub fn try_lock(fd: impl AsFd, lock: Lock) -> Result<bool> {
    let fd = fd.as_fd();
    loop {
        match rustix::fs::flock(fd, lock.try_operation()) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("flock", format_args!("{}, {lock:?}", Fd(fd)), errno)),
        }
    }
}

/// Drop the lock, for every copy of the descriptor.
pub fn unlock(fd: impl AsFd) -> Result<()> {
    let fd = fd.as_fd();
    rustix::fs::flock(fd, FlockOperation::Unlock)
        .map_err(|errno| Error::new("flock", format_args!("{}, Unlock", Fd(fd)), errno))
}

/// `fcntl(2)`, `F_SETLK` with `F_RDLCK` on the whole file: held by this *process*, a fork does not inherit it.
pub fn read_lock(fd: impl AsFd) -> Result<()> {
    let fd = fd.as_fd();
    rustix::fs::fcntl_lock(fd, FlockOperation::NonBlockingLockShared)
        .map_err(|errno| Error::new("fcntl", format_args!("{}, F_SETLK, F_RDLCK", Fd(fd)), errno))
}

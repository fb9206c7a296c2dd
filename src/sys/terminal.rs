//! The controlling terminal and its foreground process group (`tty_ioctl(4)`).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::fs::OFlags;
use super::process::Pid;
use super::{Error, Fd, Result};

/// Is this descriptor a terminal?
#[must_use]
pub fn is_terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

/// The device of a terminal descriptor, e.g. `/dev/pts/3`.
#[must_use]
pub fn name(fd: impl AsFd) -> Option<PathBuf> {
    let fd = fd.as_fd();
    rustix::termios::isatty(fd).then(|| super::fs::path_of(fd).ok()).flatten()
}

/// Our controlling terminal, if there is one.
#[must_use]
pub fn controlling() -> Option<OwnedFd> {
    super::fs::open(Path::new("/dev/tty"), OFlags::RDWR | OFlags::NOCTTY).ok()
}

/// The process group in the foreground.
pub fn foreground(terminal: impl AsFd) -> Result<Pid> {
    let terminal = terminal.as_fd();
    rustix::termios::tcgetpgrp(terminal)
        .map_err(|errno| Error::new("tcgetpgrp", format_args!("{}", Fd(terminal)), errno))
}

/// Put a process group into the foreground. The caller has `SIGTTOU` blocked, else it is stopped when in the background.
pub fn set_foreground(terminal: impl AsFd, group: Pid) -> Result<()> {
    let terminal = terminal.as_fd();
    rustix::termios::tcsetpgrp(terminal, group)
        .map_err(|errno| Error::new("tcsetpgrp", format_args!("{}, {group:?}", Fd(terminal)), errno))
}

/// Our own process group.
#[must_use]
pub fn own_group() -> Pid {
    rustix::process::getpgrp()
}

/// A process's group; `None` when it is gone.
#[must_use]
pub fn group_of(pid: Pid) -> Option<Pid> {
    rustix::process::getpgid(Some(pid)).ok()
}

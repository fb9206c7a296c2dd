//! Namespaces of other processes (`namespaces(7)`, `setns(2)`).

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Error, Fd, Result, last_errno};

/// `_IO(0xb7, 1)`, which libc lacks for some targets.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// The user namespace that owns a namespace (`ioctl_nsfs(2)`, `NS_GET_USERNS`).
pub fn owner(namespace: impl AsFd) -> Result<OwnedFd> {
    let namespace = namespace.as_fd();
    // SAFETY: this request takes no argument and gives a new descriptor.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(Error::new("ioctl", format_args!("{}, NS_GET_USERNS", Fd(namespace)), last_errno()));
    }
    // SAFETY: just made, and nobody else's. The kernel makes it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Enter a user namespace, with every capability in it. The process must have one thread.
pub fn join_user(namespace: impl AsFd) -> Result<()> {
    join(namespace, LinkNameSpaceType::User)
}

/// Enter a network namespace.
pub fn join_network(namespace: impl AsFd) -> Result<()> {
    join(namespace, LinkNameSpaceType::Network)
}

/// Have the children that are forked from now on in a pid namespace.
pub fn join_pid(namespace: impl AsFd) -> Result<()> {
    join(namespace, LinkNameSpaceType::ProcessID)
}

/// Enter a mount namespace: its root becomes ours, and the working directory.
pub fn join_mounts(namespace: impl AsFd) -> Result<()> {
    join(namespace, LinkNameSpaceType::Mount)
}

fn join(namespace: impl AsFd, kind: LinkNameSpaceType) -> Result<()> {
    let namespace = namespace.as_fd();
    move_into_link_name_space(namespace, Some(kind))
        .map_err(|errno| Error::new("setns", format_args!("{}, {kind:?}", Fd(namespace)), errno))
}

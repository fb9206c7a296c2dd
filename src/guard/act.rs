//! The operations on one name, carried out on the supervisor's own directory descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::decide::Change;
use super::reply::{OrContinue, Reply, Step};
use super::resolve::HostSpot;
use super::task::Opening;
use crate::sys::Errno;
use crate::sys::act::{self, Holder};
use crate::sys::caller::Caller;
use crate::sys::fs::{OFlags, ResolveFlags, Stat};

/// How often an open starts again when the name appears and vanishes under it.
const TRIES: usize = 16;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Act {
    Mkdir { mode: u32 },
    Mknod { mode: u32, dev: u64 },
    Symlink { target: Vec<u8> },
    Unlink { directory: bool },
    Truncate { len: i64 },
    Chmod { mode: u32 },
    Chown { uid: u32, gid: u32 },
    SetTimes { times: Option<[(i64, i64); 2]> },
    SetXattr { name: Vec<u8>, value: Vec<u8>, flags: u32 },
    RemoveXattr { name: Vec<u8> },
    SetAttr { attr: Vec<u8> },
    Access { mode: u32, effective: bool },
    Bind { socket: OwnedFd },
}

impl Act {
    /// What it means to the rules.
    pub(super) fn change(&self) -> Change {
        match self {
            Self::Mkdir { .. } => Change::MakeDirectory,
            Self::Symlink { .. } => Change::MakeSymlink,
            Self::Mknod { .. } | Self::Bind { .. } => Change::Make,
            Self::Unlink { directory: true } => Change::RemoveDirectory,
            Self::Unlink { directory: false } => Change::Remove,
            Self::Truncate { .. } => Change::Content,
            _ => Change::Attributes,
        }
    }

    /// For a report.
    pub(super) fn verb(&self) -> &'static str {
        match self.change() {
            Change::MakeDirectory | Change::Make | Change::MakeSymlink => "create",
            Change::RemoveDirectory | Change::Remove => "remove",
            Change::Content => "write",
            _ => "change",
        }
    }

    /// Does the caller's umask matter?
    pub(super) fn creates(&self) -> bool {
        matches!(self, Self::Mkdir { .. } | Self::Mknod { .. } | Self::Bind { .. })
    }

    /// Does it fail, whatever the rules say, because the name is there, or because it is not?
    pub(super) fn is_idle(&self, exists: bool) -> bool {
        match self {
            Self::Access { .. } => true,
            _ if matches!(self.change(), Change::MakeDirectory | Change::Make | Change::MakeSymlink) => exists,
            _ => !exists,
        }
    }

    /// Do it.
    pub(super) fn perform(&self, spot: &HostSpot, caller: Caller) -> Step<()> {
        let (dir, name) = (spot.dir.as_fd(), &spot.name[..]);
        match self {
            Self::Mkdir { mode } => act::mkdir(dir, name, *mode)?,
            Self::Mknod { mode, dev } => act::mknod(dir, name, *mode, *dev)?,
            Self::Symlink { target } => act::symlink(target, dir, name)?,
            Self::Unlink { directory } => act::unlink(dir, name, *directory)?,
            Self::Access { mode, effective } if spot.file.is_none() && !name.ends_with(b"/") => {
                act::access(dir, name, *mode, *effective)?;
            }
            Self::Bind { socket } => act::bind(socket.as_fd(), dir, name)?,
            _ => return self.perform_on_file(spot, caller),
        }
        Ok(())
    }

    fn perform_on_file(&self, spot: &HostSpot, caller: Caller) -> Step<()> {
        let (file, stat) = open_existing(spot)?;
        let fd = file.as_fd();
        match self {
            Self::Truncate { len } => truncate(fd, &stat, *len, caller)?,
            // Links have no mode.
            Self::Chmod { .. } if stat.is_link() => return Err(Reply::Errno(Errno::OPNOTSUPP)),
            Self::Chmod { mode } => act::chmod(fd, *mode)?,
            Self::Chown { uid, gid } if !is_mapped(*uid, *gid) => return Err(Reply::Errno(Errno::INVAL)),
            Self::Chown { uid, gid } => act::chown(fd, *uid, *gid)?,
            Self::SetTimes { times } => act::set_times(fd, *times)?,
            Self::SetXattr { name, value, flags } => act::set_xattr(holder(fd, &stat, spot), name, value, *flags)?,
            Self::RemoveXattr { name } => act::remove_xattr(holder(fd, &stat, spot), name)?,
            Self::SetAttr { attr } => act::set_attr(holder(fd, &stat, spot), attr)?,
            Self::Access { mode, effective } => act::access(spot.dir.as_fd(), spot.bare_name(), *mode, *effective)?,
            _ => return Err(Reply::Continue),
        }
        Ok(())
    }
}

/// Do these ids exist inside? Without privilege one user and one group do, and the kernel gives a file to no other: with
/// the supervisor's further groups (`docker`, `sudo`) a set-group-ID program would outlive the sandbox.
fn is_mapped(owner: u32, of_group: u32) -> bool {
    let (user, group) = crate::sys::process::user();
    user == 0 || ([u32::MAX, user].contains(&owner) && [u32::MAX, group].contains(&of_group))
}

fn holder<'a>(fd: BorrowedFd<'a>, stat: &Stat, spot: &'a HostSpot) -> Holder<'a> {
    if stat.is_link() { Holder::Link { dir: spot.dir.as_fd(), name: spot.bare_name() } } else { Holder::File(fd) }
}

/// What lies at the name (`O_PATH`), if it is what the caller named.
pub(super) fn open_existing(spot: &HostSpot) -> Step<(OwnedFd, Stat)> {
    let file = act::open_name(spot.dir.as_fd(), spot.bare_name())?;
    let stat = act::stat(file.as_fd()).or_continue()?;
    if spot.file.is_some_and(|expected| expected != stat.file) {
        return Err(Reply::Continue);
    }
    if spot.name.ends_with(b"/") && !stat.is_dir() {
        return Err(Reply::Errno(Errno::NOTDIR));
    }
    Ok((file, stat))
}

/// The limit on a file's size is a process's own, so the kernel would apply the supervisor's.
fn truncate(file: BorrowedFd<'_>, stat: &Stat, len: i64, caller: Caller) -> Step<()> {
    if !stat.is_file() && !stat.is_dir() {
        return Err(Reply::Errno(Errno::INVAL));
    }
    let grows = stat.is_file() && u64::try_from(len).is_ok_and(|len| len > stat.size);
    if grows && caller.size_limit().or_continue()?.is_some_and(|limit| len.cast_unsigned() > limit) {
        caller.signal_size_limit();
        return Err(Reply::Errno(Errno::FBIG));
    }
    Ok(act::truncate(file, len)?)
}

/// Open a regular file for the caller, making it if that was asked for.
///
/// What exists is first looked at without opening it: a fifo put there by somebody else would block the broker. What is
/// none of a regular file's is left to the kernel, which lets a sandbox use fifos and sockets on a read-only mount.
pub(super) fn open(spot: &HostSpot, opening: &Opening, prepare: impl Fn() -> Step<()>) -> Step<OwnedFd> {
    for _ in 0..TRIES {
        match open_existing(spot) {
            Ok(_) if opening.is_exclusive() => return Err(Reply::Errno(Errno::EXIST)),
            Ok((file, stat)) if stat.is_file() => {
                let flags = opening.flags.difference(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW);
                return Ok(act::reopen_at_once(file.as_fd(), flags | OFlags::NOCTTY)?);
            }
            Ok(_) => return Err(Reply::Continue),
            Err(Reply::Errno(Errno::NOENT)) if opening.creates() && spot.file.is_none() => prepare()?,
            Err(reply) => return Err(reply),
        }
        let flags = opening.flags | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY;
        match act::open(spot.dir.as_fd(), spot.bare_name(), flags, opening.mode, ResolveFlags::empty()) {
            Err(Errno::EXIST) => {}
            result => return Ok(result?),
        }
    }
    Err(Reply::Continue)
}

/// Make a file without a name in `dir`.
pub(super) fn open_nameless(dir: BorrowedFd<'_>, opening: &Opening) -> Step<OwnedFd> {
    Ok(act::open(dir, b".", opening.flags | OFlags::NOCTTY, opening.mode, ResolveFlags::empty())?)
}

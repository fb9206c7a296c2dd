//! The mount interface of Linux 5.2 and later: mounts are descriptors until they are attached.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::{Errno, Error, Fd, Result, last_errno};

/// What a mount allows; everything that is not said stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `MOUNT_ATTR_*` bits to set.
    pub set: u64,
    /// `MOUNT_ATTR_*` bits to clear.
    pub clear: u64,
    /// A propagation type such as [`PRIVATE`], or 0.
    pub propagation: u64,
}

/// `MOUNT_ATTR_RDONLY`
pub const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// `MOUNT_ATTR_NOSUID`
pub const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
/// `MOUNT_ATTR_NODEV`
pub const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
/// `MOUNT_ATTR_NOEXEC`
pub const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;
/// `MS_PRIVATE`: mounts made here or on the host later are not seen on the other side.
pub const PRIVATE: u64 = libc::MS_PRIVATE;

/// `MS_UNBINDABLE`: a recursive clone of what lies around it leaves it out.
pub const UNBINDABLE: u64 = libc::MS_UNBINDABLE;

/// `mount_setattr(2)` (Linux 5.12) on the mount that `dir` and `path` name; with `recursive` on all below it too.
pub fn set_attributes(dir: impl AsFd, path: &Path, recursive: bool, attributes: Attributes) -> Result<()> {
    let dir = dir.as_fd();
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | if recursive { libc::AT_RECURSIVE } else { 0 };
    let attr = libc::mount_attr {
        attr_set: attributes.set,
        attr_clr: attributes.clear,
        propagation: attributes.propagation,
        userns_fd: 0,
    };
    let failed = |errno| {
        Error::new("mount_setattr", format_args!("{}, {path:?}, recursive={recursive}, {attributes:?}", Fd(dir)), errno)
    };
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| failed(Errno::INVAL))?;
    // SAFETY: the path is NUL-terminated and the structure has the size that is passed with it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of_val(&attr),
        )
    };
    if result == 0 { Ok(()) } else { Err(failed(last_errno())) }
}

/// `open_tree(2)` with `OPEN_TREE_CLONE`: a detached copy of what is mounted at `path`, with all mounts below it.
///
/// Without the mounts below, the kernel refuses trees with locked children (`EINVAL`).
pub fn clone_tree(dir: impl AsFd, path: &Path) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(dir, path, flags)
        .map_err(|errno| Error::new("open_tree", format_args!("{}, {path:?}, CLONE|RECURSIVE", Fd(dir)), errno))
}

/// `move_mount(2)` of a detached mount onto the place that `target` is: descriptor to descriptor, no path in between.
pub fn attach(mount: impl AsFd, target: impl AsFd) -> Result<()> {
    let (mount, target) = (mount.as_fd(), target.as_fd());
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", target, "", flags)
        .map_err(|errno| Error::new("move_mount", format_args!("{}, {}", Fd(mount), Fd(target)), errno))
}

/// A new file system instance as a detached mount: `fsopen`, `fsconfig` for each option, `fsmount`.
pub fn new_filesystem(kind: &str, options: &[(&str, &str)], attributes: u64) -> Result<OwnedFd> {
    let failed = |call, errno| Error::new(call, format_args!("{kind:?}, {options:?}"), errno);
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| failed("fsopen", errno))?;
    for (key, value) in options {
        configure(context.as_fd(), key, value).map_err(|errno| failed("fsconfig", errno))?;
    }
    rustix::mount::fsconfig_create(&context).map_err(|errno| failed("fsconfig create", errno))?;
    let attributes = MountAttrFlags::from_bits_retain(u32::try_from(attributes).unwrap_or(u32::MAX));
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(|errno| failed("fsmount", errno))
}

fn configure(context: BorrowedFd<'_>, key: &str, value: &str) -> std::result::Result<(), Errno> {
    if value.is_empty() {
        rustix::mount::fsconfig_set_flag(context, key)
    } else {
        rustix::mount::fsconfig_set_string(context, key, value)
    }
}

/// `umount2(2)` with `MNT_DETACH|UMOUNT_NOFOLLOW`.
pub fn detach(path: &Path) -> Result<()> {
    rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .map_err(|errno| Error::new("umount2", format_args!("{path:?}, DETACH|NOFOLLOW"), errno))
}

/// `umount2(2)` of the mount whose root is open here; `EINVAL` if it is mounted nowhere any more.
pub fn detach_at(root: impl AsFd) -> Result<()> {
    let dir = root.as_fd();
    rustix::process::fchdir(dir).map_err(|errno| Error::new("fchdir", format_args!("{}", Fd(dir)), errno))?;
    let detached = detach(Path::new("."));
    rustix::process::chdir("/").map_err(|errno| Error::new("chdir", format_args!("\"/\""), errno))?;
    detached
}

/// Where the directory that is open here lies, seen from the root (`getcwd(2)`); `ENOENT` if it was removed or is mounted
/// nowhere any more.
pub fn place_of(dir: impl AsFd) -> Result<PathBuf> {
    let dir = dir.as_fd();
    rustix::process::fchdir(dir).map_err(|errno| Error::new("fchdir", format_args!("{}", Fd(dir)), errno))?;
    let place = rustix::process::getcwd(Vec::new());
    rustix::process::chdir("/").map_err(|errno| Error::new("chdir", format_args!("\"/\""), errno))?;
    // The kernel puts `(unreachable)` before what does not lie below the root.
    place
        .map(|place| PathBuf::from(OsString::from_vec(place.into_bytes())))
        .and_then(|place| if place.is_absolute() { Ok(place) } else { Err(Errno::NOENT) })
        .map_err(|errno| Error::new("getcwd", format_args!(""), errno))
}

/// Make the mount at `new_root` the root and drop the old one: `pivot_root(".", ".")` and a lazy unmount (`pivot_root(2)`).
pub fn pivot_into(new_root: impl AsFd) -> Result<()> {
    pivot_from_stack(new_root, 0)
}

/// The same where `new_root` is mounted over the old root, with `between` mounts in between: those lie over the new root
/// afterwards, as the old root does, and go with it. `EBUSY`: something still does.
pub fn pivot_from_stack(new_root: impl AsFd, between: usize) -> Result<()> {
    let dir = new_root.as_fd();
    rustix::process::fchdir(dir).map_err(|errno| Error::new("fchdir", format_args!("{}", Fd(dir)), errno))?;
    rustix::process::pivot_root(".", ".")
        .map_err(|errno| Error::new("pivot_root", format_args!("\".\", \".\""), errno))?;
    for _ in 0..=between {
        // The topmost of what is mounted over the working directory.
        detach(Path::new("."))?;
    }
    // The look-up of `..` in the root goes up to whatever is mounted over it; that of the root itself does not.
    let (root, above) = (super::fs::stat(Path::new("/"))?, super::fs::stat(Path::new("/.."))?);
    if root.mount == above.mount { Ok(()) } else { Err(Error::new("pivot_root", format_args!("a stack"), Errno::BUSY)) }
}

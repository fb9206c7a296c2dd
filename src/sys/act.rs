//! The calls that the broker makes for others. Like [`super::fs`], but an error is the bare errno: it goes to the caller
//! as it is, some ten thousand times a second, and nobody reads it as text.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, StatVfsMountFlags, XattrFlags};
pub use rustix::fs::{Timespec, Timestamps};

use super::fs::Stat;
use super::{Errno, last_errno};

/// What every function here gives.
pub type Result<T> = std::result::Result<T, Errno>;

/// `PROC_SUPER_MAGIC`
const PROC: u64 = 0x9fa0;

/// Leave the file system context (`CLONE_FS`) that the threads of this process share: its umask and working directory are
/// this thread's own from now on.
pub fn unshare_fs() -> super::Result<()> {
    super::process::unshare(rustix::thread::UnshareFlags::FS)
}

/// `umask(2)`
pub fn set_umask(mask: u32) {
    rustix::process::umask(Mode::from_raw_mode(mask));
}

/// `openat2(2)`, asked again as long as a rename gets in the way of a scoped look-up.
pub fn open(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: u32, resolve: ResolveFlags) -> Result<OwnedFd> {
    // The kernel refuses a mode where nothing is created.
    let creates = flags.intersects(OFlags::CREATE) || flags.contains(OFlags::TMPFILE);
    let mode = if creates { Mode::from_raw_mode(mode & 0o7777) } else { Mode::empty() };
    loop {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
}

/// `openat2(2)` of a directory (`O_PATH`).
pub fn open_dir(dir: BorrowedFd<'_>, path: &[u8], resolve: ResolveFlags) -> Result<OwnedFd> {
    open(dir, path, OFlags::PATH | OFlags::DIRECTORY, 0, resolve)
}

/// A name in a directory, whatever it is (`O_PATH|O_NOFOLLOW`): nothing is opened, nothing blocks.
pub fn open_name(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Open again what `fd` (`O_PATH`) refers to.
pub fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
    loop {
        match rustix::fs::openat(CWD, magic(fd), flags | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Like [`reopen`], of a regular file, but `EAGAIN` where another process holds a lease on it (`fcntl(2)`, `F_SETLEASE`):
/// waiting for that process to give it up could take 45 seconds. The kernel tells it to.
pub fn reopen_at_once(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
    let file = reopen(fd, flags | OFlags::NONBLOCK)?;
    if !flags.contains(OFlags::NONBLOCK) {
        rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    }
    Ok(file)
}

/// Was the descriptor opened with `O_PATH`?
pub fn is_path_only(fd: BorrowedFd<'_>) -> Result<bool> {
    rustix::fs::fcntl_getfl(fd).map(|flags| flags.contains(OFlags::PATH))
}

/// A path by which this process reaches an open descriptor; following it leads to the very file.
fn magic(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// `statx(2)` of a descriptor.
pub fn stat(fd: BorrowedFd<'_>) -> Result<Stat> {
    statx(fd, b"", AtFlags::EMPTY_PATH)
}

/// `statx(2)` of a name; a link is not followed.
pub fn stat_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Stat> {
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn statx(dir: BorrowedFd<'_>, path: &[u8], flags: AtFlags) -> Result<Stat> {
    super::fs::stat_of(dir, path, flags)
}

/// Does the mount say read-only?
#[must_use]
pub fn is_read_only(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatvfs(fd).is_ok_and(|vfs| vfs.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Is it on a procfs, where links lead where their text does not say?
#[must_use]
pub fn is_proc(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|fs| u64::try_from(fs.f_type) == Ok(PROC))
}

/// Does the directory compare names without regard to case? One that cannot be read does not tell, and may.
#[must_use]
pub fn may_fold_case(dir: BorrowedFd<'_>) -> bool {
    let opened = rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    opened.map_or(true, super::fs::folds_case)
}

/// `readlinkat(2)`
pub fn readlink(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let (target, _) = rustix::fs::readlinkat_raw(dir, name, &mut buffer)?;
    Ok(target.to_vec())
}

/// The path that the kernel gives an open descriptor.
pub fn path_of(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    readlink(CWD, magic(fd).as_bytes())
}

/// A directory by its absolute path, no link on the way (`O_PATH`).
pub fn open_place(path: &Path) -> Result<OwnedFd> {
    open_dir(CWD, path.as_os_str().as_encoded_bytes(), ResolveFlags::NO_SYMLINKS)
}

/// `mkdirat(2)`
pub fn mkdir(dir: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<()> {
    rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))
}

/// `mknodat(2)` with type and permissions in `mode`.
pub fn mknod(dir: BorrowedFd<'_>, name: &[u8], mode: u32, dev: u64) -> Result<()> {
    rustix::fs::mknodat(dir, name, FileType::from_raw_mode(mode), Mode::from_raw_mode(mode), dev)
}

/// `symlinkat(2)`
pub fn symlink(target: &[u8], dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    rustix::fs::symlinkat(target, dir, name)
}

/// `linkat(2)` of a name; a link is linked itself.
pub fn link(from: BorrowedFd<'_>, old: &[u8], to: BorrowedFd<'_>, new: &[u8]) -> Result<()> {
    rustix::fs::linkat(from, old, to, new, AtFlags::empty())
}

/// `linkat(2)` of an open file, which may have no name yet (`O_TMPFILE`).
pub fn link_file(file: BorrowedFd<'_>, to: BorrowedFd<'_>, new: &[u8]) -> Result<()> {
    rustix::fs::linkat(CWD, magic(file), to, new, AtFlags::SYMLINK_FOLLOW)
}

/// `renameat2(2)`
pub fn rename(from: BorrowedFd<'_>, old: &[u8], to: BorrowedFd<'_>, new: &[u8], flags: u32) -> Result<()> {
    rustix::fs::renameat_with(from, old, to, new, RenameFlags::from_bits_retain(flags))
}

/// `unlinkat(2)`, of a directory if `directory`.
pub fn unlink(dir: BorrowedFd<'_>, name: &[u8], directory: bool) -> Result<()> {
    rustix::fs::unlinkat(dir, name, if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() })
}

/// `truncate(2)` of what `fd` refers to, without waiting for a lease (see [`reopen_at_once`]).
pub fn truncate(fd: BorrowedFd<'_>, len: i64) -> Result<()> {
    let len = u64::try_from(len).map_err(|_| Errno::INVAL)?;
    let file = reopen_at_once(fd, OFlags::WRONLY | OFlags::NOCTTY)?;
    rustix::fs::ftruncate(&file, len)
}

/// `chmod(2)` of what `fd` refers to.
pub fn chmod(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    rustix::fs::chmod(magic(fd), Mode::from_raw_mode(mode))
}

/// `fchownat(2)` of what `fd` refers to, be it a link; `u32::MAX` leaves an id.
pub fn chown(fd: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path is NUL-terminated.
    done(unsafe { libc::fchownat(fd.as_raw_fd(), c"".as_ptr(), uid, gid, flags) }.into())
}

/// `utimensat(2)` of what `fd` refers to, be it a link; without times, now.
pub fn set_times(fd: BorrowedFd<'_>, times: Option<[(i64, i64); 2]>) -> Result<()> {
    let times = times.map(|times| times.map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec }));
    let pointer = times.as_ref().map_or(std::ptr::null(), |times| times.as_ptr());
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path is NUL-terminated, `pointer` is null or two timespecs.
    done(unsafe { libc::syscall(libc::SYS_utimensat, fd.as_raw_fd(), c"".as_ptr(), pointer, flags) })
}

/// Where an extended attribute is: on what a descriptor refers to, or on a link, which no descriptor can stand for.
#[derive(Debug, Clone, Copy)]
pub enum Holder<'a> {
    File(BorrowedFd<'a>),
    Link { dir: BorrowedFd<'a>, name: &'a [u8] },
}

impl Holder<'_> {
    fn path(self) -> Vec<u8> {
        match self {
            Self::File(fd) => magic(fd).into_bytes(),
            Self::Link { dir, name } => [magic(dir).as_bytes(), b"/", name].concat(),
        }
    }
}

/// `setxattr(2)`
pub fn set_xattr(holder: Holder<'_>, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
    let (path, flags) = (holder.path(), XattrFlags::from_bits_retain(flags));
    match holder {
        Holder::File(_) => rustix::fs::setxattr(&path, name, value, flags),
        Holder::Link { .. } => rustix::fs::lsetxattr(&path, name, value, flags),
    }
}

/// `removexattr(2)`
pub fn remove_xattr(holder: Holder<'_>, name: &[u8]) -> Result<()> {
    let path = holder.path();
    match holder {
        Holder::File(_) => rustix::fs::removexattr(&path, name),
        Holder::Link { .. } => rustix::fs::lremovexattr(&path, name),
    }
}

/// `file_setattr(2)` (Linux 6.17) with a `struct file_attr` as the caller wrote it. It takes no `O_PATH` descriptor.
pub fn set_attr(holder: Holder<'_>, attr: &[u8]) -> Result<()> {
    const SYS_FILE_SETATTR: libc::c_long = 469;
    let text = c_string(&holder.path())?;
    let flags = if matches!(holder, Holder::Link { .. }) { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
    let (cwd, path) = (libc::AT_FDCWD, text.as_ptr());
    // SAFETY: the path is NUL-terminated and lives on; the kernel reads `attr.len()` bytes.
    done(unsafe { libc::syscall(SYS_FILE_SETATTR, cwd, path, attr.as_ptr(), attr.len(), flags) })
}

/// `faccessat2(2)` (Linux 5.8); with the effective ids if `effective`. A link itself is asked about.
pub fn access(dir: BorrowedFd<'_>, name: &[u8], mode: u32, effective: bool) -> Result<()> {
    let name = c_string(name)?;
    let flags = libc::AT_SYMLINK_NOFOLLOW | if effective { libc::AT_EACCESS } else { 0 };
    // SAFETY: the path is NUL-terminated.
    done(unsafe { libc::syscall(libc::SYS_faccessat2, dir.as_raw_fd(), name.as_ptr(), mode, flags) })
}

/// `bind(2)` of a unix socket to a name in `dir`, by way of this thread's own working directory: a path to `dir` might not
/// fit into the 108 bytes of an address.
pub fn bind(socket: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let address = rustix::net::SocketAddrUnix::new(name)?;
    rustix::process::fchdir(dir)?;
    let bound = rustix::net::bind(socket, &address);
    // The directory must not stay in use.
    rustix::process::chdir("/")?;
    bound
}

fn c_string(bytes: &[u8]) -> Result<std::ffi::CString> {
    std::ffi::CString::new(bytes).map_err(|_| Errno::INVAL)
}

fn done(result: libc::c_long) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

//! Calls on paths and descriptors. See the man page of each name; minimum kernels are given where they are above 5.6.

use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};

use super::{Errno, Error, Fd, Result};

/// What `statx` says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub file: FileId,
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes on disk.
    pub allocated: u64,
    /// Which device it is, for a device node.
    pub device: (u32, u32),
    /// The mount the file was reached through (`STATX_MNT_ID`, Linux 5.8).
    pub mount: u64,
}

/// Which file it is: the pair that is unique while the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    pub dev: (u32, u32),
    pub ino: u64,
}

impl Stat {
    /// The type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::RegularFile
    }

    #[must_use]
    pub fn is_link(&self) -> bool {
        self.file_type() == FileType::Symlink
    }
}

/// `openat2(2)`: the only way here to open something by path.
pub fn openat2(dir: impl AsFd, path: &Path, flags: OFlags, mode: Mode, resolve: ResolveFlags) -> Result<OwnedFd> {
    let dir = dir.as_fd();
    loop {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, mode, resolve) {
            // A concurrent rename during a scoped look-up, or a signal: ask again (openat2(2), EAGAIN).
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(fd) => return Ok(fd),
            Err(errno) => {
                return Err(Error::new(
                    "openat2",
                    format_args!("{}, {path:?}, {flags:?}, {resolve:?}", Fd(dir)),
                    errno,
                ));
            }
        }
    }
}

/// Open a path from the working directory, links followed.
pub fn open(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty())
}

/// Open a place (`O_PATH`) without following any link on the way.
pub fn open_place(path: &Path) -> Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Open what lies at `path` below `dir`, without links and without leaving `dir`.
pub fn open_beneath(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    openat2(dir, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

fn statx(dir: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> Result<Stat> {
    stat_of(dir, path, flags | AtFlags::STATX_DONT_SYNC)
        .map_err(|errno| Error::new("statx", format_args!("{}, {path:?}, {flags:?}", Fd(dir)), errno))
}

/// `statx(2)` with only the kernel's answer.
pub(super) fn stat_of(
    dir: BorrowedFd<'_>,
    path: impl rustix::path::Arg,
    flags: AtFlags,
) -> std::result::Result<Stat, Errno> {
    use rustix::fs::StatxFlags;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let x = rustix::fs::statx(dir, path, flags, mask)?;
    Ok(Stat {
        file: FileId { dev: (x.stx_dev_major, x.stx_dev_minor), ino: x.stx_ino },
        mode: x.stx_mode.into(),
        uid: x.stx_uid,
        gid: x.stx_gid,
        nlink: x.stx_nlink,
        size: x.stx_size,
        allocated: x.stx_blocks * 512,
        device: (x.stx_rdev_major, x.stx_rdev_minor),
        mount: x.stx_mnt_id,
    })
}

/// `statx(2)` of an open descriptor.
pub fn fstat(fd: impl AsFd) -> Result<Stat> {
    statx(fd.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)
}

/// `statx(2)` of a name in `dir`, a final link not followed.
pub fn lstat_at(dir: impl AsFd, path: &Path) -> Result<Stat> {
    statx(dir.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Like [`open_place`] and [`lstat_at`], for many look-ups of which most fail: only the kernel's answer is given.
pub fn find_place(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// See [`find_place`].
pub fn find_at(dir: impl AsFd, name: &Path) -> std::result::Result<Stat, Errno> {
    stat_of(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC)
}

/// `statx(2)` of a path, a final link not followed.
pub fn lstat(path: &Path) -> Result<Stat> {
    lstat_at(CWD, path)
}

/// `statx(2)` of a path, links followed.
pub fn stat(path: &Path) -> Result<Stat> {
    statx(CWD, path, AtFlags::empty())
}

/// `readlinkat(2)`.
pub fn readlink_at(dir: impl AsFd, path: &Path) -> Result<PathBuf> {
    let dir = dir.as_fd();
    rustix::fs::readlinkat(dir, path, Vec::with_capacity(256))
        .map(|target| OsString::from_vec(target.into_bytes()).into())
        .map_err(|errno| Error::new("readlinkat", format_args!("{}, {path:?}", Fd(dir)), errno))
}

/// `mkdirat(2)`.
pub fn mkdir_at(dir: impl AsFd, path: &Path, mode: u32) -> Result<()> {
    let dir = dir.as_fd();
    rustix::fs::mkdirat(dir, path, Mode::from_raw_mode(mode))
        .map_err(|errno| Error::new("mkdirat", format_args!("{}, {path:?}, {mode:#o}", Fd(dir)), errno))
}

/// `openat2(2)` with `O_CREAT|O_EXCL|O_NOFOLLOW`: a new file for writing.
pub fn create_at(dir: impl AsFd, path: &Path, mode: u32) -> Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR;
    openat2(dir, path, flags, Mode::from_raw_mode(mode), ResolveFlags::empty())
}

/// `symlinkat(2)`.
pub fn symlink_at(target: &Path, dir: impl AsFd, path: &Path) -> Result<()> {
    let dir = dir.as_fd();
    rustix::fs::symlinkat(target, dir, path)
        .map_err(|errno| Error::new("symlinkat", format_args!("{target:?}, {}, {path:?}", Fd(dir)), errno))
}

/// `unlinkat(2)` of something that is no directory.
pub fn unlink_at(dir: impl AsFd, path: &Path) -> Result<()> {
    unlinkat(dir.as_fd(), path, AtFlags::empty())
}

/// `unlinkat(2)` of an empty directory.
pub fn rmdir_at(dir: impl AsFd, path: &Path) -> Result<()> {
    unlinkat(dir.as_fd(), path, AtFlags::REMOVEDIR)
}

fn unlinkat(dir: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> Result<()> {
    rustix::fs::unlinkat(dir, path, flags)
        .map_err(|errno| Error::new("unlinkat", format_args!("{}, {path:?}, {flags:?}", Fd(dir)), errno))
}

/// `renameat2(2)`.
pub fn rename_at(from: impl AsFd, old: &Path, to: impl AsFd, new: &Path, flags: RenameFlags) -> Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    rustix::fs::renameat_with(from, old, to, new, flags).map_err(|errno| {
        Error::new("renameat2", format_args!("{}, {old:?}, {}, {new:?}, {flags:?}", Fd(from), Fd(to)), errno)
    })
}

/// `fchmod(2)`.
pub fn fchmod(fd: impl AsFd, mode: u32) -> Result<()> {
    let fd = fd.as_fd();
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
        .map_err(|errno| Error::new("fchmod", format_args!("{}, {mode:#o}", Fd(fd)), errno))
}

/// Does the directory compare names without regard to case (`FS_CASEFOLD_FL`, `chattr +F`)?
#[must_use]
pub fn folds_case(dir: impl AsFd) -> bool {
    const FS_CASEFOLD_FL: u32 = 0x4000_0000;
    // A file system without such flags has no such directories either.
    rustix::fs::ioctl_getflags(dir).is_ok_and(|flags| flags.bits() & FS_CASEFOLD_FL != 0)
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub ino: u64,
    /// `Unknown` on file systems that do not tell.
    pub file_type: FileType,
}

/// All entries of an open directory except `.` and `..` (`getdents64(2)`), in the file system's order.
pub fn entries(dir: impl AsFd) -> Result<Vec<Entry>> {
    let dir = dir.as_fd();
    let failed = |errno| Error::new("getdents64", format_args!("{}", Fd(dir)), errno);
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name: &CStr = entry.file_name();
        if name != c"." && name != c".." {
            found.push(Entry {
                name: OsString::from_vec(name.to_bytes().to_vec()),
                ino: entry.ino(),
                file_type: entry.file_type(),
            });
        }
    }
    Ok(found)
}

/// The path that the kernel gives an open descriptor (`/proc/self/fd/N`); ends in ` (deleted)` for a removed file.
pub fn path_of(fd: impl AsFd) -> Result<PathBuf> {
    use std::os::fd::AsRawFd;
    readlink_at(CWD, &Path::new("/proc/self/fd").join(fd.as_fd().as_raw_fd().to_string()))
}

/// The file offset of an open description (`lseek(2)`, `SEEK_CUR`).
pub fn offset(fd: impl AsFd) -> Result<u64> {
    let fd = fd.as_fd();
    rustix::fs::tell(fd).map_err(|errno| Error::new("lseek", format_args!("{}, 0, SEEK_CUR", Fd(fd)), errno))
}

/// How an open description may be used: `O_RDONLY`, `O_WRONLY` or `O_RDWR` (`fcntl(2)`, `F_GETFL`).
pub fn access_mode(fd: impl AsFd) -> Result<OFlags> {
    let fd = fd.as_fd();
    rustix::fs::fcntl_getfl(fd)
        .map(|flags| flags & OFlags::ACCMODE)
        .map_err(|errno| Error::new("fcntl", format_args!("{}, F_GETFL", Fd(fd)), errno))
}

/// Set the file offset of an open description (`lseek(2)`, `SEEK_SET`).
pub fn seek_to(fd: impl AsFd, offset: u64) -> Result<()> {
    let fd = fd.as_fd();
    rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(offset))
        .map(drop)
        .map_err(|errno| Error::new("lseek", format_args!("{}, {offset}, SEEK_SET", Fd(fd)), errno))
}

/// How much room a file system has (`fstatfs(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub available: u64,
    /// 0 where the file system does not count files.
    pub files: u64,
    pub files_available: u64,
}

/// Is it on a file system in memory (`fstatfs(2)`, `TMPFS_MAGIC`)?
pub fn is_tmpfs(fd: impl AsFd) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(fd.as_fd()).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS))
}

/// `fstatfs(2)`.
pub fn space(fd: impl AsFd) -> Result<Space> {
    let fd = fd.as_fd();
    let stat = rustix::fs::fstatvfs(fd).map_err(|errno| Error::new("fstatfs", format_args!("{}", Fd(fd)), errno))?;
    Ok(Space {
        total: stat.f_blocks * stat.f_frsize,
        available: stat.f_bavail * stat.f_frsize,
        files: stat.f_files,
        files_available: stat.f_ffree,
    })
}

/// Can this process write in the directory (`faccessat(2)`, `W_OK|X_OK`)?
pub fn check_writable(path: &Path) -> Result<()> {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(path, access).map_err(|errno| Error::new("access", format_args!("{path:?}, W_OK|X_OK"), errno))
}

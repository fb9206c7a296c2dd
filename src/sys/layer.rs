//! What comparing and copying files of a layer needs: every attribute, extended ones, and holes.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, SeekFrom, StatxFlags, XattrFlags};

use super::fs::{FileId, openat2};
use super::{Errno, Error, Fd, Result};

/// Seconds and nanoseconds since 1970.
pub type Time = (i64, u32);

/// All that `statx(2)` says of a file that matters when it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    pub file: FileId,
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    pub modified: Time,
    /// When anything about the file changed last: nobody can set that.
    pub changed: Time,
    pub mount: u64,
}

impl Meta {
    #[must_use]
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// A character device 0:0: how a layer says that the layers below have nothing here.
    #[must_use]
    pub fn is_whiteout(&self) -> bool {
        self.file_type() == FileType::CharacterDevice && self.device == (0, 0)
    }
}

/// `statx(2)` of what a descriptor names.
pub fn meta(fd: impl AsFd) -> Result<Meta> {
    let fd = fd.as_fd();
    let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let x = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, mask)
        .map_err(|errno| Error::new("statx", format_args!("{}", Fd(fd)), errno))?;
    Ok(Meta {
        file: FileId { dev: (x.stx_dev_major, x.stx_dev_minor), ino: x.stx_ino },
        mode: x.stx_mode.into(),
        uid: x.stx_uid,
        gid: x.stx_gid,
        nlink: x.stx_nlink,
        size: x.stx_size,
        device: (x.stx_rdev_major, x.stx_rdev_minor),
        modified: (x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec),
        changed: (x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec),
        mount: x.stx_mnt_id,
    })
}

/// Open what lies at `path` below `dir` without following any link, not even a final one (`O_PATH`); `None` if there is
/// nothing.
pub fn look(dir: impl AsFd, path: &Path) -> Result<Option<OwnedFd>> {
    match openat2(dir, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(error) if error.is(Errno::NOENT) || error.is(Errno::NOTDIR) => Ok(None),
        opened => opened.map(Some),
    }
}

fn link(fd: BorrowedFd<'_>) -> PathBuf {
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string())
}

/// Open for reading what a descriptor names.
pub fn read(fd: impl AsFd) -> Result<File> {
    let (fd, flags) = (fd.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
    openat2(CWD, &link(fd), flags, Mode::empty(), ResolveFlags::empty()).map(File::from)
}

/// The extended attributes of what a descriptor names, by name; none where the file system has none.
pub fn xattrs(fd: impl AsFd) -> Result<Vec<(CString, Vec<u8>)>> {
    let fd = fd.as_fd();
    let path = link(fd);
    let failed = |errno| Error::new("listxattr", format_args!("{}", Fd(fd)), errno);
    let mut names = vec![0; 1 << 16];
    let length = match rustix::fs::listxattr(&path, &mut names[..]) {
        Err(Errno::NOTSUP | Errno::ACCESS) => 0,
        listed => listed.map_err(failed)?,
    };
    let mut found = Vec::new();
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = CString::new(name) else { continue };
        if let Some(value) = xattr_at(&path, &name).map_err(failed)? {
            found.push((name, value));
        }
    }
    found.sort();
    Ok(found)
}

/// One extended attribute of what a descriptor names.
pub fn xattr(fd: impl AsFd, name: &CString) -> Result<Option<Vec<u8>>> {
    let fd = fd.as_fd();
    xattr_at(&link(fd), name).map_err(|errno| Error::new("getxattr", format_args!("{}, {name:?}", Fd(fd)), errno))
}

fn xattr_at(path: &Path, name: &CString) -> std::result::Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; 1 << 16];
    match rustix::fs::getxattr(path, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP | Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Set an extended attribute of what a descriptor names.
pub fn set_xattr(fd: impl AsFd, name: &CString, value: &[u8]) -> Result<()> {
    let fd = fd.as_fd();
    rustix::fs::setxattr(link(fd), name, value, XattrFlags::empty())
        .map_err(|errno| Error::new("setxattr", format_args!("{}, {name:?}", Fd(fd)), errno))
}

/// Make a whiteout (any user may, Linux 5.8).
pub fn whiteout(dir: impl AsFd, name: &Path) -> Result<()> {
    let dir = dir.as_fd();
    rustix::fs::mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0)
        .map_err(|errno| Error::new("mknodat", format_args!("{}, {name:?}, 0:0", Fd(dir)), errno))
}

/// Make a fifo.
pub fn fifo(dir: impl AsFd, name: &Path) -> Result<()> {
    let dir = dir.as_fd();
    rustix::fs::mknodat(dir, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(|errno| Error::new("mknodat", format_args!("{}, {name:?}, fifo", Fd(dir)), errno))
}

/// `linkat(2)`, a final link not followed.
pub fn hard_link(from: impl AsFd, old: &Path, to: impl AsFd, new: &Path) -> Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    rustix::fs::linkat(from, old, to, new, AtFlags::empty())
        .map_err(|errno| Error::new("linkat", format_args!("{}, {old:?}, {}, {new:?}", Fd(from), Fd(to)), errno))
}

/// Copy all data of a file into an empty one; holes stay holes where the file systems know of them.
pub fn copy(mut from: &File, mut to: &File, size: u64) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            found => found?,
        };
        let hole = rustix::fs::seek(from, SeekFrom::Hole(data))?;
        rustix::fs::seek(from, SeekFrom::Start(data))?;
        rustix::fs::seek(to, SeekFrom::Start(data))?;
        io::copy(&mut Read::by_ref(&mut from).take(hole - data), &mut to)?;
        at = hole;
    }
    to.set_len(size)
}

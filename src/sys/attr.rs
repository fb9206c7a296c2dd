//! Contents and attributes of small files, by descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::{Errno, Error, Fd, Result, fs};

/// What lies in the file `path` below `dir`, at most `limit` bytes of it. Links are not followed.
pub fn read(dir: impl AsFd, path: &Path, limit: usize) -> Result<Vec<u8>> {
    // NONBLOCK: where a fifo was put in the file's place, opening it must not wait.
    read_open(fs::open_beneath(dir, path, OFlags::RDONLY | OFlags::NONBLOCK)?, limit)
}

/// What an open file still gives, at most `limit` bytes of it.
pub fn read_open(file: impl AsFd, limit: usize) -> Result<Vec<u8>> {
    let file = file.as_fd();
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        let (len, more) = (bytes.len(), (limit - bytes.len()).min(4096));
        bytes.resize(len + more, 0);
        let read = read_some(file, &mut bytes[len..])?;
        bytes.truncate(len + read);
        // Regular files and those of /proc give less than was asked for only at their end.
        if read < more {
            break;
        }
    }
    Ok(bytes)
}

fn read_some(file: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize> {
    loop {
        match rustix::io::read(file, &mut *bytes) {
            Err(Errno::INTR) => {}
            read => return read.map_err(|errno| Error::new("read", format_args!("{}", Fd(file)), errno)),
        }
    }
}

/// Write all of `bytes`.
pub fn write(file: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    let file = file.as_fd();
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::new("write", format_args!("{}", Fd(file)), errno)),
        }
    }
    Ok(())
}

/// Write `bytes` at a place in a file, in one call (`pwrite(2)`).
pub fn write_at(file: impl AsFd, offset: u64, bytes: &[u8]) -> Result<()> {
    let file = file.as_fd();
    rustix::io::pwrite(file, bytes, offset)
        .map(drop)
        .map_err(|errno| Error::new("pwrite", format_args!("{}, {} bytes, {offset}", Fd(file), bytes.len()), errno))
}

/// Make a file this long (`ftruncate(2)`).
pub fn truncate(file: impl AsFd, length: u64) -> Result<()> {
    let file = file.as_fd();
    rustix::fs::ftruncate(file, length)
        .map_err(|errno| Error::new("ftruncate", format_args!("{}, {length}", Fd(file)), errno))
}

/// Change the permissions of what a descriptor names, also when it is an `O_PATH` one: `fchmod` refuses those, the
/// kernel's own link to the file does not (`fchmodat2` with `AT_EMPTY_PATH` needs Linux 6.6).
pub fn chmod(fd: impl AsFd, mode: u32) -> Result<()> {
    let fd = fd.as_fd();
    let path = Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string());
    rustix::fs::chmodat(CWD, &path, Mode::from_raw_mode(mode), AtFlags::empty())
        .map_err(|errno| Error::new("fchmodat", format_args!("{}, {mode:#o}", Fd(fd)), errno))
}

/// Set the time of last modification to now (`futimens(3)`).
pub fn touch(fd: impl AsFd) -> Result<()> {
    set_modified(fd.as_fd(), Timespec { tv_sec: 0, tv_nsec: UTIME_NOW })
}

/// Set the time of last modification.
pub fn set_time(fd: impl AsFd, time: SystemTime) -> Result<()> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    set_modified(fd.as_fd(), Timespec { tv_sec: seconds, tv_nsec: since.subsec_nanos().into() })
}

/// Set the time of last modification of what an `O_PATH` descriptor names.
pub fn set_time_of_place(fd: impl AsFd, time: SystemTime) -> Result<()> {
    let fd = fd.as_fd();
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let tv_sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let last_modification = Timespec { tv_sec, tv_nsec: since.subsec_nanos().into() };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification };
    let path = Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string());
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())
        .map_err(|errno| Error::new("utimensat", format_args!("{}", Fd(fd)), errno))
}

/// Change the owner of what a descriptor names, also an `O_PATH` one (`fchownat` with `AT_EMPTY_PATH`).
pub fn chown(fd: impl AsFd, uid: u32, gid: u32) -> Result<()> {
    let fd = fd.as_fd();
    let (owner, group) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    rustix::fs::chownat(fd, "", Some(owner), Some(group), AtFlags::EMPTY_PATH)
        .map_err(|errno| Error::new("fchownat", format_args!("{}, {uid}, {gid}", Fd(fd)), errno))
}

fn set_modified(fd: BorrowedFd<'_>, time: Timespec) -> Result<()> {
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: time };
    rustix::fs::futimens(fd, &times).map_err(|errno| Error::new("futimens", format_args!("{}", Fd(fd)), errno))
}

/// The time of last modification of what a descriptor names, also an `O_PATH` one.
pub fn modified(fd: impl AsFd) -> Result<SystemTime> {
    let fd = fd.as_fd();
    let stat = rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH)
        .map_err(|errno| Error::new("fstatat", format_args!("{}", Fd(fd)), errno))?;
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Ok(SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(stat.st_mtime).unwrap_or(0), nanos))
}

/// The time of last modification of the file `path` in `dir`, a final link not followed.
pub fn modified_at(dir: impl AsFd, path: &Path) -> Result<SystemTime> {
    let dir = dir.as_fd();
    let stat = rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| Error::new("fstatat", format_args!("{}, {path:?}", Fd(dir)), errno))?;
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let since = Duration::new(u64::try_from(stat.st_mtime).unwrap_or(0), nanos);
    Ok(SystemTime::UNIX_EPOCH + since)
}

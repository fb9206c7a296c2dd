//! What the host has, as far as the layout must know. Reads only.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::launch::ordered::read_descriptor;

/// What lies at a path, links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    Absent,
    Directory,
    /// Anything else but a link.
    File,
    Link(PathBuf),
    /// Not to be known before it is made.
    Unknown,
}

/// The questions that the layout asks.
pub(super) trait Host {
    fn look(&self, path: &Path) -> Look;
    /// `realpath(3)`
    fn real(&self, path: &Path) -> io::Result<PathBuf>;
    /// Is it `/dev/null`, an empty file, or an empty directory: something that shows nothing?
    fn shows_nothing(&self, path: &Path) -> bool;
    /// Where an open descriptor lies.
    fn descriptor(&self, fd: i32) -> io::Result<PathBuf>;
    /// The names of the directories in a directory, sorted; nothing where it cannot be read.
    fn directories(&self, path: &Path) -> Vec<OsString>;
    /// Does it give nothing? Takes what it gives.
    fn gives_nothing(&self, fd: i32) -> bool;
}

/// This machine.
pub(super) struct ThisHost;

impl Host for ThisHost {
    fn look(&self, path: &Path) -> Look {
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Look::Absent,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Look::Absent,
            Err(_) => Look::Unknown,
            Ok(stat) if stat.is_dir() => Look::Directory,
            Ok(stat) if stat.is_symlink() => path.read_link().map_or(Look::Unknown, Look::Link),
            Ok(_) => Look::File,
        }
    }

    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn shows_nothing(&self, path: &Path) -> bool {
        let Ok(stat) = path.symlink_metadata() else { return false };
        let empty_dir = || path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        path == Path::new("/dev/null") || (stat.is_file() && stat.len() == 0) || (stat.is_dir() && empty_dir())
    }

    fn descriptor(&self, fd: i32) -> io::Result<PathBuf> {
        Path::new("/proc/self/fd").join(fd.to_string()).read_link()
    }

    fn directories(&self, path: &Path) -> Vec<OsString> {
        let entries = path.read_dir().into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<_> = dirs.map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        names
    }

    fn gives_nothing(&self, fd: i32) -> bool {
        read_descriptor(fd).is_ok_and(|data| data.is_empty())
    }
}

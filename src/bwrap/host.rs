//! What the host has, as far as the layout must know. Reads only.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::launch::ordered::read_descriptor;
use crate::plan::Caller;
use crate::probe::{Wanted, permits};

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
    /// The links that lie in a directory; none where there is no directory, or one in which the caller can change nothing.
    fn links(&self, dir: &Path) -> io::Result<Vec<OsString>>;
    /// Where an open descriptor lies.
    fn descriptor(&self, fd: i32) -> io::Result<PathBuf>;
    /// The names of the directories in a directory, sorted; nothing where it cannot be read.
    fn directories(&self, path: &Path) -> Vec<OsString>;
    /// Does it give nothing? Takes what it gives.
    fn gives_nothing(&self, fd: i32) -> bool;
}

/// This machine, for a caller. What it has answered once it answers again: clients name few paths many times, and all
/// decisions of a launch are to be made about one and the same host.
pub(super) struct ThisHost<'a> {
    caller: &'a Caller,
    looks: RefCell<BTreeMap<OsString, Look>>,
    reals: RefCell<BTreeMap<OsString, PathBuf>>,
}

impl<'a> ThisHost<'a> {
    pub(super) fn new(caller: &'a Caller) -> Self {
        Self { caller, looks: RefCell::default(), reals: RefCell::default() }
    }

    /// The owner could at any time, whatever the mode says now.
    fn may_change(&self, dir: &Path) -> bool {
        let owns = dir.metadata().is_ok_and(|stat| stat.uid() == self.caller.uid);
        owns || permits(self.caller, dir, Wanted::Write)
    }
}

impl Host for ThisHost<'_> {
    fn look(&self, path: &Path) -> Look {
        if let Some(known) = self.looks.borrow().get(path.as_os_str()) {
            return known.clone();
        }
        let found = look(path);
        self.looks.borrow_mut().insert(path.into(), found.clone());
        found
    }

    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        if let Some(known) = self.reals.borrow().get(path.as_os_str()) {
            return Ok(known.clone());
        }
        let found = path.canonicalize()?;
        self.reals.borrow_mut().insert(path.into(), found.clone());
        Ok(found)
    }

    fn shows_nothing(&self, path: &Path) -> bool {
        if path == Path::new("/dev/null") {
            return true;
        }
        let Ok(stat) = path.symlink_metadata() else { return false };
        let empty_dir = || path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        (stat.is_file() && stat.len() == 0) || (stat.is_dir() && empty_dir())
    }

    fn links(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let entries = match dir.read_dir() {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !self.may_change(dir) => {
                return Ok(Vec::new());
            }
            entries => entries?.collect::<io::Result<Vec<_>>>()?,
        };
        let links = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        Ok(links.map(std::fs::DirEntry::file_name).collect())
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

fn look(path: &Path) -> Look {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Look::Absent,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Look::Absent,
        Err(_) => Look::Unknown,
        Ok(stat) if stat.is_dir() => Look::Directory,
        Ok(stat) if stat.is_symlink() => path.read_link().map_or(Look::Unknown, Look::Link),
        Ok(_) => Look::File,
    }
}

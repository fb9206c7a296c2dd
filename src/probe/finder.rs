//! Looks paths up; neighbours are looked up together.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;

use super::{direct, missing, present, walk};
use crate::plan::Place;
use crate::sys::Errno;
use crate::sys::fs::{self, FileType, OFlags};

/// A directory that more paths than this are looked up in is listed once, if it is small.
const LISTED_FROM: u32 = 3;
/// What counts as small, in bytes of the directory file.
const SMALL: u64 = 16_384;

/// Directories seen so far.
#[derive(Default)]
pub(super) struct Finder(HashMap<OsString, Parent>);

/// What the directory of a path is.
enum Parent {
    /// It is not there, or may not be entered.
    Missing(Errno),
    /// A link leads to it: the path has to be walked.
    Linked,
    Open(Directory),
}

struct Directory {
    fd: OwnedFd,
    looked_up: u32,
    names: Option<HashMap<OsString, FileType>>,
}

impl Finder {
    pub(super) fn place(&mut self, path: &Path) -> Place {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return walk(path) };
        if !self.0.contains_key(dir.as_os_str()) {
            self.0.insert(dir.into(), Parent::open(dir));
        }
        match self.0.get_mut(dir.as_os_str()) {
            Some(Parent::Open(directory)) => directory.place(path, name),
            Some(Parent::Missing(errno)) => direct(path, missing(*errno)),
            Some(Parent::Linked) | None => walk(path),
        }
    }
}

impl Parent {
    fn open(path: &Path) -> Self {
        match fs::find_place(path) {
            Ok(fd) => Self::Open(Directory { fd, looked_up: 0, names: None }),
            Err(Errno::LOOP) => Self::Linked,
            Err(errno) => Self::Missing(errno),
        }
    }
}

impl Directory {
    fn place(&mut self, path: &Path, name: &OsStr) -> Place {
        self.looked_up += 1;
        if self.looked_up == LISTED_FROM {
            self.names = self.list();
        }
        match self.names.as_ref().map(|names| names.get(name)) {
            Some(None) => return direct(path, missing(Errno::NOENT)),
            Some(Some(FileType::Symlink)) => return walk(path),
            _ => {}
        }
        match fs::find_at(&self.fd, Path::new(name)) {
            Ok(stat) if stat.is_link() => walk(path),
            Ok(stat) => direct(path, present(&stat)),
            Err(errno) => direct(path, missing(errno)),
        }
    }

    /// All names; `None` for a directory that is large or may not be read.
    fn list(&self) -> Option<HashMap<OsString, FileType>> {
        if fs::fstat(&self.fd).ok()?.size > SMALL {
            return None;
        }
        let readable = fs::open_beneath(&self.fd, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        Some(fs::entries(&readable).ok()?.into_iter().map(|entry| (entry.name, entry.file_type)).collect())
    }
}

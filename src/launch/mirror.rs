//! A directory of ours that holds a link to everything that a directory of the host holds, at any moment.
//!
//! A read-only overlay over the host's directory would be simpler and wrong: the kernel remembers the names that were looked
//! up through it, absent ones too, whatever the host does meanwhile.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::sys::fs::{self, FileType, OFlags};
use crate::sys::watch::Watch;
use crate::sys::{self, Errno, mount};

/// Where the host's own directory is to be seen when ours covers it.
const HOST: &str = ".stockade-host";

/// A mirror, kept current by [`Mirror::update`].
pub(super) struct Mirror {
    /// Where it appears.
    path: PathBuf,
    /// What the links lead to.
    prefix: PathBuf,
    /// The host's directory, open for reading.
    host: OwnedFd,
    /// Ours, on a mount of its own that stays writable and that nothing inside can reach.
    ours: OwnedFd,
}

impl Mirror {
    /// Fill the (attached) file system `frame`, which appears at `path`, with links to what the directory `of` holds, of
    /// which `tree` is a clone.
    pub(super) fn fill(frame: &OwnedFd, tree: OwnedFd, path: &Path, of: &Path) -> sys::Result<Self> {
        // Before anything is mounted in it: mounts below would be cloned too.
        let ours = mount::clone_tree(frame, Path::new(""))?;
        let host = fs::open_beneath(&tree, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let prefix = if path == of {
            fs::mkdir_at(frame, Path::new(HOST), 0o755)?;
            mount::attach(tree, fs::open_beneath(frame, Path::new(HOST), OFlags::PATH)?)?;
            HOST.into()
        } else {
            of.to_owned()
        };
        let mirror = Self { path: path.to_owned(), prefix, host, ours };
        mirror.update()?;
        Ok(mirror)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What has to stay open.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.host.as_fd(), self.ours.as_fd()]
    }

    pub(super) fn watch(&self, watch: &Watch) -> sys::Result<()> {
        watch.entries_of(&self.host)
    }

    /// Add links to what is new on the host, remove those to what is gone.
    pub(super) fn update(&self) -> sys::Result<()> {
        let there = names(&self.host, None)?;
        let here = names(&self.ours, None)?;
        let links = names(&self.ours, Some(FileType::Symlink))?;
        for name in there.difference(&here) {
            let name = Path::new(name);
            tolerate(Errno::EXIST, fs::symlink_at(&self.prefix.join(name), &self.ours, name))?;
        }
        for name in links.difference(&there) {
            tolerate(Errno::NOENT, fs::unlink_at(&self.ours, Path::new(name)))?;
        }
        Ok(())
    }
}

/// The names in a directory, of one type or of all.
fn names(dir: &OwnedFd, kind: Option<FileType>) -> sys::Result<BTreeSet<OsString>> {
    // Opened anew: a descriptor's reading position is shared with all its copies.
    let dir = match fs::open_beneath(dir, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY) {
        // The host has removed or closed it.
        Err(error) if error.is(Errno::NOENT) || error.is(Errno::ACCESS) => return Ok(BTreeSet::new()),
        opened => opened?,
    };
    let entries = fs::entries(dir)?.into_iter();
    Ok(entries.filter(|entry| kind.is_none_or(|kind| entry.file_type == kind)).map(|entry| entry.name).collect())
}

fn tolerate(errno: Errno, done: sys::Result<()>) -> sys::Result<()> {
    done.or_else(|error| if error.is(errno) { Ok(()) } else { Err(error) })
}

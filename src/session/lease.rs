//! The lease of a session: as long as a copy of its descriptor is open, the session lives.

use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::{Here, RecordState};
use super::run::{Basis, RunRecord};
use super::store::{Store, place};
use super::tree::Left;
use super::{Error, Id, Result, escape, run, state};
use crate::sys::{self, Errno, attr, fs, lock};
use fs::OFlags;
use lock::Lock;

pub(super) const LEASE: &str = "lease";

/// A session's directory and its lease, locked.
#[derive(Debug)]
pub(super) struct Held {
    pub dir: OwnedFd,
    pub lease: OwnedFd,
}

/// A session in use. The lock belongs to the open file, so a forked child keeps it as long as it keeps the descriptors of
/// [`Lease::fds`]; `exec` closes them.
#[derive(Debug)]
pub struct Lease {
    store: Store,
    id: Id,
    held: Held,
    record: RecordState,
    parent: Option<Box<Lease>>,
}

impl Lease {
    pub(super) fn new(store: Store, id: Id, held: Held, record: RecordState, parent: Option<Box<Lease>>) -> Self {
        Self { store, id, held, record, parent }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// What was written down about the session when it was opened.
    #[must_use]
    pub fn record(&self) -> &RecordState {
        &self.record
    }

    /// The session whose private directories this one shares, if it is a child.
    #[must_use]
    pub fn parent(&self) -> Option<&Lease> {
        self.parent.as_deref()
    }

    /// Does the session end with this run?
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.record.readable().is_some_and(|record| record.anonymous)
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The session's own directory.
    #[must_use]
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.held.dir.as_fd()
    }

    /// The session's own directory as a path on the host.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.store.session_path(&self.id)
    }

    /// Every descriptor that keeps the session alive: its own lease and those of its parents.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        iter::successors(Some(self), |lease| lease.parent()).map(|lease| lease.held.lease.as_fd())
    }

    /// The private directory that appears at `path` (made with mode 0700 if it is missing) and where it is on the host. The
    /// descriptor is an `O_PATH` one: the command may have taken even its owner's right to read.
    ///
    /// # Errors
    /// [`Error::BadPrivate`], [`Error::LongPrivate`], and what the kernel says.
    pub fn private(&self, path: &Path) -> Result<(OwnedFd, PathBuf)> {
        let (root, place, host) = self.private_place(path)?;
        let call = |error| Error::call("make private directory", &host, error);
        match open(root, &place) {
            Err(error) if error.is(Errno::NOENT) => {}
            opened => return opened.map_err(call).map(|fd| (fd, host.clone())),
        }
        state::mkdir(root, Path::new("private")).and_then(|()| state::mkdir(root, &place)).map_err(call)?;
        open(root, &place).map_err(call).map(|fd| (fd, host.clone()))
    }

    /// The private directory that appears at `path`, if the session has it already.
    ///
    /// # Errors
    /// As [`Lease::private`].
    pub fn existing(&self, path: &Path) -> Result<Option<(OwnedFd, PathBuf)>> {
        let (root, place, host) = self.private_place(path)?;
        match open(root, &place) {
            Ok(fd) => Ok(Some((fd, host))),
            Err(error) if error.is(Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::call("open private directory", host, error)),
        }
    }

    /// The session that holds the private directories: this one, or the first of its parents.
    pub(super) fn root(&self) -> &Lease {
        iter::successors(Some(self), |lease| lease.parent()).last().unwrap_or(self)
    }

    /// The directory of the session that holds the private directories, the place in it, and the path on the host.
    fn private_place(&self, path: &Path) -> Result<(BorrowedFd<'_>, PathBuf, PathBuf)> {
        let root = self.root();
        let place = Path::new("private").join(escape::name(path)?);
        let host = root.path().join(&place);
        Ok((root.dir(), place, host))
    }

    /// Write down that this process runs `command` in the session, for `session end` to name and to signal. Nothing else
    /// depends on it, so it can be done when the command has started. An anonymous session needs none: its own record names
    /// this process. The record goes when the value is dropped by the process that made it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run_record(&self, command: &str, basis: Option<Basis>) -> Result<RunRecord> {
        RunRecord::create(self.dir(), &self.path(), command, basis, Here::find()?)
    }

    /// Are there records of more runs than one?
    pub(super) fn has_other_runs(&self) -> bool {
        let runs = fs::open_beneath(self.dir(), Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY);
        runs.and_then(fs::entries).is_ok_and(|entries| entries.len() > 1)
    }

    /// Remove what runs of this session that died have left in it.
    ///
    /// # Errors
    /// What the kernel says of the directory of runs.
    pub fn sweep(&self) -> Result<Vec<Left>> {
        run::sweep(self.dir(), &self.path(), None)
    }

    /// Give the session up; one that belongs to this run alone is removed at once. Every process that had a copy of
    /// the descriptors should have ended. Gives what could not be removed and waits in the trash for the next reap.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn end(self) -> Result<Vec<Left>> {
        if !self.is_anonymous() {
            // It was in use until now, however long ago it was opened. A session on a full or read-only disk is still over.
            let _ = attr::touch(&self.held.lease);
            return Ok(Vec::new());
        }
        let place = place(&self.id);
        let call = |error| Error::call("remove session", self.store.path.join(&place), error);
        // Taking the exclusive lock may lose the shared one first (flock(2)): compare again. Where it fails, another run
        // has joined, and what it leaves is reaped as any session without a lease.
        if !insist(&self.held.lease).map_err(call)? {
            return Ok(Vec::new());
        }
        let now = match fs::lstat_at(&self.store.machine, &place.join(LEASE)) {
            Ok(now) => now,
            Err(error) if error.is(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) => return Err(call(error)),
        };
        if now.file != fs::fstat(&self.held.lease).map_err(call)?.file {
            return Ok(Vec::new());
        }
        self.store.discard(&self.held, &place, None)
    }
}

impl AsFd for Lease {
    /// The session's own lease; see [`Lease::fds`] for all that keep it alive.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.lease.as_fd()
    }
}

/// Take the exclusive lock although somebody who looks whether it is free may have it for a moment.
pub(super) fn insist(fd: &OwnedFd) -> sys::Result<bool> {
    for _ in 0..100 {
        if lock::try_lock(fd, Lock::Exclusive)? {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(false)
}

fn open(root: BorrowedFd<'_>, place: &Path) -> sys::Result<OwnedFd> {
    fs::open_beneath(root, place, OFlags::PATH | OFlags::DIRECTORY)
}

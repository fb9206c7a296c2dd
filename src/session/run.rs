//! What a run writes down about itself in its session.
//!
//! A run is alive as long as its record is locked; what the record says is for people, and for signals.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::lease::insist;
use super::record::{self, Here, Owner, Parsed, Presence, RECORD, now};
use super::store::Store;
use super::tree::{self, Left};
use super::{Error, Id, Result};
use crate::sys::{self, Errno, attr, fs, host, lock};
use fs::OFlags;
use host::Signal;
use lock::Lock;

/// The version of a run's record.
const SCHEMA: u64 = 1;
const LIMIT: usize = 1 << 16;
/// As much of a command line as is written down.
const COMMAND: usize = 4096;

/// What is in a run's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    schema: u64,
    supervisor: Owner,
    command: String,
    /// Seconds since 1970.
    created: u64,
}

/// The record of a run of this process.
#[derive(Debug)]
pub struct RunRecord {
    name: String,
    path: PathBuf,
    runs: OwnedFd,
    dir: OwnedFd,
    lock: OwnedFd,
    /// Whose it is: a forked child that drops its copy must not remove it.
    pid: u32,
}

/// A run that holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub session: Id,
    pub run: String,
    /// The process that supervises the run; `None`: its record cannot be read.
    pub supervisor: Option<Owner>,
    pub command: String,
    pub created: SystemTime,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.supervisor {
            Some(owner) => write!(f, "process {} ({:?})", owner.pid, self.command),
            None => write!(f, "run {}", self.run),
        }
    }
}

impl Holder {
    /// Signal the supervisor, if the process with its pid still is that one. Gives whether it was.
    pub(super) fn signal(&self, here: &Here, signal: Signal) -> Result<bool> {
        let Some(owner) = &self.supervisor else { return Ok(false) };
        // The descriptor first: then what is checked is the process that is signalled, even if the pid is reused.
        let Some(process) = host::open_process(owner.pid).map_err(Error::Host)? else { return Ok(false) };
        if owner.presence(here) != Presence::Alive {
            return Ok(false);
        }
        host::signal(process, signal).map_err(Error::Host)?;
        Ok(true)
    }
}

impl RunRecord {
    pub(super) fn create(session: BorrowedFd<'_>, path: &Path, command: &str) -> Result<Self> {
        let pid = std::process::id();
        let Some(supervisor) = Owner::of(pid)? else {
            let error = sys::Error::new("open", format_args!("/proc/{pid}/stat"), Errno::NOENT);
            return Err(Error::Host(error));
        };
        let record = Record { schema: SCHEMA, supervisor, command: shorten(command), created: now() };
        let path = path.join("runs");
        loop {
            let name = host::random_name().map_err(Error::Host)?;
            let made = Self::make(session, &path, &name, &record);
            // A reaper took it for a leftover before it was locked: make another.
            if let Some(made) = made.map_err(|error| Error::call("record the run in", &path, error))? {
                return Ok(made);
            }
        }
    }

    fn make(session: BorrowedFd<'_>, path: &Path, name: &str, record: &Record) -> sys::Result<Option<Self>> {
        let runs = open_runs(session)?;
        fs::mkdir_at(&runs, Path::new(name), 0o700)?;
        let made = Self::fill(&runs, name, record);
        if !matches!(made, Ok(Some(_))) {
            remove(runs.as_fd(), name);
        }
        let Some((dir, lock)) = made? else { return Ok(None) };
        Ok(Some(Self { name: name.into(), path: path.join(name), runs, dir, lock, pid: record.supervisor.pid }))
    }

    fn fill(runs: &OwnedFd, name: &str, record: &Record) -> sys::Result<Option<(OwnedFd, OwnedFd)>> {
        let taken = |error: sys::Error| if error.is(Errno::NOENT) { Ok(None) } else { Err(error) };
        let dir = match fs::open_beneath(runs, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => dir,
            Err(error) => return taken(error),
        };
        let lock = match fs::create_at(&dir, Path::new(RECORD), 0o600) {
            Ok(lock) => lock,
            Err(error) => return taken(error),
        };
        // A reaper that took the record for a leftover holds the lock until it is gone.
        if !insist(&lock)? {
            return Ok(None);
        }
        match fs::lstat_at(runs, &Path::new(name).join(RECORD)) {
            Ok(now) if now.file == fs::fstat(&lock)?.file => {}
            Ok(_) => return Ok(None),
            Err(error) => return taken(error),
        }
        attr::write(&lock, &record::to_bytes(record))?;
        Ok(Some((dir, lock)))
    }

    /// Leave the record where it is when the value is dropped, as a process does that is killed.
    #[cfg(test)]
    pub(super) fn disown(&mut self) {
        self.pid = 0;
    }

    /// The run's name: unique in its session.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The run's own directory, which goes with the record, whatever is put into it.
    #[must_use]
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The run's own directory as a path on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for RunRecord {
    /// The locked record: the run is alive as long as a copy of this descriptor is open.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

impl Drop for RunRecord {
    fn drop(&mut self) {
        if std::process::id() == self.pid {
            tree::clear(self.dir.as_fd(), RECORD.as_ref(), None);
            remove(self.runs.as_fd(), &self.name);
        }
    }
}

fn shorten(command: &str) -> String {
    command.chars().take(COMMAND).collect()
}

fn open_runs(session: BorrowedFd<'_>) -> sys::Result<OwnedFd> {
    let open = || fs::open_beneath(session, Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY);
    match open() {
        Err(error) if error.is(Errno::NOENT) => {
            super::state::mkdir(session, Path::new("runs"))?;
            open()
        }
        opened => opened,
    }
}

/// Remove a run's record and directory. What stays is a leftover for the next sweep.
fn remove(runs: BorrowedFd<'_>, name: &str) {
    let name = Path::new(name);
    let _ = fs::unlink_at(runs, &name.join(RECORD));
    let _ = fs::rmdir_at(runs, name);
}

/// The runs of a session that are alive.
pub(super) fn holders(session: &OwnedFd, id: &Id) -> Vec<Holder> {
    // A session without a directory of runs has none.
    let Ok(runs) = fs::open_beneath(session, Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Vec::new();
    };
    let names = fs::entries(&runs).unwrap_or_default();
    names.iter().filter_map(|entry| holder(&runs, &entry.name.to_string_lossy(), id)).collect()
}

fn holder(runs: &OwnedFd, name: &str, id: &Id) -> Option<Holder> {
    let file = open_record(runs, name).ok()?;
    if lock::try_lock(&file, Lock::Shared).ok()? {
        return None;
    }
    let (supervisor, command, created) = match record::parse::<Record>(&attr::read_open(&file, LIMIT).ok()?) {
        Parsed::Whole(record) => (Some(record.supervisor), record.command, record.created),
        Parsed::Newer(_) | Parsed::Torn(_) => (None, String::new(), 0),
    };
    Some(Holder { session: id.clone(), run: name.into(), supervisor, command, created: record::time(created) })
}

fn open_record(runs: &OwnedFd, name: &str) -> sys::Result<OwnedFd> {
    fs::open_beneath(runs, &Path::new(name).join(RECORD), OFlags::RDWR | OFlags::NONBLOCK)
}

/// Remove the directories of runs that have died; `path` is the session's.
pub(super) fn sweep(store: &Store, session: BorrowedFd<'_>, path: &Path, until: Option<Instant>) -> Result<Vec<Left>> {
    let call = |error| Error::call("read", path.join("runs"), error);
    let runs = match fs::open_beneath(session, Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(runs) => runs,
        Err(error) if error.is(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(call(error)),
    };
    let mut left = Vec::new();
    for entry in fs::entries(&runs).map_err(call)? {
        let name = Path::new(&entry.name);
        match sweep_one(store, &runs, name, until) {
            Ok(more) => left.extend(more),
            Err(error) => left.push(Left { path: path.join("runs").join(name), cause: tree::Cause::Call(error) }),
        }
    }
    Ok(left)
}

fn sweep_one(store: &Store, runs: &OwnedFd, name: &Path, until: Option<Instant>) -> sys::Result<Vec<Left>> {
    let gone = |error: sys::Error| match error.errno() {
        // Not empty: somebody has just put his record there.
        Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST => Ok(Vec::new()),
        _ => Err(error),
    };
    let Ok(record) = open_record(runs, &name.to_string_lossy()) else {
        return fs::rmdir_at(runs, name).map(|()| Vec::new()).or_else(gone);
    };
    if !lock::try_lock(&record, Lock::Exclusive)? {
        return Ok(Vec::new());
    }
    match fs::lstat_at(runs, &name.join(RECORD)) {
        Ok(now) if now.file == fs::fstat(&record)?.file => {}
        Ok(_) => return Ok(Vec::new()),
        Err(error) => return gone(error),
    }
    store.throw_away(runs.as_fd(), name, RECORD, until)
}

//! What a run writes down about itself in its session.
//!
//! A run is alive as long as its record is locked; what the record says is for people, and for signals.

use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::lease::insist;
use super::record::{self, Here, Owner, Parsed, Presence, now};
use super::tree::{self, Cause, Left};
use super::{Error, Id, Result, state};
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
    #[serde(default)]
    basis: Option<Basis>,
}

/// What a run's policy was made of, besides its command line and environment: those its supervisor has as long as it
/// lives. With these the policy can be made again, and it can be told whether it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// The working directory.
    pub cwd: String,
    pub project: String,
    /// Where the project has its repository, if not in itself.
    pub repository: Option<String>,
    /// What is not there in the project's `.git`: linked work trees, repositories of submodules.
    pub git_lacks: (bool, bool),
    /// Of each policy file: inode, bytes, seconds and nanoseconds of its last change.
    pub files: Vec<(u64, u64, i64, i64)>,
}

/// The record of a run of this process.
#[derive(Debug)]
pub struct RunRecord {
    name: String,
    /// The directory of runs, as a path on the host and open.
    path: PathBuf,
    runs: OwnedFd,
    lock: OwnedFd,
    /// Was a directory made?
    has_dir: Cell<bool>,
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
    /// What its policy was made of, if that was written down.
    pub basis: Option<Basis>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.supervisor {
            Some(owner) if self.command.is_empty() => write!(f, "process {}", owner.pid),
            Some(owner) => write!(f, "process {} ({:?})", owner.pid, self.command),
            None => write!(f, "run {}", self.run),
        }
    }
}

impl Holder {
    /// The run that an anonymous session belongs to.
    pub(super) fn own(session: record::Record) -> Self {
        Self {
            run: session.id.to_string(),
            session: session.id,
            supervisor: session.owner,
            command: String::new(),
            created: record::time(session.created),
            basis: None,
        }
    }

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
    pub(super) fn create(
        session: BorrowedFd<'_>,
        path: &Path,
        command: &str,
        basis: Option<Basis>,
        here: &Here,
    ) -> Result<Self> {
        let pid = std::process::id();
        let Some(supervisor) = Owner::in_namespace(here, pid)? else {
            let error = sys::Error::new("open", format_args!("/proc/{pid}/stat"), Errno::NOENT);
            return Err(Error::Host(error));
        };
        let record = Record { schema: SCHEMA, supervisor, command: shorten(command), created: now(), basis };
        let path = path.join("runs");
        let call = |error| Error::call("record the run in", &path, error);
        let runs = open_runs(session).map_err(call)?;
        loop {
            let name = host::random_name().map_err(Error::Host)?;
            // A reaper may take it for a leftover before it is locked: make another.
            if let Some(lock) = make(&runs, &file(&name), &record).map_err(call)? {
                return Ok(Self { name, path, runs, lock, has_dir: Cell::new(false), pid });
            }
        }
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

    /// The record as a path on the host.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.join(file(&self.name))
    }

    /// A directory of the run's own (made if it is missing) and where it is on the host. It goes with the record, whatever
    /// is in it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn dir(&self) -> Result<(OwnedFd, PathBuf)> {
        let (name, path) = (Path::new(&self.name), self.path.join(&self.name));
        self.has_dir.set(true);
        state::mkdir(self.runs.as_fd(), name)
            .and_then(|()| fs::open_beneath(&self.runs, name, OFlags::RDONLY | OFlags::DIRECTORY))
            .map(|dir| (dir, path.clone()))
            .map_err(|error| Error::call("make the run's directory", path, error))
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
        if std::process::id() != self.pid {
            return;
        }
        if self.has_dir.get() && !remove_dir(&self.runs, Path::new(&self.name), None).is_empty() {
            // The record stays, so that the next sweep finds the rest.
            return;
        }
        // What stays is a leftover for the next sweep.
        let _ = fs::unlink_at(&self.runs, &file(&self.name));
    }
}

/// Make the record and lock it.
fn make(runs: &OwnedFd, file: &Path, record: &Record) -> sys::Result<Option<OwnedFd>> {
    let lock = fs::create_at(runs, file, 0o600)?;
    let made = fill(runs, file, &lock, record);
    if made.is_err() {
        // The cause is reported; nothing of ours should stay.
        let _ = fs::unlink_at(runs, file);
    }
    Ok(made?.then_some(lock))
}

fn fill(runs: &OwnedFd, file: &Path, lock: &OwnedFd, record: &Record) -> sys::Result<bool> {
    // A reaper that took the record for a leftover holds the lock until it is gone.
    if !insist(lock)? || !is_at(runs, file, lock)? {
        return Ok(false);
    }
    attr::write(lock, &record::to_bytes(record)).map(|()| true)
}

/// Does the name in `runs` still name the open file?
fn is_at(runs: &OwnedFd, file: &Path, open: &OwnedFd) -> sys::Result<bool> {
    match fs::lstat_at(runs, file) {
        Ok(now) => Ok(now.file == fs::fstat(open)?.file),
        Err(error) if error.is(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file of a run.
fn file(name: &str) -> PathBuf {
    format!("{name}.json").into()
}

fn shorten(command: &str) -> String {
    command.chars().take(COMMAND).collect()
}

fn open_runs(session: BorrowedFd<'_>) -> sys::Result<OwnedFd> {
    let open = || fs::open_beneath(session, Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY);
    match open() {
        Err(error) if error.is(Errno::NOENT) => {
            state::mkdir(session, Path::new("runs"))?;
            open()
        }
        opened => opened,
    }
}

/// The runs of a session that are alive.
pub(super) fn holders(session: &OwnedFd, id: &Id) -> Vec<Holder> {
    // A session without a directory of runs has none.
    let Ok(runs) = fs::open_beneath(session, Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Vec::new();
    };
    let names = fs::entries(&runs).unwrap_or_default();
    names.iter().filter_map(|entry| holder(&runs, entry.name.to_str()?.strip_suffix(".json")?, id)).collect()
}

fn holder(runs: &OwnedFd, name: &str, id: &Id) -> Option<Holder> {
    let file = open_record(runs, &file(name)).ok()?;
    if lock::try_lock(&file, Lock::Shared).ok()? {
        return None;
    }
    let (session, run) = (id.clone(), name.into());
    Some(match record::parse::<Record>(&attr::read_open(&file, LIMIT).ok()?) {
        Parsed::Whole(Record { supervisor, command, created, basis, .. }) => {
            Holder { session, run, supervisor: Some(supervisor), command, created: record::time(created), basis }
        }
        Parsed::Newer(_) | Parsed::Torn(_) => {
            let (supervisor, command, created) = (None, String::new(), record::time(0));
            Holder { session, run, supervisor, command, created, basis: None }
        }
    })
}

fn open_record(runs: &OwnedFd, file: &Path) -> sys::Result<OwnedFd> {
    fs::open_beneath(runs, file, OFlags::RDWR | OFlags::NONBLOCK)
}

/// Remove what runs that have died have left; `path` is the session's.
pub(super) fn sweep(session: BorrowedFd<'_>, path: &Path, until: Option<Instant>) -> Result<Vec<Left>> {
    let path = path.join("runs");
    let call = |error| Error::call("read", &path, error);
    let runs = match fs::open_beneath(session, Path::new("runs"), OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(runs) => runs,
        Err(error) if error.is(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(call(error)),
    };
    let mut left = Vec::new();
    for entry in fs::entries(&runs).map_err(call)? {
        let Some(name) = entry.name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
        match sweep_one(&runs, name, until) {
            Ok(more) => left.extend(more),
            Err(error) => left.push(Left { path: name.into(), cause: Cause::Call(error) }),
        }
    }
    for item in &mut left {
        item.path = path.join(&item.path);
    }
    Ok(left)
}

/// Remove a run's directory and record, if nothing holds its lock.
fn sweep_one(runs: &OwnedFd, name: &str, until: Option<Instant>) -> sys::Result<Vec<Left>> {
    let file = file(name);
    let record = match open_record(runs, &file) {
        Ok(record) => record,
        Err(error) if error.is(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if !lock::try_lock(&record, Lock::Exclusive)? || !is_at(runs, &file, &record)? {
        return Ok(Vec::new());
    }
    let left = remove_dir(runs, Path::new(name), until);
    if left.is_empty() {
        fs::unlink_at(runs, &file)?;
    }
    Ok(left)
}

/// Remove a run's directory, if it has one.
fn remove_dir(runs: &OwnedFd, name: &Path, until: Option<Instant>) -> Vec<Left> {
    let gone = |error: &sys::Error| error.is(Errno::NOENT);
    let failed = |error| vec![Left { path: name.into(), cause: Cause::Call(error) }];
    let mut left = match fs::open_beneath(runs, name, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(dir) => tree::clear(dir.as_fd(), "".as_ref(), until),
        Err(error) if gone(&error) => return Vec::new(),
        Err(error) => return failed(error),
    };
    for item in &mut left {
        item.path = name.join(&item.path);
    }
    match left.is_empty().then(|| fs::rmdir_at(runs, name)) {
        Some(Err(error)) if !gone(&error) => failed(error),
        _ => left,
    }
}

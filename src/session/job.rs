//! Background jobs: each has a directory in its session, `jobs/<id>/`.
//!
//! ```text
//! lock          flock: held by the supervisor as long as it lives
//! record.json   what runs, who supervises it
//! log/          what it printed (see `log`)
//! status.json   how it ended
//! denials.json  what the policy denied it, a JSON line each
//! ```
//!
//! A job whose lock is free and that has no status has died with its supervisor: it is lost.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::log::{self, LogReader, LogWriter};
use super::record::{self, Parsed, Presence, now};
use super::store::Store;
use super::tree::{self, Left};
use super::{Error, Id, Lease, Owner, Result, state};
use crate::sys::{self, Errno, attr, fs, host, lock};
use fs::{OFlags, RenameFlags};
use host::Signal;
use lock::Lock;

const SCHEMA: u64 = 1;
const LIMIT: usize = 1 << 20;
const RECORD: &str = "record.json";
const STATUS: &str = "status.json";
const DENIALS: &str = "denials.json";
const LOCK: &str = "lock";

/// What is written down about a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    pub schema: u64,
    pub id: String,
    pub name: Option<String>,
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    /// Nanoseconds since 1970.
    pub created: u64,
    pub supervisor: Owner,
    /// The command itself, once it runs.
    pub command: Option<Owner>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobEnd {
    Exited(u8),
    Signaled(i32),
    /// Stockade failed meanwhile, and why.
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Status {
    schema: u64,
    end: JobEnd,
    /// Why stockade ended it, if it did.
    #[serde(default)]
    note: Option<String>,
    /// Seconds since 1970.
    ended: u64,
}

/// What a job is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Running,
    Ended(JobEnd, SystemTime),
    /// It died with its supervisor: nobody knows how.
    Lost,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Ended(JobEnd::Exited(status), _) => write!(f, "exited {status}"),
            Self::Ended(JobEnd::Signaled(signal), _) => write!(f, "signal {signal}"),
            Self::Ended(JobEnd::Failed(_), _) => f.write_str("failed"),
            Self::Lost => f.write_str("lost"),
        }
    }
}

/// A job as its supervisor has it.
#[derive(Debug)]
pub struct Job {
    id: String,
    name: Option<String>,
    created: u64,
    path: PathBuf,
    jobs: OwnedFd,
    dir: OwnedFd,
    lock: OwnedFd,
}

/// A job as somebody looks at it from outside.
#[derive(Debug)]
pub struct FoundJob {
    pub session: Id,
    pub id: String,
    pub record: JobRecord,
    pub state: JobState,
    pub path: PathBuf,
    jobs: OwnedFd,
    dir: OwnedFd,
}

/// A new job's id.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn new_job_id() -> Result<String> {
    Ok(host::random_name().map_err(Error::Host)?[..8].to_owned())
}

impl Lease {
    /// Make a job's directory and lock it: the job lives as long as a copy of the descriptor is open.
    ///
    /// # Errors
    /// [`Error::JobName`] when a job of that name is running in the session, and what the kernel says.
    pub fn new_job(&self, id: &str, name: Option<&str>) -> Result<Job> {
        if let Some(name) = name
            && let Some(job) = self.store().live_job(self.id(), name)?
        {
            return Err(Error::JobName { name: name.to_owned(), id: job.id });
        }
        let path = self.path().join("jobs").join(id);
        let call = |error| Error::call("make job", &path, error);
        let (jobs, dir, lock) = make(self, Path::new(id)).map_err(call)?;
        Ok(Job { id: id.to_owned(), name: name.map(str::to_owned), created: nanoseconds(), path, jobs, dir, lock })
    }
}

/// Since 1970; finer than seconds, because the latest of the jobs of one name is looked for.
fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn make(lease: &Lease, id: &Path) -> sys::Result<(OwnedFd, OwnedFd, OwnedFd)> {
    state::mkdir(lease.dir(), Path::new("jobs"))?;
    let jobs = fs::open_beneath(lease.dir(), Path::new("jobs"), OFlags::RDONLY | OFlags::DIRECTORY)?;
    fs::mkdir_at(&jobs, id, 0o700)?;
    let dir = fs::open_beneath(&jobs, id, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let lock = fs::create_at(&dir, Path::new(LOCK), 0o600)?;
    // Nobody else knows it yet, and who looks takes no lock before there is a record.
    lock::try_lock(&lock, Lock::Exclusive)?;
    Ok((jobs, dir, lock))
}

impl Job {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A second one with the same lock.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            id: self.id.clone(),
            name: self.name.clone(),
            created: self.created,
            path: self.path.clone(),
            jobs: self.jobs.try_clone()?,
            dir: self.dir.try_clone()?,
            lock: self.lock.try_clone()?,
        })
    }

    /// Write down what this process supervises.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn record(&self, argv: Vec<String>, cwd: &Path, command: Option<u32>) -> Result<()> {
        let us = std::process::id();
        let gone = || Error::Host(sys::Error::new("open", format_args!("/proc/{us}/stat"), Errno::NOENT));
        let record = JobRecord {
            schema: SCHEMA,
            id: self.id.clone(),
            name: self.name.clone(),
            argv,
            cwd: cwd.to_owned(),
            created: self.created,
            supervisor: Owner::of(us)?.ok_or_else(gone)?,
            command: command.map(Owner::of).transpose()?.flatten(),
        };
        self.replace(RECORD, &record)
    }

    /// Write a file whole.
    fn replace(&self, name: &str, content: &impl Serialize) -> Result<()> {
        let (temp, name) = (PathBuf::from(format!(".{name}")), Path::new(name));
        let written = fs::create_at(&self.dir, &temp, 0o600)
            .and_then(|file| attr::write(file, &record::to_bytes(content)))
            .and_then(|()| fs::rename_at(&self.dir, &temp, &self.dir, name, RenameFlags::empty()));
        written.map_err(|error| Error::call("write", self.path.join(name), error))
    }

    /// The log, to be written; at most `limit` bytes of it stay.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn log(&self, limit: u64) -> Result<LogWriter> {
        LogWriter::create(self.dir.as_fd(), &self.path, limit)
    }

    /// The file that denials are written to.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn denials(&self) -> Result<File> {
        let created = fs::create_at(&self.dir, Path::new(DENIALS), 0o600);
        created.map(File::from).map_err(|error| Error::call("make", self.path.join(DENIALS), error))
    }

    /// Write down how the job ended, and why stockade ended it, if it did.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn finish(&self, end: JobEnd, note: Option<String>) -> Result<()> {
        self.replace(STATUS, &Status { schema: SCHEMA, end, note, ended: now() })
    }

    /// The job was never started: forget it.
    pub fn discard(self) {
        // What stays of it goes with the session.
        let _ = remove(&self.jobs, &self.dir, &self.id);
    }
}

impl AsFd for Job {
    /// The lock.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

fn remove(jobs: &OwnedFd, dir: &OwnedFd, id: &str) -> sys::Result<Vec<Left>> {
    let left = tree::clear(dir.as_fd(), "".as_ref(), None);
    if left.is_empty() {
        fs::rmdir_at(jobs, Path::new(id))?;
    }
    Ok(left)
}

impl Store {
    /// The jobs of one session, or of all, oldest first.
    ///
    /// # Errors
    /// [`Error::NoSession`], and what the kernel says.
    pub fn jobs(&self, session: Option<&Id>) -> Result<Vec<FoundJob>> {
        let mut found = if let Some(id) = session {
            self.jobs_of(id)?.ok_or_else(|| Error::NoSession(id.clone()))?
        } else {
            // A session that cannot be read is listed by `session list`.
            self.ids()?.filter_map(|id| self.jobs_of(&id).ok().flatten()).flatten().collect()
        };
        found.sort_by(|a, b| (a.record.created, &a.id).cmp(&(b.record.created, &b.id)));
        Ok(found)
    }

    fn jobs_of(&self, session: &Id) -> Result<Option<Vec<FoundJob>>> {
        let Some(dir) = self.open_dir(session)? else { return Ok(None) };
        let call = |error| Error::call("read the jobs of", self.session_path(session), error);
        let jobs = match fs::open_beneath(&dir, Path::new("jobs"), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(jobs) => jobs,
            Err(error) if error.is(Errno::NOENT) => return Ok(Some(Vec::new())),
            Err(error) => return Err(call(error)),
        };
        let path = self.session_path(session).join("jobs");
        let names = fs::entries(&jobs).map_err(call)?;
        Ok(Some(names.iter().filter_map(|entry| look(&jobs, &path, session, entry.name.to_str()?)).collect()))
    }

    /// The job with this id, or the latest one with this name.
    ///
    /// # Errors
    /// [`Error::NoJob`], [`Error::ManyJobs`] when sessions have one each, and what the kernel says.
    pub fn job(&self, session: Option<&Id>, wanted: &str) -> Result<FoundJob> {
        let mut found = self.jobs(session)?;
        found.retain(|job| job.id == wanted || job.record.name.as_deref() == Some(wanted));
        let sessions: std::collections::BTreeSet<Id> = found.iter().map(|job| job.session.clone()).collect();
        if sessions.len() > 1 {
            return Err(Error::ManyJobs { job: wanted.to_owned(), sessions: sessions.into_iter().collect() });
        }
        found.pop().ok_or_else(|| Error::NoJob(wanted.to_owned()))
    }

    fn live_job(&self, session: &Id, name: &str) -> Result<Option<FoundJob>> {
        let jobs = self.jobs_of(session)?.unwrap_or_default();
        Ok(jobs.into_iter().find(|job| job.record.name.as_deref() == Some(name) && job.state == JobState::Running))
    }
}

/// A job's directory; `None` for one that is just being made or removed.
fn look(jobs: &OwnedFd, path: &Path, session: &Id, id: &str) -> Option<FoundJob> {
    let dir = fs::open_beneath(jobs, Path::new(id), OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let Parsed::Whole(record) = record::parse::<JobRecord>(&attr::read(&dir, Path::new(RECORD), LIMIT).ok()?) else {
        return None;
    };
    let state = state_of(&dir);
    let jobs = jobs.try_clone().ok()?;
    Some(FoundJob { session: session.clone(), id: id.to_owned(), record, state, path: path.join(id), jobs, dir })
}

fn state_of(dir: &OwnedFd) -> JobState {
    // The lock first: it is dropped after the status was written.
    let running = fs::open_beneath(dir, Path::new(LOCK), OFlags::RDWR | OFlags::NONBLOCK)
        .and_then(|lock| lock::try_lock(&lock, Lock::Shared))
        .is_ok_and(|free| !free);
    let status = attr::read(dir, Path::new(STATUS), LIMIT).map(|bytes| record::parse::<Status>(&bytes));
    match status {
        Ok(Parsed::Whole(status)) => JobState::Ended(status.end, record::time(status.ended)),
        _ if running => JobState::Running,
        _ => JobState::Lost,
    }
}

impl FoundJob {
    #[must_use]
    pub fn created(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.record.created)
    }

    /// Wait until the job has ended, at most for so long; gives what it is then.
    #[must_use]
    pub fn wait(&mut self, timeout: Option<Duration>) -> &JobState {
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        while self.refresh() == &JobState::Running && timeout.is_none_or(|timeout| begin.elapsed() < timeout) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        &self.state
    }

    /// Look again.
    pub fn refresh(&mut self) -> &JobState {
        self.state = state_of(&self.dir);
        &self.state
    }

    /// Copy what is new in the log; gives whether there was anything.
    ///
    /// # Errors
    /// What cannot be read or written.
    pub fn copy_log(&self, reader: &mut LogReader, to: &mut dyn Write) -> io::Result<bool> {
        reader.copy(&self.dir, to)
    }

    /// Bytes of the log on disk.
    #[must_use]
    pub fn log_size(&self) -> u64 {
        log::size(&self.dir)
    }

    /// Why stockade ended it, if it did.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match record::parse::<Status>(&attr::read(&self.dir, Path::new(STATUS), LIMIT).ok()?) {
            Parsed::Whole(status) => status.note,
            _ => None,
        }
    }

    /// What the policy denied it, a JSON line each; written when it ends.
    #[must_use]
    pub fn denials(&self) -> Vec<u8> {
        attr::read(&self.dir, Path::new(DENIALS), 1 << 26).unwrap_or_default()
    }

    /// Signal the command by the signal's number. Gives whether there was one to be signalled.
    ///
    /// # Errors
    /// [`Error::Signal`] for a number that is none, and what the kernel says.
    pub fn signal(&self, number: i32) -> Result<bool> {
        let signal = Signal::from_named_raw(number).ok_or(Error::Signal(number))?;
        let Some(command) = &self.record.command else { return Ok(false) };
        // The descriptor first: then what is checked is the process that is signalled, even if the number is used again.
        let Some(process) = host::open_process(command.pid).map_err(Error::Host)? else { return Ok(false) };
        if command.presence(record::Here::find()?) != Presence::Alive {
            return Ok(false);
        }
        host::signal(process, signal).map_err(Error::Host)?;
        Ok(true)
    }

    /// Remove a job that has ended, with everything that is known of it.
    ///
    /// # Errors
    /// [`Error::JobRuns`], and what the kernel says.
    pub fn remove(mut self) -> Result<Vec<Left>> {
        if self.refresh() == &JobState::Running {
            return Err(Error::JobRuns(self.id));
        }
        remove(&self.jobs, &self.dir, &self.id).map_err(|error| Error::call("remove job", &self.path, error))
    }
}

//! What is written down about a session.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Error, Id, Result};
use crate::sys::{self, Errno, attr, fs, host};

pub(super) const RECORD: &str = "record.json";
/// The version of `record.json`.
const SCHEMA: u64 = 1;
/// More than any record needs; what is longer is not ours.
const LIMIT: usize = 1 << 20;

/// The process that a session belongs to, named so that a later process with its pid is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since the boot.
    pub start_time: u64,
    pub boot_id: String,
    /// The inode number of the pid namespace that `pid` counts in.
    pub pid_ns: u64,
}

/// A session's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u64,
    pub id: Id,
    /// The session whose private directories this one shares.
    pub parent: Option<Id>,
    pub owner: Option<Owner>,
    /// Seconds since 1970.
    pub created: u64,
    /// The boot in which the session was last opened for the first time.
    pub boot_id: String,
    /// Does the session end with the run that made it?
    #[serde(default)]
    pub anonymous: bool,
}

/// What a record file turned out to be. Only a readable one is believed; the others are judged by idle time alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordState {
    Readable(Record),
    /// Missing, cut off, or not what we write.
    Torn(String),
    /// Written by a newer stockade.
    Newer(u64),
    /// It names another session: the directory was copied or renamed by hand.
    Foreign(String),
}

/// What tells this boot and this pid namespace from others.
#[derive(Debug, Clone)]
pub(super) struct Here {
    pub boot_id: String,
    pub pid_ns: u64,
}

/// Is an owner still there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Alive,
    Gone,
    /// It lives, or lived, in another pid namespace.
    Unknown,
}

impl Here {
    /// Looked at once: a process stays in its pid namespace, and so do those that it forks before it unshares another.
    pub(super) fn find() -> Result<&'static Self> {
        static HERE: OnceLock<Here> = OnceLock::new();
        if let Some(here) = HERE.get() {
            return Ok(here);
        }
        let (boot_id, pid_ns) = (host::boot_id(), host::pid_namespace());
        let here = Self { boot_id: boot_id.map_err(Error::Host)?, pid_ns: pid_ns.map_err(Error::Host)? };
        Ok(HERE.get_or_init(|| here))
    }
}

impl Owner {
    /// The owner that process `pid` of this pid namespace would be; `None`: there is no such process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of(pid: u32) -> Result<Option<Self>> {
        Self::in_namespace(Here::find()?, pid)
    }

    /// Is it there? `None`: it cannot be seen from this pid namespace.
    #[must_use]
    pub fn is_present(&self) -> Option<bool> {
        match self.presence(Here::find().ok()?) {
            Presence::Alive => Some(true),
            Presence::Gone => Some(false),
            Presence::Unknown => None,
        }
    }

    pub(super) fn in_namespace(here: &Here, pid: u32) -> Result<Option<Self>> {
        let Here { boot_id, pid_ns } = here.clone();
        let start_time = host::start_time(pid).map_err(Error::Host)?;
        Ok(start_time.map(|start_time| Self { pid, start_time, boot_id, pid_ns }))
    }

    pub(super) fn presence(&self, here: &Here) -> Presence {
        if self.boot_id != here.boot_id {
            return Presence::Gone;
        }
        if self.pid_ns != here.pid_ns {
            return Presence::Unknown;
        }
        match host::start_time(self.pid) {
            Ok(Some(start_time)) if start_time == self.start_time => Presence::Alive,
            Ok(Some(_)) => Presence::Gone,
            Ok(None) => unseen(self.pid),
            Err(_) => Presence::Unknown,
        }
    }
}

/// `/proc` mounted with `hidepid` shows fewer processes than there are; a zombie on the other hand owns nothing.
fn unseen(pid: u32) -> Presence {
    let hidden = fs::lstat(&Path::new("/proc").join(pid.to_string())).is_err();
    match host::open_process(pid) {
        Ok(None) => Presence::Gone,
        Ok(Some(_)) if !hidden => Presence::Gone,
        _ => Presence::Unknown,
    }
}

impl Record {
    pub(super) fn new(id: &Id, here: &str) -> Self {
        Self {
            schema: SCHEMA,
            id: id.clone(),
            parent: None,
            owner: None,
            created: now(),
            boot_id: here.to_owned(),
            anonymous: false,
        }
    }
}

impl RecordState {
    /// The record, if it can be believed.
    #[must_use]
    pub fn readable(&self) -> Option<&Record> {
        match self {
            Self::Readable(record) => Some(record),
            _ => None,
        }
    }

    /// Read the record of session `id` in its directory.
    pub(super) fn read(dir: impl AsFd, id: &Id) -> Self {
        match attr::read(dir, Path::new(RECORD), LIMIT) {
            Ok(bytes) => Self::parse(&bytes, id),
            Err(error) if error.is(Errno::NOENT) => Self::Torn("missing".into()),
            Err(error) => Self::Torn(format!("{error}: {}", error.errno())),
        }
    }

    fn parse(bytes: &[u8], id: &Id) -> Self {
        match parse::<Record>(bytes) {
            Parsed::Whole(record) if record.id == *id => Self::Readable(record),
            Parsed::Whole(record) => Self::Foreign(record.id.to_string()),
            Parsed::Newer(schema) => Self::Newer(schema),
            Parsed::Torn(why) => Self::Torn(why),
        }
    }
}

pub(super) enum Parsed<T> {
    Whole(T),
    Newer(u64),
    Torn(String),
}

/// Parse a record of ours, looking at its version first: a newer one may have other fields.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Parsed<T> {
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
    }
    match serde_json::from_slice::<Version>(bytes) {
        Ok(Version { schema }) if schema > SCHEMA => return Parsed::Newer(schema),
        Ok(_) => {}
        Err(error) => return Parsed::Torn(error.to_string()),
    }
    serde_json::from_slice(bytes).map_or_else(|error| Parsed::Torn(error.to_string()), Parsed::Whole)
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The time that `seconds` since 1970 are.
pub(super) fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Put a record into a directory that nobody else can see yet.
pub(super) fn write_first(dir: impl AsFd, record: &Record) -> sys::Result<()> {
    attr::write(fs::create_at(dir, Path::new(RECORD), 0o600)?, &to_bytes(record))
}

/// Replace a record whole: a reader sees the old one or the new one.
pub(super) fn replace(dir: impl AsFd, record: &Record) -> sys::Result<()> {
    let dir = dir.as_fd();
    let temp = format!(".record-{}", host::random_name()?);
    let temp = Path::new(&temp);
    let written = fs::create_at(dir, temp, 0o600)
        .and_then(|file| attr::write(file, &to_bytes(record)))
        .and_then(|()| fs::rename_at(dir, temp, dir, Path::new(RECORD), fs::RenameFlags::empty()));
    if written.is_err() {
        // The cause is reported; the rest goes with the session.
        let _ = fs::unlink_at(dir, temp);
    }
    written
}

pub(super) fn to_bytes(record: &impl Serialize) -> Vec<u8> {
    // Our records hold only text and numbers, which always can be written; an empty file would be a torn record.
    let mut bytes = serde_json::to_vec(record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        text.parse().unwrap()
    }

    #[test]
    fn records_read_back_and_odd_ones_are_named() {
        let record = Record { owner: Owner::of(std::process::id()).unwrap(), ..Record::new(&id("s"), "boot") };
        let bytes = to_bytes(&record);
        assert_eq!(RecordState::parse(&bytes, &id("s")), RecordState::Readable(record));
        assert_eq!(RecordState::parse(&bytes, &id("t")), RecordState::Foreign("s".into()));
        assert_eq!(RecordState::parse(br#"{"schema":2,"new":[]}"#, &id("s")), RecordState::Newer(2));
        for torn in [&bytes[..bytes.len() / 2], b"", b"{}", br#"{"schema":1}"#, br#"{"schema":1,"id":"../x"}"#] {
            assert!(matches!(RecordState::parse(torn, &id("s")), RecordState::Torn(_)));
        }
    }

    #[test]
    fn presence_needs_more_than_a_pid() {
        let here = Here::find().unwrap();
        let us = Owner::of(std::process::id()).unwrap().unwrap();
        assert_eq!(us.presence(here), Presence::Alive);
        assert_eq!(Owner { start_time: us.start_time + 1, ..us.clone() }.presence(here), Presence::Gone);
        assert_eq!(Owner { boot_id: "x".into(), ..us.clone() }.presence(here), Presence::Gone);
        assert_eq!(Owner { pid_ns: 1, ..us.clone() }.presence(here), Presence::Unknown);
        assert_eq!(Owner { pid: u32::MAX, ..us }.presence(here), Presence::Gone);
    }

    #[test]
    fn a_zombie_owns_nothing() {
        let _alone = super::super::tests::alone();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let owner = Owner::of(child.id()).unwrap().unwrap();
        let here = Here::find().unwrap();
        assert_eq!(owner.presence(here), Presence::Alive);
        child.kill().unwrap();
        while Owner::of(child.id()).unwrap().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(owner.presence(here), Presence::Gone);
        child.wait().unwrap();
    }
}

//! Overlays that are kept on request, until somebody applies or discards them.
//!
//! ```text
//! kept/<name>/lease         flock: exclusive for the run that writes, and for who applies or discards
//!            /since         its time is one at which the run had not begun yet
//!            /record.json
//!            /present       the paths in the layers that the host had when the run was over
//!            /layers/<n>/   upper and work
//! ```

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::change::{self, Change};
use super::error::at;
use super::layer::look;
use super::{Error, Layers, Result};
use crate::sys::fs::OFlags;
use crate::sys::lock::{self, Lock};
use crate::sys::{fs as sys_fs, host};

const SCHEMA: u64 = 1;
/// Named as the lock of a session: what is in the trash is deleted under it.
const LEASE: &str = "lease";
const SINCE: &str = "since";
const RECORD: &str = "record.json";
const PRESENT: &str = "present";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    schema: u64,
    command: String,
    /// Seconds since 1970.
    created: u64,
    /// What the layers were laid over, by number.
    overlays: Vec<PathBuf>,
    /// Makes the names of what is half applied.
    token: String,
}

/// A kept overlay, locked.
#[derive(Debug)]
pub struct Kept {
    name: String,
    dir: PathBuf,
    record: Record,
    lease: OwnedFd,
}

/// A kept overlay as somebody looks at it.
#[derive(Debug, Clone)]
pub struct Found {
    pub name: String,
    /// The command that wrote it, when that began, and over which directories; `None` if the record cannot be read.
    pub made: Option<(String, SystemTime, Vec<PathBuf>)>,
    /// Does a run write to it?
    pub in_use: bool,
}

impl Kept {
    /// Begin to keep what a run writes over these directories. `parent` holds all that is kept.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Taken`], and what the kernel says.
    pub fn create(parent: &Path, name: &str, command: &str, overlays: &[PathBuf]) -> Result<Self> {
        check(name)?;
        let dir = parent.join(name);
        fs::create_dir_all(parent).map_err(at("make", parent))?;
        fs::create_dir(&dir).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::Taken(name.to_owned()),
            _ => at("make", &dir)(error),
        })?;
        let lease = open_lease(&dir, true)?;
        if !lock::try_lock(&lease, Lock::Exclusive).map_err(at("lock", &dir))? {
            return Err(Error::Busy(name.to_owned()));
        }
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let token = host::random_name().map_err(at("name", &dir))?;
        let (command, overlays) = (command.to_owned(), overlays.to_vec());
        let record = Record { schema: SCHEMA, command, created, overlays, token };
        let text = serde_json::to_vec_pretty(&record);
        let text = text.map_err(|error| Error::Record { name: name.to_owned(), reason: error.to_string() })?;
        fs::write(dir.join(RECORD), text).map_err(at("write", &dir.join(RECORD)))?;
        fs::write(dir.join(SINCE), "").map_err(at("write", &dir.join(SINCE)))?;
        Ok(Self { name: name.to_owned(), dir, record, lease })
    }

    /// Open something that is kept and that no run writes to any more.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Busy`], [`Error::Record`], and what the kernel says.
    pub fn open(parent: &Path, name: &str) -> Result<Self> {
        let (dir, lease) = open_locked(parent, name)?;
        let record = read_record(&dir, name)?;
        Ok(Self { name: name.to_owned(), dir, record, lease })
    }

    /// Lock something that is kept so that it can be removed, whatever state it is in.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Busy`], and what the kernel says.
    pub fn lock(parent: &Path, name: &str) -> Result<OwnedFd> {
        open_locked(parent, name).map(|(_, lease)| lease)
    }

    /// Everything that is kept.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn list(parent: &Path) -> Result<Vec<Found>> {
        let entries = match fs::read_dir(parent) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at("read", parent))?,
        };
        let mut found: Vec<Found> = entries
            .filter_map(|entry| Some(find(parent, entry.ok()?.file_name().to_str()?)))
            .filter(|found| check(&found.name).is_ok())
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The name it is kept under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the names of what is half applied.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.record.token
    }

    /// The layers for the run that writes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn layers(&self) -> Result<Vec<Layers>> {
        let layer = |(number, path): (usize, &PathBuf)| {
            let dir = self.layer(number);
            fs::create_dir_all(&dir).map_err(at("make", &dir))?;
            let lease = self.lease.try_clone().map_err(at("lock", &dir))?;
            Ok(Layers { path: path.clone(), dir, lower: Vec::new(), leases: vec![lease] })
        };
        self.record.overlays.iter().enumerate().map(layer).collect()
    }

    fn layer(&self, number: usize) -> PathBuf {
        self.dir.join("layers").join(number.to_string())
    }

    /// What would change on the host.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let path = self.dir.join(SINCE);
        let missing = || Error::Record { name: self.name.clone(), reason: format!("{SINCE} is missing") };
        let since = look(&path)?.ok_or_else(missing)?.meta.modified;
        let (mut all, present) = (Vec::new(), self.present());
        for (number, path) in self.record.overlays.iter().enumerate() {
            all.extend(change::changes(&self.layer(number).join("upper"), path, since, &present)?);
        }
        Ok(all)
    }

    /// The run is over: write down what of its changes the host has, so that what the host removes later is known.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn settle(&self) -> Result<()> {
        let mut found = BTreeSet::new();
        for (number, path) in self.record.overlays.iter().enumerate() {
            change::present(&self.layer(number).join("upper"), path, &mut found)?;
        }
        let bytes: Vec<u8> =
            found.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]).flatten().copied().collect();
        fs::write(self.dir.join(PRESENT), bytes).map_err(at("write", &self.dir.join(PRESENT)))
    }

    /// Nothing is known to have been there of a run that could not be waited for.
    fn present(&self) -> BTreeSet<PathBuf> {
        let bytes = fs::read(self.dir.join(PRESENT)).unwrap_or_default();
        let paths = bytes.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        paths.map(|path| OsString::from_vec(path.to_vec()).into()).collect()
    }
}

impl AsFd for Kept {
    /// The lock, for as long as it is open.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lease.as_fd()
    }
}

fn find(parent: &Path, name: &str) -> Found {
    let dir = parent.join(name);
    let made = read_record(&dir, name).ok().map(|record| {
        let created = UNIX_EPOCH + std::time::Duration::from_secs(record.created);
        (record.command, created, record.overlays)
    });
    let free = open_lease(&dir, false).and_then(|lease| lock::try_lock(&lease, Lock::Shared).map_err(at("lock", &dir)));
    Found { name: name.to_owned(), made, in_use: matches!(free, Ok(false)) }
}

fn open_locked(parent: &Path, name: &str) -> Result<(PathBuf, OwnedFd)> {
    check(name)?;
    let dir = parent.join(name);
    let lease = match open_lease(&dir, false) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Err(Error::Missing(name.to_owned()));
        }
        lease => lease?,
    };
    if !lock::try_lock(&lease, Lock::Exclusive).map_err(at("lock", &dir))? {
        return Err(Error::Busy(name.to_owned()));
    }
    Ok((dir, lease))
}

/// The lock file of a directory.
pub(super) fn open_lease(dir: &Path, make: bool) -> Result<OwnedFd> {
    let path = dir.join(LEASE);
    let opened = if make {
        sys_fs::create_at(sys_fs::CWD, &path, 0o600)
    } else {
        sys_fs::open(&path, OFlags::RDWR | OFlags::NOFOLLOW)
    };
    opened.map_err(at("open", &path))
}

fn read_record(dir: &Path, name: &str) -> Result<Record> {
    let failed = |reason: String| Error::Record { name: name.to_owned(), reason };
    let text = fs::read(dir.join(RECORD)).map_err(|error| failed(error.to_string()))?;
    let record: Record = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    if record.schema > SCHEMA {
        return Err(failed("it is of a newer version of stockade".into()));
    }
    Ok(record)
}

fn check(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    if good { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

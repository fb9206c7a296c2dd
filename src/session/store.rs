//! All sessions of this machine: open, make, look up, list.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::lease::{Held, LEASE, Lease};
use super::record::{self, Here, Record, RecordState};
use super::run::Holder;
use super::{Error, Id, Owner, Result, escape, state, tree};
use crate::sys::{self, Errno, attr, fs, host, lock};
use fs::{OFlags, RenameFlags};
use lock::Lock;

/// How long an opening may lose against endings of the same session before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many generations of parents are followed.
const GENERATIONS: u32 = 16;
/// A session under construction.
pub(super) const NEW: &str = ".new-";
/// Sessions that somebody named. There may be thousands, and no run reads this directory.
const NAMED: &str = "sessions";
/// Sessions of one run each, and what is under construction: a run reads these names to see what killed ones have left.
pub(super) const SINGLE: &str = "runs";
/// What the machine's directory consists of.
pub(super) const PARTS: [&str; 4] = [NAMED, SINGLE, "kept", "trash"];

/// An opened, checked state directory, as far as it concerns this machine.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) machine: Arc<OwnedFd>,
    pub(super) path: Arc<Path>,
}

/// Whether a session that does not exist is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    #[default]
    IfMissing,
    Never,
}

/// What is wanted of a session when it is opened.
#[derive(Debug, Clone, Default)]
pub struct Want {
    pub create: Create,
    /// The process that the session shall belong to from now on; `None` leaves that as it is.
    pub owner: Option<Owner>,
    /// The session whose private directories a new session shares; an existing one must have this parent already.
    pub parent: Option<Id>,
}

/// A session as somebody looks at it from outside.
#[derive(Debug)]
pub struct Found {
    pub id: Id,
    pub record: RecordState,
    pub last_used: SystemTime,
    /// Does anything hold the lease?
    pub in_use: bool,
    /// The runs that hold it, as far as they have records.
    pub runs: Vec<Holder>,
    /// Where its own private directories appear; a child session's are its parent's.
    pub private: Vec<PathBuf>,
    /// Its directory on the host.
    pub path: PathBuf,
}

/// All sessions, and what else was found among them.
#[derive(Debug, Default)]
pub struct Listing {
    pub sessions: Vec<Found>,
    /// Paths of what is no session: not ours, never touched.
    pub odd: Vec<PathBuf>,
}

/// What an attempt to lock an existing session came to.
pub(super) enum Attempt {
    Held(Held),
    Absent,
    /// It was moved away between opening and locking: look again.
    Moved,
    /// Somebody holds a lock that is in the way.
    Busy,
}

impl Store {
    /// Open the state directory at `path` and make what is missing (mode 0700, missing parents 0755).
    ///
    /// # Errors
    /// It is refused when it is not a directory, a link, another user's, open to others, or of a newer version; and when
    /// the kernel refuses. [`Error::hint`] says what to do.
    pub fn open(path: &Path) -> Result<Self> {
        let dir = state::open(path)?;
        let machine = state::machine();
        let opened = state::open_machine(&dir, path, &machine)?;
        Ok(Self { machine: Arc::new(opened), path: path.join(machine).into() })
    }

    /// Where this machine's part of the state directory is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// This machine's part of the state directory.
    #[must_use]
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.machine.as_fd()
    }

    /// Open the session `id`, make it if that is wanted, and hold its lease and that of its parents.
    ///
    /// # Errors
    /// [`Error::NoSession`] if it does not exist and is not to be made, [`Error::OtherParent`], and what the kernel says.
    pub fn session(&self, id: &Id, want: &Want) -> Result<Lease> {
        self.open_generation(id, want, GENERATIONS)
    }

    /// Make a session for one run, as a child of `parent` if there is one: it ends with [`Lease::end`], or is reaped as
    /// soon as nothing holds its lease.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn anonymous(&self, parent: Option<&Id>) -> Result<Lease> {
        let here = Here::find()?;
        let owner = Owner::in_namespace(here, std::process::id())?;
        // The parent first: a child whose parent is not there would end at once.
        let parent = parent.map(|id| self.session(id, &Want::default())).transpose()?.map(Box::new);
        loop {
            let id = Id::anonymous(&host::random_name().map_err(Error::Host)?);
            let record = Record {
                anonymous: true,
                owner: owner.clone(),
                parent: parent.as_ref().map(|lease| lease.id().clone()),
                ..Record::new(&id, &here.boot_id)
            };
            if let Some(held) = self.create(&record)? {
                return Ok(Lease::new(self.clone(), id, held, RecordState::Readable(record), parent));
            }
        }
    }

    fn open_generation(&self, id: &Id, want: &Want, generations: u32) -> Result<Lease> {
        if generations == 0 || want.parent.as_ref() == Some(id) {
            return Err(Error::ParentLoop(id.clone()));
        }
        let boot = &Here::find()?.boot_id;
        let held = self.hold(id, want, boot)?;
        let touched = attr::touch(&held.lease);
        touched.map_err(|error| Error::call("mark as used", self.session_path(id).join(LEASE), error))?;
        let record = self.settle(&held, id, want, boot)?;
        let parent = match record.readable().and_then(|record| record.parent.clone()) {
            Some(parent) => {
                let want = Want { create: want.create, ..Want::default() };
                Some(Box::new(self.open_generation(&parent, &want, generations - 1)?))
            }
            None => None,
        };
        Ok(Lease::new(self.clone(), id.clone(), held, record, parent))
    }

    /// Take the shared lock of a session that exists, or of a new one.
    fn hold(&self, id: &Id, want: &Want, boot: &str) -> Result<Held> {
        let mut backoff = Backoff::new();
        loop {
            match self.attempt(id, Lock::Shared)? {
                Attempt::Held(held) => return Ok(held),
                Attempt::Absent if want.create == Create::Never => return Err(Error::NoSession(id.clone())),
                Attempt::Absent => {
                    let record =
                        Record { owner: want.owner.clone(), parent: want.parent.clone(), ..Record::new(id, boot) };
                    if let Some(held) = self.create(&record)? {
                        return Ok(held);
                    }
                }
                Attempt::Moved => {}
                // Whoever ends or reaps it is about to move it away; looking at it takes no longer.
                Attempt::Busy => backoff.pause(),
            }
            if backoff.over() {
                return Err(Error::Contended(id.clone()));
            }
        }
    }

    /// Open and lock the session `id` if it exists, without waiting.
    pub(super) fn attempt(&self, id: &Id, kind: Lock) -> Result<Attempt> {
        let place = place(id);
        let path = || self.path.join(&place);
        let dir = match fs::open_beneath(&self.machine, &place, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => dir,
            Err(error) if error.is(Errno::NOENT) => return Ok(Attempt::Absent),
            Err(error) if error.is(Errno::NOTDIR) || error.is(Errno::LOOP) => {
                return Err(Error::Odd { id: id.clone(), path: path() });
            }
            Err(error) => return Err(Error::call("open session", path(), error)),
        };
        self.lock(dir, &place, kind).map_err(|error| Error::call("lock session", path(), error))
    }

    /// Lock the lease in `dir`, which was found at `place`.
    pub(super) fn lock(&self, dir: OwnedFd, place: &Path, kind: Lock) -> sys::Result<Attempt> {
        let Some(lease) = self.open_lease(&dir, place)? else { return Ok(Attempt::Moved) };
        let locked = lock::try_lock(&lease, kind)?;
        // A lock is worth something only on the file that the path names *now*. The link count does not tell: a file in
        // the trash still has its name.
        match fs::lstat_at(&self.machine, &place.join(LEASE)) {
            Ok(now) if now.file != fs::fstat(&lease)?.file => Ok(Attempt::Moved),
            Ok(_) if locked => Ok(Attempt::Held(Held { dir, lease })),
            Ok(_) => Ok(Attempt::Busy),
            Err(error) if error.is(Errno::NOENT) => Ok(Attempt::Moved),
            Err(error) => Err(error),
        }
    }

    /// Open a lease; put one into a session that has lost it, but not into one that is being deleted.
    fn open_lease(&self, dir: &OwnedFd, place: &Path) -> sys::Result<Option<OwnedFd>> {
        let name = Path::new(LEASE);
        // Read and write: over NFS an exclusive flock needs a descriptor that may write (flock(2)).
        match fs::open_beneath(dir, name, OFlags::RDWR | OFlags::NONBLOCK) {
            Ok(lease) => return Ok(Some(lease)),
            Err(error) if error.is(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        match fs::lstat_at(&self.machine, place) {
            Ok(now) if now.file == fs::fstat(dir)?.file => {}
            Ok(_) => return Ok(None),
            Err(error) if error.is(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
        match fs::create_at(dir, name, 0o600) {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is(Errno::EXIST) || error.is(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Make a session whole and locked under a name of its own, then put it in its place. `None`: somebody else was
    /// faster, or cleaned up in between; ask again.
    fn create(&self, record: &Record) -> Result<Option<Held>> {
        let temp = format!("{SINGLE}/{NEW}{}", host::random_name().map_err(Error::Host)?);
        let (temp, place) = (Path::new(&temp), place(&record.id));
        let made = self.make_at(temp, &place, record);
        if !matches!(made, Ok(Some(_))) {
            self.unmake(temp);
        }
        match made {
            Err(error) if error.is(Errno::NOTDIR) => {
                Err(Error::Odd { id: record.id.clone(), path: self.path.join(place) })
            }
            made => made.map_err(|error| Error::call("create session", self.path.join(place), error)),
        }
    }

    fn make_at(&self, temp: &Path, place: &Path, record: &Record) -> sys::Result<Option<Held>> {
        match self.fill(temp, place, record) {
            Ok(held) => Ok(held),
            Err(error) if error.is(Errno::NOENT) => state::make_parts(self.dir()).map(|()| None),
            Err(error) if error.is(Errno::EXIST) || error.is(Errno::NOTEMPTY) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn fill(&self, temp: &Path, place: &Path, record: &Record) -> sys::Result<Option<Held>> {
        fs::mkdir_at(&self.machine, temp, 0o700)?;
        let dir = fs::open_beneath(&self.machine, temp, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let lease = fs::create_at(&dir, Path::new(LEASE), 0o600)?;
        // From here on nobody reaps it; before, somebody may have taken it for a leftover.
        if !lock::try_lock(&lease, Lock::Shared)? {
            return Ok(None);
        }
        record::write_first(&dir, record)?;
        // Not RENAME_NOREPLACE, which NFS lacks: rename(2) replaces a directory only by an empty one, and a session never
        // is empty.
        fs::rename_at(&self.machine, temp, &self.machine, place, RenameFlags::empty())?;
        Ok(Some(Held { dir, lease }))
    }

    /// Remove what is left of an attempt. What cannot be removed now is a leftover for the next reap.
    fn unmake(&self, temp: &Path) {
        if let Ok(dir) = fs::open_beneath(&self.machine, temp, OFlags::RDONLY | OFlags::DIRECTORY) {
            tree::clear(dir.as_fd(), "".as_ref(), None);
            let _ = fs::rmdir_at(&self.machine, temp);
        }
    }

    /// Read the record of a session that was just opened and bring it up to date with what is wanted.
    fn settle(&self, held: &Held, id: &Id, want: &Want, boot: &str) -> Result<RecordState> {
        let read = RecordState::read(&held.dir, id);
        let record = match &read {
            RecordState::Readable(record) => record.clone(),
            RecordState::Torn(_) => Record { parent: want.parent.clone(), ..Record::new(id, boot) },
            // Not ours to change.
            RecordState::Newer(_) | RecordState::Foreign(_) => return Ok(read),
        };
        if let Some(wanted) = want.parent.clone().filter(|wanted| record.parent.as_ref() != Some(wanted)) {
            return Err(Error::OtherParent { id: id.clone(), actual: record.parent, wanted });
        }
        let settled = RecordState::Readable(settled(record, want, boot));
        if let (true, Some(record)) = (settled != read, settled.readable()) {
            let path = || self.session_path(id).join(record::RECORD);
            record::replace(&held.dir, record).map_err(|error| Error::call("write", path(), error))?;
        }
        Ok(settled)
    }

    /// Where the directory of session `id` is on the host.
    #[must_use]
    pub fn session_path(&self, id: &Id) -> PathBuf {
        self.path.join(place(id))
    }

    /// Look at one session.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn find(&self, id: &Id) -> Result<Option<Found>> {
        let Some(dir) = self.open_dir(id)? else { return Ok(None) };
        let last_used = match attr::modified_at(&dir, Path::new(LEASE)) {
            Ok(time) => time,
            Err(_) => attr::modified_at(&dir, Path::new(".")).unwrap_or(SystemTime::UNIX_EPOCH),
        };
        Ok(Some(Found {
            id: id.clone(),
            record: RecordState::read(&dir, id),
            last_used,
            in_use: matches!(self.attempt(id, Lock::Exclusive)?, Attempt::Busy),
            runs: self.holders_in(&dir, id)?,
            private: private_of(dir.as_fd()),
            path: self.session_path(id),
        }))
    }

    pub(super) fn open_dir(&self, id: &Id) -> Result<Option<OwnedFd>> {
        match fs::open_beneath(&self.machine, &place(id), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.is(Errno::NOENT) => Ok(None),
            Err(error) if error.is(Errno::NOTDIR) || error.is(Errno::LOOP) => {
                Err(Error::Odd { id: id.clone(), path: self.session_path(id) })
            }
            Err(error) => Err(Error::call("open session", self.session_path(id), error)),
        }
    }

    /// Look at all sessions.
    ///
    /// # Errors
    /// What the kernel says of the directory of sessions; a single session that cannot be read is listed as odd.
    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for (place, id) in self.places()? {
            match id.map(|id| self.find(&id)) {
                Some(Ok(found)) => listing.sessions.extend(found),
                None if is_new(&place) => {}
                Some(Err(_)) | None => listing.odd.push(self.path.join(place)),
            }
        }
        listing.sessions.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(listing)
    }

    /// Whatever lies where sessions lie, and whose place that is.
    pub(super) fn places(&self) -> Result<Vec<(PathBuf, Option<Id>)>> {
        let mut places = Vec::new();
        for part in [NAMED, SINGLE] {
            places.extend(self.names(part)?.into_iter().map(|name| {
                let found = Path::new(part).join(&name);
                let id = name.to_str().and_then(|text| text.parse::<Id>().ok()).filter(|id| place(id) == found);
                (found, id)
            }));
        }
        Ok(places)
    }

    /// The ids of all sessions.
    pub(super) fn ids(&self) -> Result<impl Iterator<Item = Id>> {
        Ok(self.places()?.into_iter().filter_map(|(_, id)| id))
    }

    /// The names in one of the parts of this machine's directory.
    pub(super) fn names(&self, part: &str) -> Result<Vec<OsString>> {
        let call = |error| Error::call("read", self.path.join(part), error);
        match fs::open_beneath(&self.machine, Path::new(part), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => Ok(fs::entries(&dir).map_err(call)?.into_iter().map(|entry| entry.name).collect()),
            Err(error) if error.is(Errno::NOENT) => Ok(Vec::new()),
            Err(error) => Err(call(error)),
        }
    }

    /// The host path of what the session sees at `inside`, which must lie in one of its private directories. It is a
    /// text: what the session put there, links too, is not looked at.
    ///
    /// # Errors
    /// [`Error::NoSession`], [`Error::NotPrivate`], [`Error::BadPrivate`] for a relative path or one with `..`.
    pub fn path_of(&self, id: &Id, inside: &Path) -> Result<PathBuf> {
        let (private, rest) = self.private_at(id, inside)?;
        let host = self.path.join(private);
        // Joining an empty path would add a slash.
        Ok(if rest.as_os_str().is_empty() { host } else { host.join(rest) })
    }

    /// The private directory that `inside` lies in (below this machine's directory), and the rest of the path.
    pub(super) fn private_at(&self, id: &Id, inside: &Path) -> Result<(PathBuf, PathBuf)> {
        let components: PathBuf = Path::new("/").join(escape::normal(inside)?.iter().collect::<PathBuf>());
        let root = self.root_of(id)?;
        let Some(dir) = self.open_dir(&root)? else { return Err(Error::NoSession(root)) };
        let has = private_of(dir.as_fd());
        let best = has.iter().filter(|private| components.starts_with(private)).max_by_key(|p| p.components().count());
        let Some(best) = best else {
            return Err(Error::NotPrivate { id: id.clone(), path: inside.into(), has });
        };
        let rest = components.strip_prefix(best).unwrap_or(Path::new(""));
        Ok((place(&root).join("private").join(escape::name(best)?), rest.to_owned()))
    }

    /// The session that holds the private directories of `id`: itself, or the first of its parents.
    fn root_of(&self, id: &Id) -> Result<Id> {
        let mut root = id.clone();
        for _ in 0..GENERATIONS {
            let Some(dir) = self.open_dir(&root)? else { return Err(Error::NoSession(root)) };
            match RecordState::read(&dir, &root).readable().and_then(|record| record.parent.clone()) {
                Some(parent) => root = parent,
                None => return Ok(root),
            }
        }
        Err(Error::ParentLoop(id.clone()))
    }
}

/// Where a session lies in its machine's directory.
pub(super) fn place(id: &Id) -> PathBuf {
    Path::new(if id.looks_anonymous() { SINGLE } else { NAMED }).join(id.as_str())
}

/// Is this a session under construction?
pub(super) fn is_new(place: &Path) -> bool {
    place.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(NEW.as_bytes()))
}

/// The record as it should be: opened in this boot, with the owner that is wanted.
fn settled(mut record: Record, want: &Want, boot: &str) -> Record {
    if record.boot_id != boot {
        // An earlier boot's owner is gone for certain; what is used in this one is of this one.
        boot.clone_into(&mut record.boot_id);
        record.owner = None;
    }
    if want.owner.is_some() {
        record.owner.clone_from(&want.owner);
    }
    record
}

/// Where the private directories in a session's directory appear.
fn private_of(dir: BorrowedFd<'_>) -> Vec<PathBuf> {
    let Ok(private) = fs::open_beneath(dir, Path::new("private"), OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Vec::new();
    };
    let names = fs::entries(&private).unwrap_or_default();
    let mut paths: Vec<PathBuf> = names.iter().filter_map(|entry| escape::path(&entry.name)).collect();
    paths.sort();
    paths
}

/// Pauses that get longer, up to a limit of patience.
pub(super) struct Backoff {
    started: Instant,
    pause: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), pause: Duration::from_micros(50) }
    }

    pub(super) fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(4));
    }

    pub(super) fn waited(&self) -> Duration {
        self.started.elapsed()
    }

    fn over(&self) -> bool {
        self.waited() > PATIENCE
    }
}

//! Remove what nobody owns or uses any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::lease::{Held, LEASE, Lease};
use super::record::{Here, Presence, RecordState};
use super::store::{Attempt, SINGLE, Store, is_new, place};
use super::tree::{Cause, Left};
use super::{Id, Result, run};
use crate::sys::{self, Errno, attr, fs, lock};
use fs::OFlags;
use lock::Lock;

/// The file whose time says when somebody last reaped.
const STAMP: &str = "reaped";
/// How often that is due.
const INTERVAL: Duration = Duration::from_secs(600);

/// How to reap.
#[derive(Debug, Clone, Copy)]
pub struct Reap {
    pub scope: Scope,
    /// How long a session without a run and an owner lives.
    pub idle: Duration,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Stop after this time; what is left is for the next time.
    pub within: Option<Duration>,
}

/// How much to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only what a run leaves that was killed: sessions of its own, half-made ones, and the trash. Costs next to nothing.
    Leftovers,
    /// Every session.
    All,
}

/// Why a session was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It belonged to one run, which is over.
    RunOver,
    OwnerGone,
    /// It is of an earlier boot of this machine.
    Reboot,
    Idle,
    /// The session that it was a child of has ended.
    ParentGone,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RunOver => "its run is over",
            Self::OwnerGone => "its owner is gone",
            Self::Reboot => "the machine was restarted since",
            Self::Idle => "idle",
            Self::ParentGone => "its parent has ended",
        })
    }
}

/// What was done, or would be.
#[derive(Debug, Default)]
pub struct Reaped {
    pub sessions: Vec<(Id, Why)>,
    /// Half-made sessions and leftovers in the trash.
    pub leftovers: usize,
    /// Sessions whose records cannot be believed and that stay for now.
    pub unreadable: Vec<(Id, RecordState)>,
    /// What could not be deleted.
    pub left: Vec<Left>,
    /// Was everything looked at in the time given?
    pub complete: bool,
}

/// A reaping under way.
struct Reaping<'a> {
    store: &'a Store,
    how: Reap,
    here: &'a Here,
    until: Option<Instant>,
    done: Reaped,
}

/// A session as it is judged.
struct Candidate {
    record: RecordState,
    last_used: SystemTime,
}

impl Store {
    /// Is it time to reap? At most one caller in ten minutes is told so.
    #[must_use]
    pub fn reap_due(&self) -> bool {
        let stamp = Path::new(STAMP);
        match attr::modified_at(&self.machine, stamp) {
            // A time in the future is of a clock that was wrong.
            Ok(last) if last.elapsed().is_ok_and(|age| age < INTERVAL) => false,
            Ok(_) => {
                fs::open_beneath(&self.machine, stamp, OFlags::RDWR | OFlags::NONBLOCK).and_then(attr::touch).is_ok()
            }
            Err(error) if error.is(Errno::NOENT) => fs::create_at(&self.machine, stamp, 0o600).is_ok(),
            Err(_) => false,
        }
    }

    /// How much there is to look at now, beside the session that `lease` holds; `None` for most runs. Reads names only.
    ///
    /// # Errors
    /// When the directories cannot be read.
    pub fn needs_reaping(&self, lease: &Lease) -> Result<Option<Scope>> {
        if self.reap_due() {
            return Ok(Some(Scope::All));
        }
        let own = lease.id().as_str();
        let leftovers = self.names(SINGLE)?.iter().any(|name| name != own) || !self.names("trash")?.is_empty();
        Ok((leftovers || lease.has_other_runs()).then_some(Scope::Leftovers))
    }

    /// Remove sessions without a lease whose run is over, whose owner is gone, that are of an earlier boot or idle; what
    /// killed runs left in other sessions; and the trash. Nothing that holds a lease loses anything.
    ///
    /// # Errors
    /// Only when the directories themselves cannot be read; single things that cannot be removed are in the answer.
    pub fn reap(&self, how: Reap) -> Result<Reaped> {
        let until = how.within.map(|within| Instant::now() + within);
        let done = Reaped { complete: true, ..Reaped::default() };
        let mut reaping = Reaping { store: self, how, here: Here::find()?, until, done };
        reaping.sessions()?;
        reaping.trash()?;
        Ok(reaping.done)
    }
}

impl Reaping<'_> {
    fn late(&mut self) -> bool {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        self.done.complete &= !late;
        late
    }

    fn sessions(&mut self) -> Result<()> {
        let mut candidates = BTreeMap::new();
        for (place, id) in self.store.places()? {
            if is_new(&place) {
                self.half_made(&place);
            } else if let Some(id) = id.filter(|id| self.concerns(id))
                && let Some(candidate) = self.candidate(&id)
            {
                candidates.insert(id, candidate);
            }
        }
        let verdicts = self.judge(&candidates);
        for (id, candidate) in candidates {
            if self.late() {
                break;
            }
            match verdicts.get(&id) {
                Some(why) => self.end(id, *why),
                None => self.stay(id, candidate),
            }
        }
        Ok(())
    }

    fn concerns(&self, id: &Id) -> bool {
        self.how.scope == Scope::All || id.looks_anonymous()
    }

    fn candidate(&mut self, id: &Id) -> Option<Candidate> {
        let dir = match self.store.open_dir(id) {
            Ok(dir) => dir?,
            Err(super::Error::Call { source, .. }) => {
                self.left(&place(id), source);
                return None;
            }
            // Not a directory: not a session, not ours.
            Err(_) => return None,
        };
        let last_used = last_used(&dir)?;
        Some(Candidate { record: RecordState::read(&dir, id), last_used })
    }

    /// Which sessions end if nothing holds their lease.
    fn judge(&self, candidates: &BTreeMap<Id, Candidate>) -> BTreeMap<Id, Why> {
        let now = SystemTime::now();
        let mut verdicts: BTreeMap<Id, Why> = candidates
            .iter()
            .filter_map(|(id, candidate)| {
                let record = candidate.record.readable();
                let presence = record.and_then(|r| r.owner.as_ref()).map(|owner| owner.presence(self.here));
                let age = now.duration_since(candidate.last_used).unwrap_or_default();
                judge(&candidate.record, presence, age > self.how.idle, self.here).map(|why| (id.clone(), why))
            })
            .collect();
        if self.how.scope == Scope::All {
            judge_families(candidates, &mut verdicts);
        }
        verdicts
    }

    /// End a session, if its lease is free and it is still as it was judged.
    fn end(&mut self, id: Id, why: Why) {
        let held = match self.store.attempt(&id, Lock::Exclusive) {
            Ok(Attempt::Held(held)) => held,
            Err(super::Error::Call { source, .. }) => return self.left(&place(&id), source),
            // In use, gone, or no directory.
            Ok(_) | Err(_) => return,
        };
        if !self.still_due(&held, &id) {
            return;
        }
        if !self.how.dry_run {
            match self.store.discard(&held, &place(&id), self.until) {
                Ok(left) => self.done.left.extend(left),
                Err(super::Error::Call { source, .. }) => return self.left(&place(&id), source),
                Err(_) => return,
            }
        }
        self.done.sessions.push((id, why));
    }

    /// Was the session used, or given another owner, between the judgement and the lock?
    fn still_due(&self, held: &Held, id: &Id) -> bool {
        let record = RecordState::read(&held.dir, id);
        let presence = record.readable().and_then(|r| r.owner.as_ref()).map(|owner| owner.presence(self.here));
        let idle = last_used(&held.dir).is_some_and(|time| time.elapsed().unwrap_or_default() > self.how.idle);
        let orphan = || {
            let parent = record.readable().and_then(|record| record.parent.as_ref());
            parent.is_some_and(|parent| matches!(self.store.open_dir(parent), Ok(None)))
        };
        judge(&record, presence, idle, self.here).is_some() || orphan()
    }

    /// A session that stays: only what its dead runs have left goes.
    fn stay(&mut self, id: Id, candidate: Candidate) {
        if !self.how.dry_run
            && let Ok(Some(dir)) = self.store.open_dir(&id)
            && let Ok(left) = run::sweep(dir.as_fd(), &self.store.session_path(&id), self.until)
        {
            self.done.left.extend(left);
        }
        if candidate.record.readable().is_none() {
            self.done.unreadable.push((id, candidate.record));
        }
    }

    /// A session that its maker did not finish: not locked, so he is gone, or starts again when he finds it gone.
    fn half_made(&mut self, place: &Path) {
        if self.how.dry_run {
            return;
        }
        match self.take_half_made(place) {
            Ok(true) => self.done.leftovers += 1,
            Ok(false) => {}
            // Its maker, who was too late for the name, has removed it himself.
            Err(error) if error.is(Errno::NOENT) => {}
            Err(error) => self.left(place, error),
        }
    }

    fn take_half_made(&mut self, place: &Path) -> sys::Result<bool> {
        let machine = &self.store.machine;
        let lease = match fs::open_beneath(machine, &place.join(LEASE), OFlags::RDWR | OFlags::NONBLOCK) {
            Ok(lease) => lease,
            Err(error) if error.is(Errno::NOENT) => return gone(fs::rmdir_at(machine, place)),
            Err(error) => return Err(error),
        };
        if !lock::try_lock(&lease, Lock::Exclusive)? {
            return Ok(false);
        }
        match fs::lstat_at(machine, &place.join(LEASE)) {
            Ok(now) if now.file == fs::fstat(&lease)?.file => {}
            Ok(_) => return Ok(false),
            Err(error) => return gone(Err(error)),
        }
        let left = self.store.throw_away(place, self.until)?;
        self.done.left.extend(left);
        Ok(true)
    }

    /// Delete what was moved to the trash by somebody who did not come to delete it.
    fn trash(&mut self) -> Result<()> {
        for name in self.store.names("trash")? {
            if self.late() {
                break;
            }
            let place = Path::new("trash").join(name);
            match self.trash_one(&place) {
                Ok(true) => self.done.leftovers += 1,
                Ok(false) => {}
                Err(error) => self.left(&place, error),
            }
        }
        Ok(())
    }

    fn trash_one(&mut self, place: &Path) -> sys::Result<bool> {
        let machine = &self.store.machine;
        let dir = match fs::open_beneath(machine, place, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => dir,
            Err(error) => return gone(Err(error)),
        };
        // The lease goes last: where it is missing there is nothing else any more.
        let lease = match fs::open_beneath(&dir, Path::new(LEASE), OFlags::RDWR | OFlags::NONBLOCK) {
            Ok(lease) => Some(lease),
            Err(error) if error.is(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        if let Some(lease) = &lease
            && !lock::try_lock(lease, Lock::Exclusive)?
        {
            return Ok(false);
        }
        if self.how.dry_run {
            return Ok(true);
        }
        let left = match self.store.delete(place, self.until) {
            Ok(left) => left,
            Err(error) => return gone(Err(error)),
        };
        let all = left.is_empty();
        self.done.left.extend(left);
        Ok(all)
    }

    fn left(&mut self, place: &Path, error: sys::Error) {
        self.done.left.push(Left { path: self.store.path.join(place), cause: Cause::Call(error) });
    }
}

/// Somebody else's removal is as good, and what is not empty has just come into use.
fn gone(done: sys::Result<()>) -> sys::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno(), Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

fn last_used(dir: &OwnedFd) -> Option<SystemTime> {
    // A session without a lease file is as old as its directory's last change.
    attr::modified_at(dir, Path::new(LEASE)).or_else(|_| attr::modified_at(dir, Path::new("."))).ok()
}

/// Does a session end that nothing holds? A record that cannot be believed is judged by idle time alone, and so is an owner
/// who cannot be seen.
fn judge(record: &RecordState, owner: Option<Presence>, idle: bool, here: &Here) -> Option<Why> {
    let idle = idle.then_some(Why::Idle);
    let Some(record) = record.readable() else { return idle };
    if record.anonymous {
        return Some(Why::RunOver);
    }
    if record.boot_id != here.boot_id {
        return Some(Why::Reboot);
    }
    match owner {
        Some(Presence::Alive) => None,
        Some(Presence::Gone) => Some(Why::OwnerGone),
        Some(Presence::Unknown) | None => idle,
    }
}

/// A parent stays as long as one of its children; a child whose parent is not there ends.
fn judge_families(candidates: &BTreeMap<Id, Candidate>, verdicts: &mut BTreeMap<Id, Why>) {
    let parent = |id: &Id| candidates.get(id).and_then(|c| c.record.readable()).and_then(|r| r.parent.clone());
    for id in candidates.keys() {
        if parent(id).is_some_and(|parent| !candidates.contains_key(&parent)) {
            verdicts.entry(id.clone()).or_insert(Why::ParentGone);
        }
    }
    let kept: Vec<Id> = candidates.keys().filter(|id| !verdicts.contains_key(*id)).cloned().collect();
    let mut seen = BTreeSet::new();
    for id in kept {
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| seen.insert(id.clone())) {
            verdicts.remove(&id);
            next = parent(&id);
        }
    }
}

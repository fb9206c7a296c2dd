//! The end of a session: take its lease from everybody, move it to the trash, delete it there.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::lease::{Held, LEASE};
use super::record::{Here, RecordState};
use super::run::{self, Holder};
use super::store::{Attempt, Backoff, Store, place};
use super::tree::{self, Left};
use super::{Error, Id, Result, state};
use crate::sys::{self, Errno, fs, host, lock};
use fs::{OFlags, RenameFlags};
use host::Signal;
use lock::Lock;

/// How long supervisors have to end after TERM, and again after KILL.
const GRACE: Duration = Duration::from_secs(5);
/// How long a lease without a run in sight may last: that of somebody who only looks, or of a run that is just ending.
const MOMENT: Duration = Duration::from_millis(250);

/// What to do about runs that hold the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Name them and do nothing.
    Refuse,
    /// Wait for them.
    Wait,
    /// Signal their supervisors: TERM, five seconds later KILL.
    Kill,
}

/// How a session ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The sessions that ended: the one that was named, and its children.
    pub sessions: Vec<Id>,
    /// The runs that were signalled.
    pub signalled: Vec<Holder>,
    /// What could not be deleted and waits in the trash.
    pub left: Vec<Left>,
}

impl Store {
    /// End the session `id` and its children.
    ///
    /// # Errors
    /// [`Error::NoSession`], [`Error::InUse`] with the runs that hold it, and what the kernel says.
    pub fn end(&self, id: &Id, how: End) -> Result<Ended> {
        let mut ended = Ended::default();
        let held = self.take(id, how, &mut ended.signalled)?;
        // Found before the parent is gone, ended after: while it is locked, no run of theirs can start.
        let children = self.descendants(id)?;
        ended.left = self.discard(&held, &place(id), None)?;
        ended.sessions.push(id.clone());
        for child in children {
            match self.take(&child, End::Refuse, &mut Vec::new()) {
                Ok(held) => {
                    ended.left.extend(self.discard(&held, &place(&child), None)?);
                    ended.sessions.push(child);
                }
                // Opened again since, with a new parent: another life.
                Err(Error::InUse { .. } | Error::NoSession(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }

    /// Lock a session exclusively, whatever it takes.
    fn take(&self, id: &Id, how: End, signalled: &mut Vec<Holder>) -> Result<Held> {
        let mut wait = Backoff::new();
        let here = Here::find()?;
        loop {
            match self.attempt(id, Lock::Exclusive)? {
                Attempt::Held(held) => return Ok(held),
                Attempt::Absent => return Err(Error::NoSession(id.clone())),
                Attempt::Moved => continue,
                Attempt::Busy => {}
            }
            match how {
                End::Wait => {}
                End::Refuse => self.refuse(id, wait.waited())?,
                End::Kill => self.kill(id, here, wait.waited(), signalled)?,
            }
            wait.pause();
        }
    }

    fn refuse(&self, id: &Id, waited: Duration) -> Result<()> {
        let holders = self.holders(id)?;
        if holders.is_empty() && waited < MOMENT {
            return Ok(());
        }
        Err(Error::InUse { id: id.clone(), holders })
    }

    /// One round: TERM for whoever it has not reached yet; when the grace is over, KILL for all.
    fn kill(&self, id: &Id, here: &Here, waited: Duration, signalled: &mut Vec<Holder>) -> Result<()> {
        let holders = self.holders(id)?;
        if waited > GRACE * 2 {
            return Err(Error::InUse { id: id.clone(), holders });
        }
        for holder in holders {
            let known = signalled.contains(&holder);
            let signal = if waited > GRACE { Signal::KILL } else { Signal::TERM };
            if known && signal == Signal::TERM {
                continue;
            }
            if holder.signal(here, signal)? && !known {
                signalled.push(holder);
            }
        }
        Ok(())
    }

    /// The runs that hold a session: its own and those of its children.
    pub(super) fn holders(&self, id: &Id) -> Result<Vec<Holder>> {
        let mut holders = Vec::new();
        for id in [id.clone()].into_iter().chain(self.descendants(id)?) {
            if let Some(dir) = self.open_dir(&id)? {
                holders.extend(self.holders_in(&dir, &id)?);
            }
        }
        Ok(holders)
    }

    /// The runs that hold a session itself. One that has its own session need not have a record of its own.
    pub(super) fn holders_in(&self, dir: &OwnedFd, id: &Id) -> Result<Vec<Holder>> {
        let mut holders = run::holders(dir, id);
        if holders.is_empty()
            && let RecordState::Readable(record) = RecordState::read(dir, id)
            && record.anonymous
            && matches!(self.attempt(id, Lock::Exclusive)?, Attempt::Busy)
        {
            holders.push(Holder::own(record));
        }
        Ok(holders)
    }

    /// The children of a session, theirs, and so on.
    fn descendants(&self, id: &Id) -> Result<Vec<Id>> {
        let mut found = Vec::new();
        let mut rest = self.parents()?;
        let mut generation = vec![id.clone()];
        while !generation.is_empty() {
            let (next, other): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, parent)| generation.contains(parent));
            generation = next.into_iter().map(|(child, _)| child).collect();
            found.extend(generation.iter().cloned());
            rest = other;
        }
        Ok(found)
    }

    /// Every session that has a parent, with it.
    fn parents(&self) -> Result<Vec<(Id, Id)>> {
        let mut parents = Vec::new();
        for id in self.ids()? {
            // One that is no directory is no child either.
            let Ok(Some(dir)) = self.open_dir(&id) else { continue };
            if let RecordState::Readable(record) = RecordState::read(&dir, &id) {
                parents.extend(record.parent.map(|parent| (id, parent)));
            }
        }
        Ok(parents)
    }

    /// Move a session that is exclusively locked from `place` to the trash and delete it there. Gives what could not be
    /// deleted.
    pub(super) fn discard(&self, _held: &Held, place: &Path, until: Option<Instant>) -> Result<Vec<Left>> {
        self.throw_away(place, until).map_err(|error| Error::call("move to the trash", self.path.join(place), error))
    }

    /// Move something else in this machine's part of the state directory, which holds a lock file `lease` that the
    /// caller has locked, to the trash, and delete it. Gives what could not be deleted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, path: &Path) -> Result<Vec<Left>> {
        let place = path.strip_prefix(&self.path).unwrap_or(path);
        self.throw_away(place, None).map_err(|error| Error::call("move to the trash", path, error))
    }

    /// Move a session, half-made or not, whose lease the caller has locked, to the trash, and delete it.
    pub(super) fn throw_away(&self, place: &Path, until: Option<Instant>) -> sys::Result<Vec<Left>> {
        let name = host::random_name()?;
        let trash = Path::new("trash").join(&name);
        let go = || fs::rename_at(&self.machine, place, &self.machine, &trash, RenameFlags::empty());
        match go() {
            Err(error) if error.is(Errno::NOENT) => {
                state::make_parts(self.dir())?;
                go()?;
            }
            gone => gone?,
        }
        self.delete(&trash, until)
    }

    /// Delete a session in the trash. Its lease goes last: as long as there is something to delete, somebody can
    /// have the lock, and only one can.
    pub(super) fn delete(&self, trash: &Path, until: Option<Instant>) -> sys::Result<Vec<Left>> {
        let dir = fs::open_beneath(&self.machine, trash, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut left = tree::clear(dir.as_fd(), LEASE.as_ref(), until);
        for item in &mut left {
            item.path = self.path.join(trash).join(&item.path);
        }
        if left.is_empty() {
            // Once the lease is gone, somebody else may take the empty rest for a leftover.
            gone(fs::unlink_at(&dir, Path::new(LEASE)))?;
            gone(fs::rmdir_at(&self.machine, trash))?;
        }
        Ok(left)
    }
}

/// What somebody else has removed is removed.
fn gone(done: sys::Result<()>) -> sys::Result<()> {
    done.or_else(|error| if error.is(Errno::NOENT) { Ok(()) } else { Err(error) })
}

//! Notes what the kernel refuses, where the policy is why: on the broker's own mounts, and on read-only mounts on which it
//! grants nothing.
//!
//! Nothing here grants, and nothing denies: these functions give nothing, and whoever calls them lets the kernel decide.
//! Told is only what the host itself would have permitted. Which other mounts are read-only is remembered, so a call that
//! succeeds costs no system call more; one that fails costs a few, until it is known. What is remembered may be wrong once
//! the kernel gives a mount's number to another: then a denial is missing, or none is made up, because rules and host are
//! asked besides.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

use super::act::{self, Act};
use super::attempt::{self, Attempt};
use super::broker::{Broker, Denied, Noted};
use super::decide::{Change, Which};
use super::denial::{Denial, Denials};
use super::reply::{OrContinue, Reply, Step};
use super::resolve::Spot;
use super::task::{Opening, Task};
use crate::sys;
use crate::sys::fs::Stat;

/// `W_OK`, `W_OK | X_OK` of `access(2)`
const WRITE: u32 = 2;
const CHANGE_NAMES: u32 = 3;
/// `S_ISVTX`: names belong to their files' owners.
const STICKY: u32 = 0o1000;
/// So many mounts are remembered.
const MOST: usize = 4096;

/// What a call needs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// To change the directory.
    Name,
    /// To write into the file, or to make one without a name in the directory.
    Content,
    /// To own the file.
    Ownership,
}

/// Mounts by their number: are they read-only?
#[derive(Debug, Default)]
pub(super) struct Mounts(HashMap<u64, bool>);

impl Mounts {
    fn is_read_only(&mut self, spot: &Spot) -> bool {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        *self.0.entry(spot.stat.mount).or_insert_with(|| sys::act::is_read_only(spot.seen()))
    }
}

impl Broker {
    /// A call on one name.
    pub(super) fn note_refused(&mut self, task: &Task, spot: &Spot) {
        // Whatever gets in the way of looking: there is nothing to tell then.
        let _ = self.look_at_change(task, spot);
    }

    /// A call that opens.
    pub(super) fn note_refused_open(&mut self, task: &Task, opening: &Opening, spot: &Spot) {
        let _ = self.look_at_open(task, opening, spot);
    }

    /// A call on two names. Between two mounts the kernel refuses it whatever the rules say.
    pub(super) fn note_refused_two(
        &mut self,
        task: &Task,
        change: impl FnOnce() -> Change,
        (from, to): (&Spot, &Spot),
    ) {
        let _ = self.look_at_two(task, change, from, to);
    }

    fn look_at_change(&mut self, task: &Task, spot: &Spot) -> Step<()> {
        self.check_refused(spot)?;
        let (act, path) = (task.act()?, spot.path()?);
        if let Err(denied) = self.judge(act.change(), &path, None) {
            self.note_change(task, &act, (spot, &path), denied);
        }
        Ok(())
    }

    fn look_at_open(&mut self, task: &Task, opening: &Opening, spot: &Spot) -> Step<()> {
        self.check_refused(spot)?;
        let path = spot.path()?;
        if let Err(denied) = self.judge(opening.change(), &path, None) {
            self.note_open(task, opening, (spot, &path), denied);
        }
        Ok(())
    }

    fn look_at_two(&mut self, task: &Task, change: impl FnOnce() -> Change, from: &Spot, to: &Spot) -> Step<()> {
        if from.stat.mount != to.stat.mount {
            return Ok(());
        }
        self.check_refused(from)?;
        let (old, new, change) = (from.path()?, to.path()?, change());
        if let Err(denied) = self.judge(change, &old, Some(&new)) {
            self.note_two(task, change, (from, &old), (to, &new), denied);
        }
        Ok(())
    }

    fn check_refused(&mut self, spot: &Spot) -> Step<()> {
        // There the front end says itself what it denies.
        if self.setup.regions.is_some() {
            return Err(Reply::Continue);
        }
        if self.mounts.is_read_only(spot) { Ok(()) } else { Err(Reply::Continue) }
    }

    /// Note what a rule denied, unless it would have failed anyway.
    pub(super) fn note_change(&self, task: &Task, act: &Act, (spot, path): (&Spot, &Path), denied: Denied) {
        let Some(need) = need(act) else { return };
        if !act.is_idle(spot.existing().is_some()) && self.is_news(act.verb(), path, || self.permits(spot, path, need))
        {
            self.note(task, act.verb(), path, None, denied);
        }
    }

    /// The same for what is opened.
    pub(super) fn note_open(&self, task: &Task, opening: &Opening, (spot, path): (&Spot, &Path), denied: Denied) {
        let existing = spot.existing();
        let exists = existing.is_some();
        // Fifos, sockets and devices can be written on any mount, and no directory can.
        let is_other = existing.is_some_and(|stat| !stat.is_file() && !opening.is_nameless());
        if is_other || opening.is_idle(exists) {
            return;
        }
        let (verb, need) = if exists { ("write", Need::Content) } else { ("create", Need::Name) };
        if self.is_news(verb, path, || self.permits(spot, path, need)) {
            self.note(task, verb, path, None, denied);
        }
    }

    /// The same for a file without a name that is to get one.
    pub(super) fn note_naming(&self, task: &Task, (spot, path): (&Spot, &Path), denied: Denied) {
        let verb = "create";
        if spot.existing().is_none() && self.is_news(verb, path, || self.permits(spot, path, Need::Name)) {
            self.note(task, verb, path, None, denied);
        }
    }

    /// The same for a call on two names.
    pub(super) fn note_two(
        &self,
        task: &Task,
        change: Change,
        from: (&Spot, &Path),
        to: (&Spot, &Path),
        denied: Denied,
    ) {
        // Without an old name, or with a new one that may not be there yet.
        let is_link = change == Change::Link;
        if from.0.existing().is_none() || (is_link && to.0.existing().is_some()) {
            return;
        }
        let verb = if is_link { "link" } else { "rename" };
        let ((_, path), (_, other)) = if denied.1 == Which::First { (from, to) } else { (to, from) };
        let permitted = |(spot, path)| self.permits(spot, path, Need::Name);
        if self.is_news(verb, path, || permitted(to) && (is_link || permitted(from))) {
            self.note(task, verb, path, Some(other), denied);
        }
    }

    fn denials(&self) -> MutexGuard<'_, Denials> {
        self.setup.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, task: &Task, verb: &'static str, path: &Path, other: Option<&Path>, denied: Denied) {
        let (index, _, cause) = denied;
        let rule = &self.setup.rules.all()[index];
        let mut denials = self.denials();
        let new = denials.record(verb, path, || Denial {
            call: task.call.name,
            verb,
            path: path.to_path_buf(),
            other: other.map(Path::to_path_buf),
            cause,
            rule: index,
            origin: rule.origin.clone(),
            reason: rule.reason.clone(),
            pid: task.caller.tid(),
            comm: task.caller.comm().unwrap_or_default(),
            time: SystemTime::now(),
            count: 1,
        });
        self.show(new.map(Noted::Denial));
    }

    fn show(&self, new: Option<Noted<'_>>) {
        if let (Some(watch), Some(noted)) = (&self.setup.watch, new) {
            watch(noted);
        }
    }

    /// A try to reach somebody; the kernel knows no way there.
    pub(super) fn note_attempt(&self, task: &Task) {
        let Some(origin) = &self.setup.offline else { return };
        if let Ok(address) = task.destination()
            && attempt::needs_network(address)
        {
            let mut denials = self.denials();
            let new = denials.attempt(address, || Attempt {
                address,
                origin: origin.clone(),
                pid: task.caller.tid(),
                comm: task.caller.comm().unwrap_or_default(),
                time: SystemTime::now(),
                count: 1,
            });
            self.show(new.map(Noted::Attempt));
        }
    }

    /// Is it to be noted? The host is asked the first time only.
    fn is_news(&self, verb: &'static str, path: &Path, permitted: impl FnOnce() -> bool) -> bool {
        self.denials().knows(verb, path) || permitted()
    }

    /// Would the host let the caller do it? Only what is the host's own counts: it may be another file by the same name, in an
    /// empty directory of ours, say.
    fn permits(&self, spot: &Spot, path: &Path, need: Need) -> bool {
        self.ask_host(spot, path, need).unwrap_or(false)
    }

    fn ask_host(&self, spot: &Spot, path: &Path, need: Need) -> Step<bool> {
        let host = spot.on_host(&self.host_path(path))?;
        let dir = host.dir.as_fd();
        let can = |name: &[u8], mode| sys::act::access(dir, name, mode, true).is_ok();
        if need == Need::Name {
            return Ok(can(b".", CHANGE_NAMES) && !keeps_others_names(&sys::act::stat(dir).or_continue()?, spot));
        }
        let (file, stat) = act::open_existing(&host)?;
        match need {
            Need::Ownership => Ok(stat.uid == own_uid() && !sys::act::is_read_only(file.as_fd())),
            _ if stat.is_dir() => Ok(can(host.bare_name(), CHANGE_NAMES)),
            _ => Ok(can(host.bare_name(), WRITE)),
        }
    }
}

/// Does the directory keep the caller from removing or replacing what another user has there?
fn keeps_others_names(dir: &Stat, spot: &Spot) -> bool {
    let is_others = |stat: Stat| stat.uid != own_uid();
    dir.mode & STICKY != 0 && is_others(*dir) && spot.existing().is_some_and(is_others)
}

fn own_uid() -> u32 {
    sys::process::user().0
}

/// What an act needs; `None` where it is refused to whoever has no capabilities, or changes nothing.
fn need(act: &Act) -> Option<Need> {
    let (user, group) = sys::process::user();
    match act {
        Act::Access { .. } => None,
        Act::Mkdir { .. } | Act::Mknod { .. } | Act::Symlink { .. } | Act::Unlink { .. } | Act::Bind { .. } => {
            Some(Need::Name)
        }
        Act::Truncate { .. } | Act::SetTimes { times: None } => Some(Need::Content),
        Act::Chown { uid, gid } => {
            let stays = [u32::MAX, user].contains(uid) && [u32::MAX, group].contains(gid);
            stays.then_some(Need::Ownership)
        }
        Act::SetXattr { name, .. } | Act::RemoveXattr { name } => {
            let privileged = [&b"security."[..], b"trusted."].iter().any(|start| name.starts_with(start));
            (!privileged).then_some(Need::Ownership)
        }
        _ => Some(Need::Ownership),
    }
}

//! What may be done with a path, by the plan of a run: the broker's own judgement where it judges, the mounts where they
//! do. Pure.

use std::path::{Path, PathBuf};

use super::question::Act;
use super::system;
use crate::guard::decide::{Cause, Change, Request, Verdict, decide};
use crate::plan::{Kind, Op, Plan, ProcView, View};
use crate::policy::{Access, Judgement};
use crate::probe::Wanted;

/// A path as it is known inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    /// Where it leads, links followed.
    pub(super) path: PathBuf,
    /// The name itself, where that is a link.
    pub(super) named: PathBuf,
    /// What the host has there; `None`: nothing, or nothing that is seen inside.
    pub(super) kind: Option<Kind>,
    /// It was written with a final slash, or is a directory.
    pub(super) as_directory: bool,
    /// The directories above it that are not there, from the deepest up.
    pub(super) absent_above: Vec<PathBuf>,
    /// What is there of the way to it ends in something that is no directory.
    pub(super) is_blocked: bool,
}

/// What stands for any name that no rule names: whether a directory takes new names depends on their names.
const ANY_NAME: &str = ".any name";

/// What makes the policy hold at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// Mounted writable.
    Free,
    /// On a read-only mount, where the broker performs what is permitted.
    Broker,
    /// On a read-only mount.
    ReadOnly,
    /// Covered by something empty.
    Mask,
    /// In an empty directory that holds only what rules name.
    Frame,
    /// A directory of the session's own.
    Private,
    /// What is written goes to a layer.
    Overlay,
    /// The minimal `/dev`.
    Devices,
    /// A new `/proc`.
    Proc,
}

/// Why something may not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The broker denies it, or would if it were asked.
    Rule(Cause),
    /// It is writable by rule, but nothing carries that out at this place.
    NotServed,
    /// A directory on the way is none, or is absent and cannot be made.
    NoDirectory,
    /// It is a writable directory, but a rule keeps every name in it from being made.
    NoNames,
    /// Something is mounted at this very name.
    Mounted,
    /// The host does not permit it to the caller, whatever the policy says.
    Host,
    /// It is in `/dev` or `/proc`, where no rule gives it.
    System,
}

/// A plan, and what is asked of the host.
pub(super) struct Scene<'a> {
    pub(super) plan: &'a Plan,
    /// On which mount a path lies.
    pub(super) mount_of: &'a dyn Fn(&Path) -> Option<u64>,
    /// Do owner and mode permit it?
    pub(super) permits: &'a dyn Fn(&Path, Wanted) -> bool,
}

impl Scene<'_> {
    /// May this be done?
    pub(super) fn may(&self, subject: &Subject, act: Act) -> Result<(), Refusal> {
        self.may_by_policy(subject, act)?;
        let path = subject.of(act);
        let of_host =
            matches!(self.means(subject, act), Means::Free | Means::Overlay | Means::Broker | Means::ReadOnly);
        match of_host {
            true if subject.is_blocked => Err(Refusal::NoDirectory),
            true if !(self.permits)(path, wanted(act)) => Err(Refusal::Host),
            _ => Ok(()),
        }
    }

    /// The same, but for owner and mode.
    pub(super) fn may_by_policy(&self, subject: &Subject, act: Act) -> Result<(), Refusal> {
        let path = subject.of(act);
        match self.means(subject, act) {
            Means::Free | Means::Overlay | Means::Private if act.changes_name() && self.is_mounted(path) => {
                Err(Refusal::Mounted)
            }
            Means::Free | Means::Overlay | Means::Private => Ok(()),
            Means::Frame if act == Act::Read && self.plan.makes_at_or_below(path) => Ok(()),
            Means::Mask | Means::Frame => Err(Refusal::Rule(Cause::Access(Access::Hide))),
            Means::Devices => if_usable(system::device(path, act)),
            Means::Proc => if_usable(system::proc(path, act)),
            Means::ReadOnly | Means::Broker if act == Act::Read => match self.judge(path).access {
                Access::Hide => Err(Refusal::Rule(Cause::Access(Access::Hide))),
                _ => Ok(()),
            },
            Means::Broker => {
                self.decide(subject, act)?;
                self.find_directory(subject)?;
                self.find_name(subject, act)
            }
            Means::ReadOnly => self.decide(subject, act).and(Err(Refusal::NotServed)),
        }
    }

    /// What the broker would answer.
    fn decide(&self, subject: &Subject, act: Act) -> Result<(), Refusal> {
        let request = Request { change: subject.change(act), path: subject.of(act), second: None };
        match decide(&self.plan.names, &request) {
            Verdict::Grant => Ok(()),
            Verdict::Deny { cause, .. } => Err(Refusal::Rule(cause)),
        }
    }

    /// Is the directory there, or can it be made?
    fn find_directory(&self, subject: &Subject) -> Result<(), Refusal> {
        let granted = |path: &PathBuf| self.grants(Change::MakeDirectory, path);
        if subject.absent_above.iter().all(granted) { Ok(()) } else { Err(Refusal::NoDirectory) }
    }

    /// Does a directory that is written to take new names?
    fn find_name(&self, subject: &Subject, act: Act) -> Result<(), Refusal> {
        let is_directory = act == Act::Write && subject.kind == Some(Kind::Directory);
        if !is_directory || self.grants(Change::Content, &any_name(&subject.path)) {
            Ok(())
        } else {
            Err(Refusal::NoNames)
        }
    }

    fn grants(&self, change: Change, path: &Path) -> bool {
        decide(&self.plan.names, &Request { change, path, second: None }) == Verdict::Grant
    }

    pub(super) fn judge(&self, path: &Path) -> Judgement<'_> {
        self.plan.names.judge(path)
    }

    /// Where the kernel looks whether it may be done: in the directory, for what changes or makes a name.
    pub(super) fn place<'a>(&self, subject: &'a Subject, act: Act) -> &'a Path {
        let path = subject.of(act);
        let makes = act == Act::Write && subject.kind.is_none() && !self.is_mounted(path);
        match path.parent() {
            Some(directory) if makes || act.changes_name() => directory,
            _ => path,
        }
    }

    /// What makes the policy hold for an act.
    pub(super) fn means(&self, subject: &Subject, act: Act) -> Means {
        let means = self.means_at(self.place(subject, act));
        // The broker knows a file by its directory, and answers where that lies on one of its mounts.
        let directory = subject.path.parent().filter(|_| act == Act::Write && subject.kind == Some(Kind::File));
        match (means, directory) {
            (Means::Broker | Means::ReadOnly, Some(directory)) if self.is_served(directory) => Means::Broker,
            (Means::Broker, Some(_)) => Means::ReadOnly,
            _ => means,
        }
    }

    /// What makes the policy hold for what lies at `place`.
    fn means_at(&self, place: &Path) -> Means {
        if place.starts_with("/proc") {
            return if self.plan.request.proc == ProcView::Fresh { Means::Proc } else { Means::ReadOnly };
        }
        match self.plan.shown_by(place) {
            Some(Op::Bind { view: View::Write | View::Device, .. }) => Means::Free,
            Some(Op::Private { .. }) => Means::Private,
            Some(Op::Overlay { .. }) => Means::Overlay,
            Some(Op::Mask { .. }) => Means::Mask,
            Some(Op::Frame { .. }) => Means::Frame,
            Some(Op::Dev { .. }) => Means::Devices,
            _ if self.is_served(place) => Means::Broker,
            _ => Means::ReadOnly,
        }
    }

    /// Is it the host's own file that is seen at `place`?
    pub(super) fn is_of_host(&self, place: &Path) -> bool {
        matches!(self.means_at(place), Means::Free | Means::Broker | Means::ReadOnly | Means::Overlay)
            || self.plan.mounts.iter().any(|op| matches!(op, Op::Link { path, .. } if path == place))
    }

    /// Does the broker answer for the mount that a place lies on? It does for those that show a guarded directory.
    fn is_served(&self, place: &Path) -> bool {
        let mount = |path: &Path| (self.plan.shown_by(path).map(Op::path), (self.mount_of)(path));
        let wanted = mount(place);
        self.plan.guarded.iter().any(|guarded| mount(guarded) == wanted)
    }

    fn is_mounted(&self, path: &Path) -> bool {
        self.plan.shown_by(path).is_some_and(|op| op.path() == path)
    }
}

impl Subject {
    /// The path that an act is about: only a rename does not follow a link in the last step.
    pub(super) fn of(&self, act: Act) -> &Path {
        if act == Act::RenameTo { &self.named } else { &self.path }
    }

    fn change(&self, act: Act) -> Change {
        match (act, self.kind) {
            (Act::Read, _) => Change::Attributes,
            // Into a directory is written when a file gets a name in it; which name is another question.
            (Act::Write, Some(Kind::Directory)) => Change::Nameless,
            (Act::Create, _) if self.as_directory => Change::MakeDirectory,
            (Act::Write | Act::Create, _) => Change::Content,
            (Act::RenameTo, _) => Change::Rename { directory: self.as_directory },
        }
    }
}

/// Some new name in a directory.
pub(super) fn any_name(directory: &Path) -> PathBuf {
    directory.join(ANY_NAME)
}

fn wanted(act: Act) -> Wanted {
    match act {
        Act::Read => Wanted::Read,
        Act::Write => Wanted::Write,
        Act::Create | Act::RenameTo => Wanted::Name,
    }
}

fn if_usable(usable: bool) -> Result<(), Refusal> {
    if usable { Ok(()) } else { Err(Refusal::System) }
}

//! What [`probe`](crate::probe) found on the host: types only.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use super::Kind;
use crate::policy::Rules;
use crate::sys::Errno;
use crate::sys::fs::FileId;

/// What is there.
#[derive(Debug, Clone)]
pub struct Facts {
    pub caller: Caller,
    /// One place a rule, in the order of [`Rules::all`]; a pattern has none.
    pub places: Vec<Option<Place>>,
    /// The policy's rules with the further names that links give them.
    pub names: Rules,
    /// Where the way to a private directory ends that cannot simply be mounted upon, by the index of its rule.
    pub anchors: BTreeMap<usize, Anchor>,
    /// The directories in each guarded directory.
    pub children: BTreeMap<PathBuf, Vec<Child>>,
    /// What is mounted, by path.
    pub mounts: Vec<super::Mount>,
    /// The directories in each directory that cannot be an overlay as a whole.
    pub split: BTreeMap<PathBuf, Vec<Child>>,
    /// Those of the guarded directories that compare names without regard to case.
    pub folding: BTreeSet<PathBuf>,
    /// The device of the caller's terminal.
    pub terminal: Option<PathBuf>,
    /// The files that `/etc/ssh/ssh_config.d` holds.
    pub ssh_config: Vec<PathBuf>,
    /// Does the caller's `PWD` lead to the working directory?
    pub pwd_is_cwd: bool,
    /// The bare repository that the project is, or lies in.
    pub bare_repository: Option<PathBuf>,
    /// Can names be guarded here (seccomp user notification)?
    pub can_guard: bool,
    /// The control group in which a run can have one with a limit on memory; looked for where there is such a limit.
    pub memory_group: Option<PathBuf>,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// May the caller map any user and group of its namespace into a new one?
    pub can_map: bool,
    /// What `/proc/self/uid_map` has.
    pub uids: Vec<Extent>,
    pub gids: Vec<Extent>,
}

/// A range of user or group numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Extent {
    pub first: u32,
    pub count: u32,
}

/// What the path of a rule is on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where it leads, links followed; for an absent path where it would be.
    pub real: PathBuf,
    pub state: State,
    /// The links on the way, in order.
    pub links: Vec<Link>,
}

/// A symbolic link on the way of a rule's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where the link lies (itself without links).
    pub at: PathBuf,
    /// Its text.
    pub target: PathBuf,
    /// The path of the rule as it reads from here: the link and what was still to go.
    pub name: PathBuf,
}

/// Is it there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Present {
        kind: Kind,
        file: FileId,
        nlink: u32,
        uid: u32,
    },
    Absent,
    /// The caller may not look, or the look-up failed.
    Unknown(Errno),
}

/// A directory in a guarded directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    pub name: OsString,
}

/// The last directory on the way to something that does not exist, or that the caller may not enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    pub path: PathBuf,
    /// May the command see what it holds?
    pub readable: bool,
}

//! What will be done for a front end whose options have an order, as bubblewrap's have: the root begins empty, and one step
//! after the other makes what is to be seen. As pure data; [`launch::ordered`](crate::launch::ordered) carries it out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Extent, View};
use crate::policy::Rules;

/// One sandbox.
#[derive(Debug, Clone)]
pub struct Ordered {
    /// In the order in which they are carried out.
    pub steps: Vec<Step>,
    pub namespaces: Namespaces,
    pub ids: Ids,
    pub joined: Joined,
    /// Capabilities that the command keeps, bit by bit.
    pub capabilities: u64,
    pub hostname: Option<OsString>,
    pub command: Command,
    /// What the broker judges by, if names are guarded.
    pub guard: Option<Guard>,
    pub process: Process,
}

/// Names that cannot be written, whether they exist or not.
#[derive(Debug, Clone)]
pub struct Guard {
    pub rules: Arc<Rules>,
    /// Every part of the tree as (inside, host); only parts with a host directory are served.
    pub regions: Vec<(PathBuf, Option<PathBuf>)>,
    /// Directories in served parts in which nothing is guarded, by their paths inside: the kernel alone serves them, where
    /// there is a pid namespace to end the sandbox with.
    pub free: Vec<PathBuf>,
}

/// One step towards the tree that the command sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Show something of the host, with what is mounted below it. `served`: it is writable by the broker only.
    Bind {
        source: Source,
        to: Place,
        view: View,
        served: bool,
    },
    /// Show a directory of the session's own, in which anything may be made.
    Private {
        host: PathBuf,
        to: Place,
    },
    Tmpfs {
        to: Place,
        mode: u32,
        size: Option<u64>,
    },
    /// The procfs of the sandbox's own pid namespace, or the host's where it has none.
    Proc {
        to: Place,
    },
    Dev {
        to: Place,
    },
    MessageQueues {
        to: Place,
    },
    /// Make a directory, if there is none.
    Directory {
        to: Place,
        mode: u32,
    },
    /// Copy what a descriptor gives into a new file.
    File {
        fd: i32,
        to: Place,
        mode: u32,
    },
    /// Show what a descriptor gives as a file of its own.
    Data {
        fd: i32,
        to: Place,
        mode: u32,
        view: View,
    },
    Symlink {
        target: PathBuf,
        to: Place,
    },
    Chmod {
        to: Place,
        mode: u32,
    },
    /// Make the mount at a place read-only, but not those below it.
    ReadOnly {
        to: Place,
    },
    /// The last of `lower` is on top.
    Overlay {
        lower: Vec<Source>,
        upper: Upper,
        to: Place,
    },
}

/// Something of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// As it was written.
    pub written: PathBuf,
    /// Free of links.
    pub real: PathBuf,
    /// The open descriptor that it must be.
    pub descriptor: Option<i32>,
    pub is_dir: bool,
}

/// Where something is to be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As it was written.
    pub written: PathBuf,
    /// Inside, free of links as far as the plan can tell.
    pub real: PathBuf,
    /// Links below it are not known to the plan: a file system lies there that only the kernel can read.
    pub follow: bool,
    /// Mode of the directories that are made on the way. Nothing is ever made in a file system of the host.
    pub parents: u32,
}

/// What an overlay writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upper {
    Nothing,
    Memory,
    Host { upper: Source, work: Source },
}

/// What the command does not share with the caller. Users and mounts it never does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a namespace of its own")]
pub struct Namespaces {
    pub pid: bool,
    pub network: bool,
    pub ipc: bool,
    pub uts: bool,
    pub cgroup: bool,
    /// No further user namespace can be made inside.
    pub no_more_users: bool,
    /// Fail where further user namespaces could be made.
    pub assert_no_more_users: bool,
}

/// Users and groups inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ids {
    /// The caller alone: user and group inside and outside.
    One { user: (u32, u32), group: (u32, u32) },
    /// All of the caller's user namespace, under their own numbers.
    Same { users: Vec<Extent>, groups: Vec<Extent> },
    /// What the namespace has that is joined, or what somebody else writes.
    Given,
}

/// Namespaces of others, by the caller's descriptors. Only where no names are guarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Joined {
    /// Instead of a new one.
    pub users: Option<i32>,
    /// Whom to become in it, where it is not the caller: user and group.
    pub as_user: (Option<u32>, Option<u32>),
    /// Once everything is set up.
    pub later_users: Option<i32>,
    /// A new one, if that is asked for, lies below it.
    pub pid: Option<i32>,
}

/// What is executed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Looked for in the `PATH` of `environment`.
    pub program: OsString,
    /// With the name it is called by first.
    pub words: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts; the first of `otherwise` that exists inside, if that is not said.
    pub directory: Option<PathBuf>,
    pub otherwise: Vec<PathBuf>,
}

/// How its processes live. Descriptors are the caller's, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    pub new_session: bool,
    pub die_with_parent: bool,
    /// Without a process that reaps.
    pub as_pid_1: bool,
    pub sync: Option<i32>,
    pub block: Option<i32>,
    /// Read before the sandbox goes on, when somebody has written its user maps.
    pub block_maps: Option<i32>,
    pub info: Option<i32>,
    pub status: Option<i32>,
    /// Programs for `seccomp(2)`, the first first.
    pub filters: Vec<i32>,
    /// Files to take a read lock on, inside.
    pub locks: Vec<PathBuf>,
}

impl Step {
    /// The place where it happens.
    #[must_use]
    pub fn place(&self) -> &Place {
        match self {
            Self::Bind { to, .. }
            | Self::Private { to, .. }
            | Self::Tmpfs { to, .. }
            | Self::Proc { to }
            | Self::Dev { to }
            | Self::MessageQueues { to }
            | Self::Directory { to, .. }
            | Self::File { to, .. }
            | Self::Data { to, .. }
            | Self::Symlink { to, .. }
            | Self::Chmod { to, .. }
            | Self::ReadOnly { to }
            | Self::Overlay { to, .. } => to,
        }
    }
}

//! What will be done: mounts, identity, environment and guarded names, as pure data that can be printed.
//!
//! [`build`] turns what was asked ([`Policy`](crate::policy::Policy)) and what is there ([`Facts`]) into a [`Plan`];
//! [`launch`](crate::launch) carries it out without deciding anything more.
#![forbid(unsafe_code)]

mod build;
mod display;
mod environment;
mod error;
mod facts;
mod mounts;
pub mod ordered;
mod overlay;
mod regions;
mod shown;

pub use build::build;
pub use error::Error;
pub use facts::{Anchor, Caller, Child, Extent, Facts, Link, Place, State};
pub use overlay::{Mount, Upper};

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::policy::{Limits, Network, Rules, Setting};

/// What the command line asks for beyond the policy.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The command with its arguments; never empty.
    pub argv: Vec<OsString>,
    /// Id of the session, if it has a name.
    pub session: Option<String>,
    /// Where the command starts.
    pub cwd: PathBuf,
    /// How `/proc` is shown.
    pub proc: ProcView,
    /// Leave user namespaces usable inside.
    pub nested_userns: bool,
    /// This many descriptors from 3 on reach the command.
    pub preserve_fds: u32,
    /// End the run when the process that started us ends.
    pub die_with_parent: bool,
    /// Keep what is written to overlays under this name.
    pub keep: Option<String>,
}

/// How `/proc` is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcView {
    /// A new procfs of the run's own pid namespace.
    #[default]
    Fresh,
    /// The host's `/proc`, read-only: for containers whose masked `/proc` forbids a new one.
    Host,
}

/// What will be done for one run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub identity: Identity,
    pub root: Root,
    /// In the order in which they are carried out: what lies deeper comes later.
    pub mounts: Vec<Op>,
    /// Which network the command sees, and who says so.
    pub network: Setting<Network>,
    /// The whole environment of the command.
    pub environment: Vec<(OsString, OsString)>,
    /// The rules by real path: what the broker judges by.
    pub names: Arc<Rules>,
    /// Directories that are writable by rule, but not in every name: shown read-only, served by the broker.
    pub guarded: Vec<PathBuf>,
    /// Names that stay hidden when the host creates or replaces them while the command runs.
    pub hidden: Vec<PathBuf>,
    /// Writable paths that do not exist yet (indices of their rules): the command may create exactly these.
    pub absent: Vec<usize>,
    /// Directories that we name to the command, and what names them: they must turn out to be writable.
    pub promised: Vec<(PathBuf, &'static str)>,
    pub limits: Limits,
    /// The control group below which the run gets one of its own, for its limit on memory.
    pub memory_group: Option<PathBuf>,
    /// Bytes that the overlays in memory may hold together; `None`: a quarter of the memory.
    pub overlay_size: Option<u64>,
    /// Refuse or end the run where the default is to state a known limit.
    pub strict: bool,
    /// Known limits that apply to this run.
    pub notes: Vec<String>,
    pub request: Request,
}

/// Which users and groups exist inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Only the caller's own user and group, under their own numbers.
    One { uid: u32, gid: u32 },
    /// All that the caller's user namespace has, under their own numbers (a caller that may map users: root).
    Same { uids: Vec<Extent>, gids: Vec<Extent> },
}

/// What the root directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Root {
    /// The host's tree, read-only.
    Host,
    /// An empty one that holds only what is named.
    Empty,
}

/// A kind of file, as far as a mount point must match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Directory,
    /// Anything else that exists.
    File,
}

/// How a bind shows the host's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    Read,
    Write,
    /// Writable, and device nodes work.
    Device,
}

/// One step towards the file system that the command sees. `rule` is an index into the plan's names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "op")]
pub enum Op {
    /// Show the host's file or directory at its own path.
    Bind { path: PathBuf, view: View, rule: usize },
    /// Show a directory of the session's own.
    Private { path: PathBuf, rule: usize },
    /// Show something empty that nobody can enter or read.
    Mask { path: PathBuf, kind: Kind, rule: usize },
    /// Show an empty directory that holds mount points and links only.
    Frame { path: PathBuf, rule: usize },
    /// Show an empty directory of ours with a link to everything that the host's directory `of` holds, at any moment.
    Mirror { path: PathBuf, of: Option<PathBuf>, rule: usize },
    /// Show the host's directory; what is written goes to a layer of ours.
    Overlay { path: PathBuf, rule: usize, upper: Upper, required: bool },
    /// Make a mount point, or a directory that is promised, below a frame or a private directory.
    Stub { path: PathBuf, kind: Kind },
    /// Make a symbolic link below a frame or a private directory.
    Link { path: PathBuf, target: PathBuf },
    /// Show copies of files that the command could not use as they are, owned by the caller.
    Copy { path: PathBuf, files: Vec<PathBuf> },
    /// A minimal `/dev`; the caller's terminal appears at `/dev/console`, the fast path's library at [`PRELOAD`].
    Dev { console: Option<PathBuf>, preload: bool },
}

/// Where the fast path's library lies inside.
pub const PRELOAD: &str = "/dev/stockade/preload.so";

impl Plan {
    /// Are the command's programs started with the fast path's library?
    #[must_use]
    pub fn preloads(&self) -> bool {
        self.mounts.iter().any(|op| matches!(op, Op::Dev { preload: true, .. }))
    }
}

impl Op {
    /// The place where it happens.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        match self {
            Self::Bind { path, .. }
            | Self::Private { path, .. }
            | Self::Mask { path, .. }
            | Self::Frame { path, .. }
            | Self::Mirror { path, .. }
            | Self::Overlay { path, .. }
            | Self::Stub { path, .. }
            | Self::Link { path, .. }
            | Self::Copy { path, .. } => path,
            Self::Dev { .. } => std::path::Path::new("/dev"),
        }
    }
}

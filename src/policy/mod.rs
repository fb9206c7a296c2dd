//! What was asked: rules about paths, network, environment and session, from every layer.
//!
//! Pure apart from reading the files it is told to read. Nothing here looks at the host's file system to judge a path;
//! what a rule's path *is* on this host is found by [`crate::probe`].
#![forbid(unsafe_code)]

mod access;
mod builtin;
mod builtin_git;
mod bwrap;
mod context;
mod error;
mod expand;
mod file;
mod layers;
mod limits;
mod load;
mod losers;
mod pattern;
mod rules;
mod settings;
#[cfg(test)]
mod tests;
mod tree;

pub use access::Access;
pub use builtin::{HIDDEN_AT_HOME, SHOWN_AT_HOME};
pub use bwrap::{Bwrap, ReportTo};
pub use context::{Context, GitLacks, Linked};
pub use error::{Error, Problem};
pub use expand::is_at_or_below;
pub use file::{Stamp, parse_size};
pub use limits::{Limit, Limits};
pub use load::{Flag, Sources, check, load};
pub use losers::{Loser, Loss};
pub use pattern::Pattern;
pub use rules::{Backing, Judgement, Origin, Rule, Rules, Scope, Target};

use std::ffi::OsString;
use std::time::Duration;

/// Everything that was asked, every layer merged.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The rules in force and the ones that they replaced.
    pub rules: Rules,
    /// Which network the command sees.
    pub network: Setting<Network>,
    /// What is done to the environment of the command.
    pub environment: Environment,
    /// Which session a run belongs to and how long an unused one lives.
    pub session: SessionSettings,
    /// How the project's `.git` is treated.
    pub git: Setting<GitMode>,
    /// End or refuse a run where the default is to state a known limit.
    pub strict: Setting<bool>,
    /// Start the command's programs with the library of the fast path, where it helps.
    pub fast_path: Setting<bool>,
    /// How much a run may use.
    pub limits: Limits,
    /// What holds for every overlay.
    pub overlay: OverlaySettings,
    /// Everything outside of what is writable is an overlay instead of read-only.
    pub redirect: Setting<bool>,
    /// The files that were read, in the order of their layers.
    pub files: Vec<Stamp>,
    /// The circumstances the policy was read in: home, working directory, project, variables.
    pub context: Context,
}

/// A value and who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

/// The network a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A network namespace of its own with nothing but loopback.
    None,
    /// The host's network namespace.
    Host,
}

/// How the project's `.git` is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GitMode {
    /// Only what git's everyday commands write may be written.
    Guarded,
    /// Nothing in `.git` may be written.
    Closed,
    /// `.git` is an ordinary directory of the project.
    Open,
}

/// What is done to the environment of the command. Applied in the order `keep`, `unset`, `set`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// If given, only these variables are inherited; a final `*` matches any rest.
    pub keep: Option<Vec<String>>,
    /// Variables removed; a final `*` matches any rest.
    pub unset: Vec<String>,
    /// Variables set, later ones win.
    pub set: Vec<(OsString, OsString)>,
}

/// What holds for every overlay that does not say otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverlaySettings {
    /// Bytes that the overlays in memory may hold together; `None`: a quarter of the memory.
    pub size: Option<u64>,
    pub scope: Scope,
}

/// Which session a run belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// Names of variables; the first that is set and not empty gives the session's id.
    pub id_from: Vec<String>,
    /// How long a session without runs and owner lives.
    pub idle: Duration,
}

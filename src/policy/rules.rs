//! Rules and the question "what may be done with this path, and who says so?".

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{Access, Pattern};

/// What a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One absolute, lexically normalised path and everything below it.
    Path(PathBuf),
    /// Every path that matches, and everything below it.
    Pattern(Pattern),
}

/// Where a rule or a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Part of stockade.
    BuiltIn,
    /// A policy file; line and column count from 1.
    File { path: PathBuf, line: usize, column: usize },
    /// A command-line flag with its value, as typed.
    Flag(String),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Flag(text) => f.write_str(text),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// Where an overlay keeps what is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// A tmpfs that only the run's mount namespace holds.
    #[default]
    Memory,
    /// The run's directory below the state directory.
    Disk,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub target: Target,
    pub access: Access,
    pub origin: Origin,
    /// An absent path is no error where the access would need it to exist.
    pub optional: bool,
    /// Said in denials and by `explain`.
    pub reason: Option<String>,
    /// Size limit of an overlay in bytes.
    pub size: Option<u64>,
    pub backing: Backing,
}

/// The answer to "what may be done with this path?".
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Judgement<'a> {
    pub access: Access,
    /// The rule that gives the access.
    pub rule: &'a Rule,
    /// Index of that rule in [`Rules::all`].
    pub index: usize,
    /// Some stricter rule names a path strictly below this one (or might, for a pattern): this is a name that must stay
    /// where it is.
    pub above_stricter: bool,
}


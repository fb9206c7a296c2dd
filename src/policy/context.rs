//! The circumstances in which a policy is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// What variables and relative paths of a policy refer to. Made once by `cli` (or by a test), never read again from the
/// process.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The home directory (`~`), absolute.
    pub home: PathBuf,
    /// The working directory, absolute, as the kernel names it (no links).
    pub cwd: PathBuf,
    /// The git work tree around the working directory, else the working directory (`$PROJECT`).
    pub project: PathBuf,
    /// The directory that holds stockade's own state; always hidden.
    pub state: PathBuf,
    /// The environment that the caller gave us.
    pub env: BTreeMap<OsString, OsString>,
}

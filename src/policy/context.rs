//! The circumstances in which a policy is read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// The repository of a linked work tree (`git worktree add`), as found on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// What all work trees of the repository share: usually the `.git` of the main one.
    pub common: PathBuf,
    /// What this work tree has for itself, below `common`.
    pub own: PathBuf,
}

/// What the project's `.git` is known not to hold. A command cannot make these, so that the many rules for what lies in
/// them are needed only where another rule lets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GitLacks {
    /// Linked work trees: `.git/worktrees`.
    pub worktrees: bool,
    /// Repositories of submodules: `.git/modules`.
    pub modules: bool,
}

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
    /// Where `$PROJECT` has its repository, if it is a linked work tree that the repository knows too.
    pub linked: Option<Linked>,
    /// What is not there in the `.git` of `$PROJECT`.
    pub git_lacks: GitLacks,
    /// The directory that holds stockade's own state; always hidden.
    pub state: PathBuf,
    /// The environment that the caller gave us.
    pub env: BTreeMap<OsString, OsString>,
}

impl Context {
    /// The directory that `$CLAUDE_JOB_DIR` names: a harness tells its background jobs to keep temporary files in `tmp`
    /// below it. `None` where the variable names no absolute path without `..`, or one of stockade's own.
    #[must_use]
    pub fn job_dir(&self) -> Option<PathBuf> {
        let value = Path::new(self.env.get(OsStr::new("CLAUDE_JOB_DIR"))?);
        let plain = value.is_absolute() && !value.components().any(|part| part == Component::ParentDir);
        let ours = !self.state.as_os_str().is_empty() && value.starts_with(&self.state);
        // Collected anew: without doubled or final slashes.
        (plain && !ours && value != Path::new("/")).then(|| value.components().collect())
    }
}

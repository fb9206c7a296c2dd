//! What other sandboxes left behind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::check::Check;
use super::place::Place;

const NAME: &str = "leftovers";
const TRIED: &str =
    "looked for other sandboxes' directories in /tmp, and for their empty files in the project and at home";

/// How the names of the directories begin that other tools make for each command or session.
const PREFIXES: [&str; 3] = ["claude-", "srt-", "codex-bwrap-"];

/// Names that other sandboxes protect by making them: in a project, and at home.
const PLACEHOLDERS: [&str; 21] = [
    ".mcp.json",
    ".claude",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex",
    ".agents",
    ".aws",
    ".cursor",
    ".vscode",
    ".idea",
    ".gitconfig",
    ".gitmodules",
    ".ripgreprc",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".envrc",
    ".npmrc",
    ".netrc",
];

pub(super) fn check(place: &Place) -> Vec<Check> {
    let mut checks: Vec<Check> = temporary_directories().iter().filter_map(|dir| temporary(dir)).collect();
    let project = place.policy.as_ref().ok().map(|policy| policy.context.project.clone());
    let dirs: BTreeSet<PathBuf> = project.into_iter().chain(place.home.clone()).collect();
    checks.extend(dirs.iter().filter_map(|dir| placeholders(dir)));
    if checks.is_empty() {
        checks.push(Check::ok(NAME, TRIED, "none of other sandboxes"));
    }
    checks
}

fn temporary_directories() -> BTreeSet<PathBuf> {
    let own = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    own.into_iter().chain(["/tmp".into(), "/var/tmp".into()]).collect()
}

fn temporary(dir: &Path) -> Option<Check> {
    let known =
        |name: &OsString| name.to_str().is_some_and(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let mut names: Vec<OsString> =
        dir.read_dir().ok()?.flatten().map(|entry| entry.file_name()).filter(known).collect();
    names.sort();
    let first = dir.join(names.first()?);
    let cause = format!(
        "{} directories of other sandboxes in {} (such as {}): all sessions of their user share them",
        names.len(),
        dir.display(),
        first.display()
    );
    Some(
        Check::warning(NAME, TRIED, cause)
            .cured_by(format!("when none of these tools runs: rm -r {}", first.display())),
    )
}

/// Empty files and directories under names that such tools make.
fn placeholders(dir: &Path) -> Option<Check> {
    let found: Vec<PathBuf> =
        PLACEHOLDERS.iter().map(|name| dir.join(name)).filter(|path| is_placeholder(path)).collect();
    let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    let first = found.first()?;
    let cause = format!(
        "empty {}: sandboxes that protect a name by making it leave such behind, and an empty file counts as one \
         (an empty .bash_profile hides .profile)",
        names.join(", ")
    );
    let verb = if first.is_dir() { "rmdir" } else { "rm" };
    Some(
        Check::warning(NAME, TRIED, cause)
            .cured_by(format!("what you did not make yourself: {verb} {}", first.display())),
    )
}

fn is_placeholder(path: &Path) -> bool {
    let Ok(meta) = path.symlink_metadata() else { return false };
    let empty_dir = || path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    (meta.is_file() && meta.len() == 0) || is_null_device(&meta) || (meta.is_dir() && empty_dir())
}

/// `/dev/null` under another name.
fn is_null_device(meta: &Metadata) -> bool {
    const NULL: u64 = 1 << 8 | 3;
    meta.file_type().is_char_device() && meta.rdev() == NULL
}

//! What git's everyday commands write in `.git`, and nothing else.
//!
//! An allow-list, because every list of what is dangerous was incomplete: `config`, `hooks`, `commondir`,
//! `worktrees/*/commondir`, `info/attributes` and a planted todo of a rebase each make the next git command *outside*
//! run a program.

use std::path::Path;

use super::{Access, Pattern, Rule, Target, builtin};

const WHOLE: &str = "git outside the sandbox runs what `.git` says; `git = \"open\"` lifts this";

/// Directories, with everything below.
const DIRECTORIES: &[&str] = &[
    // Objects and packs, also their temporary files.
    "objects", // Branches, tags, remotes, the stash; each `<ref>.lock` is inside.
    "refs", "logs", // Recorded resolutions of conflicts: content only.
    "rr-cache",
];

/// Files that git replaces by renaming `<name>.lock` over them.
const FILES: &[&str] = &[
    // The staging area, and the current branch.
    "index",
    "HEAD",
    "packed-refs",
    // Where a shallow clone ends.
    "shallow",
    // Messages for commit, merge and tag; git or an editor writes them in place.
    "COMMIT_EDITMSG",
    "MERGE_MSG",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "NOTES_EDITMSG",
    // State of a merge: the kind of it, what rerere follows, the stash to apply at its end, the tree it came to.
    "MERGE_MODE",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "AUTO_MERGE",
    // State of a bisection (not BISECT_RUN: a command).
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_TERMS",
    "BISECT_NAMES",
    "BISECT_EXPECTED_REV",
    "BISECT_ANCESTORS_OK",
    "BISECT_FIRST_PARENT",
    // gc: who runs it, and what the last one complained of.
    "gc.pid",
    "gc.log",
];

/// Files that are written once and removed.
const TEMPORARY: &[&str] = &[
    // packed-refs is written here before it is renamed over its lock.
    "packed-refs.new",
    // `git add -p` with an edited hunk.
    "addp-hunk-edit.diff",
    "ADD_EDIT.patch",
];

/// Names that git makes up, below `.git`.
const PATTERNS: &[&str] = &[
    // ORIG_HEAD, FETCH_HEAD, MERGE_HEAD, CHERRY_PICK_HEAD, REVERT_HEAD, REBASE_HEAD.
    "*_HEAD",
    "*_HEAD.lock",
    // The index of `git commit <paths>` and of `git stash`.
    "next-index-*.lock",
    "index.stash.*",
    // A split index.
    "sharedindex.*",
    "sharedindex_*",
];

/// Below each `.git/worktrees/<id>`: what a linked work tree has of its own. Not `commondir` and `gitdir`, which say
/// where the repository is, and not `config.worktree`.
const WORKTREE: &[&str] = &[
    "index",
    "index.lock",
    "HEAD",
    "HEAD.lock",
    "*_HEAD",
    "*_HEAD.lock",
    "logs",
    "refs",
    "COMMIT_EDITMSG",
    "MERGE_MSG",
    "SQUASH_MSG",
    "MERGE_MODE",
    "MERGE_RR",
    "MERGE_RR.lock",
    "MERGE_AUTOSTASH",
    "AUTO_MERGE",
    "AUTO_MERGE.lock",
    "next-index-*.lock",
    "index.stash.*",
];

/// The rules for a repository whose `.git` directory (or common directory) this is.
pub(super) fn rules(git: &Path) -> Vec<Rule> {
    let names = DIRECTORIES.iter().chain(FILES).chain(TEMPORARY).map(|name| git.join(name));
    let locks = FILES.iter().map(|name| git.join(format!("{name}.lock")));
    let plain = names.chain(locks).map(|path| builtin::rule(path, Access::Write, None));
    let patterns = PATTERNS.iter().filter_map(|name| pattern_rule(name, git));
    let worktrees = git.join("worktrees");
    let in_worktrees = WORKTREE.iter().filter_map(|name| pattern_rule(&format!("*/{name}"), &worktrees));
    let whole = builtin::rule(git, Access::Read, Some(WHOLE));
    std::iter::once(whole).chain(plain).chain(patterns).chain(in_worktrees).collect()
}

/// A `write` rule for a pattern of the tables above. That each can be parsed is tested.
fn pattern_rule(text: &str, base: &Path) -> Option<Rule> {
    let written = base.join(text);
    let pattern = Pattern::parse(text.as_bytes(), base, &written.to_string_lossy()).ok()?;
    Some(builtin::target_rule(Target::Pattern(pattern), Access::Write, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_becomes_a_rule() {
        let entries = DIRECTORIES.len() + 2 * FILES.len() + TEMPORARY.len() + PATTERNS.len() + WORKTREE.len();
        assert_eq!(rules(Path::new("/p[1]/.git")).len(), 1 + entries);
    }
}

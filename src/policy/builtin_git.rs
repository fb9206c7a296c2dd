//! What git's everyday commands write in `.git`, and nothing else.
//!
//! An allow-list, because every list of what is dangerous was incomplete. It was found by running git inside; what is
//! *not* on it each made the next git command outside run a program: `config`, `config.worktree`, `hooks`, `commondir`
//! and `gitdir` (also of linked work trees), the todo list of an interactive rebase, the strategy in `sequencer/opts`,
//! and a `.git` so damaged that git takes the directory around it for a bare repository.
//!
//! What is on it is data to git: objects, names of objects, the index, messages, patches.

use std::path::Path;

use super::context::{GitLacks, Linked};
use super::{Access, Pattern, Rule, Target, builtin};

const WHOLE: &str = "git outside the sandbox trusts it; `--git open` allows it";
const CONFIGURED: &str = "git outside the sandbox runs programs that it names; `--git open` allows it";
const TODO: &str =
    "git outside the sandbox would run its `exec` lines; plain `git rebase` works, `--git open` allows it";
const STRATEGY: &str = "git outside the sandbox runs the strategy that it names; `--git open` allows it";
const MODULES: &str = "the repositories of submodules, with their configuration; `--git open` allows it";
const WORKTREES: &str = "where linked work trees find their configuration; `--write .git/worktrees` allows it";
const BARE: &str = "with it git could take this directory for a bare repository; `--git open` allows it";

/// Directories that the work trees of a repository share, with everything below.
const SHARED_DIRECTORIES: &[&str] = &[
    // Objects and packs, also their temporary files. `info/alternates` says where more objects are, and no more.
    "objects", // Branches, tags, remotes, the stash; each `<ref>.lock` is inside.
    "refs", "reftable", // Large files: content only.
    "lfs",
];

/// The same, where git writes into existing files, and so through symbolic links: lines with names of branches.
const SHARED_PLAIN: &[&str] = &[
    "logs", // Recorded resolutions of conflicts.
    "rr-cache",
];

/// Files that the work trees of a repository share. git replaces them by renaming `<name>.lock` over them.
const SHARED_FILES: &[&str] = &[
    "packed-refs",
    // Where a shallow clone ends.
    "shallow",
    // What there is to fetch, for servers that only serve files.
    "info/refs",
    // gc: who runs it, and what the last one complained of.
    "gc.pid",
    "gc.log",
];

/// Names that git makes up, in what is shared.
const SHARED_TEMPORARY: &[&str] = &[
    // packed-refs is written here before it is renamed over its lock.
    "packed-refs.new",
    "info/refs_*",
    // Of a git long gone; each gc removes it.
    "info/rev-cache",
    "shallow_*",
];

/// Directories that each work tree has for itself.
const OWN_DIRECTORIES: &[&str] = &[
    // `refs/bisect`, `refs/worktree`, `refs/rewritten`.
    "refs",
];

/// The same, where git writes through links.
const OWN_PLAIN_DIRECTORIES: &[&str] = &[
    "logs",
    // `git am`, and the rebase that works by it: patches, options of `git apply`, no commands.
    "rebase-apply",
    // Several commits for cherry-pick or revert. git refuses any other command in its todo list.
    "sequencer",
    // Conflicts of notes.
    "NOTES_MERGE_WORKTREE",
];

/// Files that each work tree has for itself, replaced by way of a lock.
const OWN_FILES: &[&str] = &[
    // The staging area, and the current branch.
    "index",
    "HEAD",
    // What a merge, a cherry-pick or a revert will say.
    "MERGE_MSG",
    // State of a merge: what rerere follows, the tree it came to; of a merge of notes.
    "MERGE_RR",
    "AUTO_MERGE",
    "NOTES_MERGE_PARTIAL",
    "NOTES_MERGE_REF",
    // Which files of the tree are wanted here.
    "info/sparse-checkout",
    // Where a bisection began: a name of a commit.
    "BISECT_START",
    "BISECT_EXPECTED_REV",
];

/// Files that each work tree has for itself, written in place.
const OWN_PLAIN: &[&str] = &[
    // Messages for commit, merge and tag; git or an editor writes them.
    "COMMIT_EDITMSG",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "NOTES_EDITMSG",
    // The kind of a merge, the stash to apply at its end.
    "MERGE_MODE",
    "MERGE_AUTOSTASH",
    // State of a bisection; BISECT_RUN holds what a test printed.
    "BISECT_LOG",
    "BISECT_TERMS",
    "BISECT_NAMES",
    "BISECT_ANCESTORS_OK",
    "BISECT_FIRST_PARENT",
    "BISECT_RUN",
    // The patches of a rebase, before they are applied.
    "rebased-patches",
    // `git add -p` with an edited hunk.
    "addp-hunk-edit.diff",
    "ADD_EDIT.patch",
];

/// Names that git makes up, in what each work tree has for itself.
const OWN_PATTERNS: &[&str] = &[
    // ORIG_HEAD, FETCH_HEAD, MERGE_HEAD, CHERRY_PICK_HEAD, REVERT_HEAD, REBASE_HEAD, BISECT_HEAD.
    "*_HEAD",
    "*_HEAD.lock",
    // The index of `git commit <paths>` and of `git stash`.
    "next-index-*.lock",
    "index.stash.*",
    // A split index.
    "sharedindex.*",
    "sharedindex_*",
];

/// Not writable anyway: named for what a denial says.
const EXPLAINED: &[(&str, &str)] = &[
    ("config", CONFIGURED),
    ("config.lock", CONFIGURED),
    ("config.worktree", CONFIGURED),
    ("config.worktree.lock", CONFIGURED),
    ("hooks", CONFIGURED),
    ("rebase-merge", TODO),
    (WORKTREES_DIR, WORKTREES),
    (MODULES_DIR, MODULES),
];

/// Not writable inside of what is.
const STRATEGY_FILES: &[&str] = &["sequencer/opts", "sequencer/opts.lock"];

const WORKTREES_DIR: &str = "worktrees";
const MODULES_DIR: &str = "modules";

/// With the dot, the pattern begins at the directory it is for; without, at the root.
const ANY_BELOW: &str = "./**/";

/// With these alone nothing of a project's repository may be written.
pub(super) fn closed_rules(project: &Path, linked: Option<&Linked>) -> Vec<Rule> {
    let git = builtin::rule(project.join(".git"), Access::Read, Some(WHOLE));
    // git asks for it first in every directory that could be a bare repository.
    let head = builtin::rule(project.join("HEAD"), Access::Read, Some(BARE));
    let common = linked.map(|linked| builtin::rule(&linked.common, Access::Read, Some(WHOLE)));
    [git, head].into_iter().chain(common).collect()
}

/// The rules for a project, whether it is a repository, a linked work tree of one, or neither yet.
pub(super) fn rules(project: &Path, linked: Option<&Linked>, lacks: GitLacks) -> Vec<Rule> {
    let git = project.join(".git");
    let mut rules = closed_rules(project, linked);
    if let Some(Linked { common, own }) = linked {
        rules.extend(shared_rules(common).chain(own_rules(own, "")).chain(expiry_rules(common)));
    } else {
        rules.extend(shared_rules(&git).chain(own_rules(&git, "")));
        rules.extend(nested_rules(&git, !lacks.worktrees, !lacks.modules));
    }
    rules
}

/// The rules for what is not there, where a rule that somebody wrote `opens` the directory for it.
pub(super) fn late_rules(project: &Path, lacks: GitLacks, opens: impl Fn(&Path) -> bool) -> Vec<Rule> {
    let git = project.join(".git");
    let worktrees = lacks.worktrees && opens(&git.join(WORKTREES_DIR));
    let modules = lacks.modules && opens(&git.join(MODULES_DIR));
    nested_rules(&git, worktrees, modules)
}

/// Rules for linked work trees and for the repositories of submodules, all of them patterns.
fn nested_rules(git: &Path, worktrees: bool, modules: bool) -> Vec<Rule> {
    let mut rules = Vec::new();
    if worktrees {
        rules.extend(own_rules(&git.join(WORKTREES_DIR), "*/"));
    }
    if modules {
        rules.extend(submodule_rules(&git.join(MODULES_DIR)));
    }
    rules
}

/// What the work trees of one repository have in common.
fn shared_rules(common: &Path) -> impl Iterator<Item = Rule> {
    let explained = EXPLAINED.iter().map(|(name, reason)| builtin::rule(common.join(name), Access::Read, Some(reason)));
    shared_names().filter_map(|name| rule(common, &name, Access::Write, None)).chain(explained)
}

/// gc expires the reflogs of all work trees. For that it takes, and gives back, the lock of each `HEAD`.
fn expiry_rules(common: &Path) -> impl Iterator<Item = Rule> {
    let names = ["HEAD.lock", "worktrees/*/HEAD.lock", "worktrees/*/logs"];
    names.into_iter().filter_map(|name| rule(common, name, Access::Write, None))
}

/// What one work tree has for itself, in each directory that `prefix` matches.
fn own_rules(base: &Path, prefix: &str) -> impl Iterator<Item = Rule> {
    let at = move |name: &str| format!("{prefix}{name}");
    let written = own_names().filter_map(move |name| rule(base, &at(&name), Access::Write, None));
    let strategy = STRATEGY_FILES.iter().filter_map(move |name| rule(base, &at(name), Access::Read, Some(STRATEGY)));
    let todo = rule(base, &at("rebase-merge"), Access::Read, Some(TODO));
    written.chain(strategy).chain(todo)
}

/// Repositories of submodules. Their names may hold slashes.
fn submodule_rules(modules: &Path) -> impl Iterator<Item = Rule> {
    let shared = shared_names().filter_map(|name| rule(modules, &format!("{ANY_BELOW}{name}"), Access::Write, None));
    shared.chain(own_rules(modules, ANY_BELOW))
}

fn shared_names() -> impl Iterator<Item = String> {
    let locked = SHARED_FILES.iter().flat_map(|name| [(*name).to_owned(), format!("{name}.lock")]);
    let plain = SHARED_DIRECTORIES.iter().chain(SHARED_PLAIN).chain(SHARED_TEMPORARY).map(|name| (*name).to_owned());
    plain.chain(locked)
}

fn own_names() -> impl Iterator<Item = String> {
    let locked = OWN_FILES.iter().flat_map(|name| [(*name).to_owned(), format!("{name}.lock")]);
    let plain = [OWN_DIRECTORIES, OWN_PLAIN_DIRECTORIES, OWN_PLAIN, OWN_PATTERNS].into_iter().flatten();
    plain.map(|name| (*name).to_owned()).chain(locked)
}

/// A rule for a name of the tables above. That each can be parsed is tested.
fn rule(base: &Path, name: &str, access: Access, reason: Option<&'static str>) -> Option<Rule> {
    let path = base.join(name);
    let target = if name.contains('*') {
        Target::Pattern(Pattern::parse(name.as_bytes(), base, &path.to_string_lossy()).ok()?)
    } else {
        Target::Path(path)
    };
    let plain = access == Access::Write && !may_hold_links(name);
    Some(Rule { plain, ..builtin::target_rule(target, access, reason) })
}

/// git outside follows no link there when it writes, and everything can be written without asking anybody.
fn may_hold_links(name: &str) -> bool {
    let name = name.trim_start_matches(ANY_BELOW).trim_start_matches("*/");
    SHARED_DIRECTORIES.contains(&name) || OWN_DIRECTORIES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_becomes_a_rule() {
        let shared = SHARED_DIRECTORIES.len() + SHARED_PLAIN.len() + SHARED_TEMPORARY.len() + 2 * SHARED_FILES.len();
        let own = OWN_DIRECTORIES.len()
            + OWN_PLAIN_DIRECTORIES.len()
            + OWN_PLAIN.len()
            + OWN_PATTERNS.len()
            + 2 * OWN_FILES.len();
        let (own, explained) = (own + STRATEGY_FILES.len() + 1, EXPLAINED.len());
        let project = Path::new("/p[1]");
        let none = GitLacks::default();
        assert_eq!(rules(project, None, none).len(), 2 + 2 * shared + 3 * own + explained);
        let all = GitLacks { worktrees: true, modules: true };
        assert_eq!(rules(project, None, all).len(), 2 + shared + own + explained);
        assert_eq!(late_rules(project, all, |_| true).len(), shared + 2 * own);
        assert_eq!(late_rules(project, all, |dir| dir.ends_with(MODULES_DIR)).len(), shared + own);
        assert!(late_rules(project, none, |_| true).is_empty());
        let linked = Linked { common: "/m/.git".into(), own: "/m/.git/worktrees/w".into() };
        assert_eq!(rules(project, Some(&linked), none).len(), 3 + shared + own + explained + 3);
    }

    #[test]
    fn names_of_submodules_are_anchored() {
        let rules = rules(Path::new("/p"), None, GitLacks::default());
        let anchors = rules.iter().filter_map(|rule| match &rule.target {
            Target::Pattern(pattern) => Some(pattern.anchor()),
            Target::Path(_) => None,
        });
        assert!(anchors.into_iter().all(|anchor| anchor.starts_with("/p/.git")));
    }
}

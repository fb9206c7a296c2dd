//! A repository that is the same every time, and a program that tells whether git ran it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Outcome, Sandbox, real_home};

/// Commits get the same names everywhere.
const DATES: [(&str, &str); 2] =
    [("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z"), ("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")];

const CONFIG: &str = "[user]\n\tname = n\n\temail = e@example.org\n[init]\n\tdefaultBranch = main\n[core]\n\teditor = true\n\
    [protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n";

/// Three commits: `one`, `two` on `main`; `side` beside `two`; `clash` changes the line that `two` changed.
const BEGIN: &str = "git init -q && echo one > f && git add f && git commit -qm one
    git switch -qc side && echo side > s && git add s && git commit -qm side
    git switch -qc clash main && echo clash > f && git commit -qam clash
    git switch -q main && echo two > f && git commit -qam two";

/// A sandbox whose project is a repository.
pub(crate) fn repository() -> Sandbox {
    let sandbox = Sandbox::below(real_home());
    sandbox.file_beside("h/.gitconfig", CONFIG);
    git(&sandbox, BEGIN).ok();
    sandbox
}

/// A script in the project, outside, stopped by the first command that fails.
#[must_use]
pub(crate) fn git(sandbox: &Sandbox, script: &str) -> Outcome {
    sandbox.script(&dated(script))
}

/// A script for git, with dates that do not change.
pub(crate) fn dated(script: &str) -> String {
    let dates = DATES.map(|(name, value)| format!("export {name}={value}\n")).concat();
    format!("{dates}set -e\n{script}")
}

/// A program beside the project, and the file that exists once it has been run.
pub(crate) struct Canary {
    pub(crate) program: String,
    ran: PathBuf,
}

impl Canary {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        let ran = sandbox.beside("ran");
        let text = format!("#!/bin/sh\ntouch {}\n", ran.display());
        let program = sandbox.program(&sandbox.beside("canary"), &text);
        Self { program: program.to_str().unwrap().to_owned(), ran }
    }

    pub(crate) fn was_run(&self) -> bool {
        self.ran.exists()
    }
}

/// What a person may do next in a directory below the project.
pub(crate) fn next_commands(sandbox: &Sandbox, dir: &str) -> Outcome {
    sandbox.script(&format!(
        "cd {dir}; git status; git diff; git log -1; git stash list; git rebase --continue; git cherry-pick --continue
        git revert --continue; git am --continue; git add -A; git commit -m host; git branch; git worktree list
        git checkout -f -q HEAD; git fetch -q; git gc -q; true"
    ))
}

/// The attack (`CANARY` stands for the program) makes git outside run a program where there is no sandbox, and nothing
/// of the kind from inside. `prepare` is done outside first, `dir` is where git is used afterwards.
pub(crate) fn runs_nothing(prepare: &str, attack: &str, dir: &str) {
    for inside in [false, true] {
        let sandbox = repository();
        git(&sandbox, prepare).ok();
        let canary = Canary::new(&sandbox);
        let attack = attack.replace("CANARY", &canary.program);
        let attacked = if inside { sandbox.sh(&attack) } else { sandbox.script(&attack) };
        assert!(!canary.was_run(), "too early\n{}", attacked.describe());
        let next = next_commands(&sandbox, dir);
        assert_eq!(canary.was_run(), !inside, "inside: {inside}\n{}{}", attacked.describe(), next.describe());
    }
}

//! An index that names a repository below makes `git status` ask git there, and that one is configured inside. A known
//! limit: nested repositories are ordinary files. A pattern closes it for who needs none.

use crate::support::git::{Canary, git, next_commands, repository};

const ATTACK: &str = "git init -q evil; git -C evil commit -q --allow-empty -m y; git add evil; git commit -qm link
    git -C evil config core.fsmonitor CANARY; touch evil/f";

#[test]
fn named_by_the_index() {
    let sandbox = repository();
    let canary = Canary::new(&sandbox);
    let pattern = sandbox.project.join("**/.git");
    let _ = sandbox.run().read(pattern).sh(&ATTACK.replace("CANARY", &canary.program));
    git(&sandbox, "git commit --allow-empty -qm works").ok();
    let _ = next_commands(&sandbox, ".");
    assert!(!canary.was_run());
    sandbox.run().read(sandbox.project.join("**/.git")).sh("git commit -q --allow-empty -m inside").ok();
}

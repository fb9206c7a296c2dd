//! `commondir` of a linked work tree says where its configuration is; `.git/worktrees` lies in the main repository.

use crate::support::git::runs_nothing;

const PREPARE: &str = "git worktree add -q ../w side";

#[test]
fn planted_from_the_main_work_tree() {
    let attack = "git clone -q . evil; git -C evil config core.fsmonitor CANARY; cp -r evil/.git other; rm -rf evil
        mkdir -p other/worktrees; echo $PWD/other > .git/worktrees/w/commondir
        cp -r .git/worktrees/w other/worktrees/w; mv .git/worktrees/w .git/refs/w; cp -r other/worktrees/w .git/worktrees/w
        mv .git/worktrees .git/refs/worktrees; cp -r other/worktrees .git/worktrees";
    runs_nothing(PREPARE, attack, "../w");
}

#[test]
fn configuration_of_the_work_tree() {
    let prepare = format!("git config extensions.worktreeConfig true; {PREPARE}");
    let attack = "printf '[core]\\n\\tfsmonitor = CANARY\\n' > .git/worktrees/w/config.worktree";
    runs_nothing(&prepare, attack, "../w");
}

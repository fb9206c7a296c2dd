//! `commondir` of a linked work tree says where its configuration is; `.git/worktrees` lies in the main repository.

use crate::support::git::runs_nothing;
use crate::support::{Sandbox, need, real_home};

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

/// What is not there needs no rules until somebody opens it, by whatever name.
#[test]
fn opened_by_a_link_while_it_is_not_there() {
    if !need("git") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    sandbox.script("git init -q .; ln -s $PWD ../way; mkdir ../st").ok();
    let opened = sandbox.beside("way/.git/worktrees/w");
    let script = "until [ -d .git/worktrees ]; do sleep .02; done; cd .git/worktrees; mkdir -p w/rebase-merge w/sequencer
        echo x > w/rebase-merge/git-rebase-todo; echo x > w/sequencer/opts; echo x > w/HEAD; ls w w/rebase-merge w/sequencer";
    let mut run = sandbox.run().write(&opened).spawn(["sh", "-c", script]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::fs::create_dir(sandbox.project.join(".git/worktrees")).unwrap();
    let done = run.wait();
    assert!(sandbox.project.join(".git/worktrees/w/HEAD").exists(), "{}", done.describe());
    for name in ["rebase-merge/git-rebase-todo", "sequencer/opts"] {
        assert!(!sandbox.project.join(".git/worktrees/w").join(name).exists(), "{name} {}", done.describe());
    }
}

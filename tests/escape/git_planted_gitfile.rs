//! A `.git` file says where the repository of a linked work tree is. Who runs stockade there must not get what it names
//! made writable because of the text alone.

use std::fs;

use crate::support::Sandbox;
use crate::support::git::{git, repository};

/// Another repository with a linked work tree of its own, beside the project.
fn foreign(sandbox: &Sandbox) {
    git(
        sandbox,
        "git init -q ../foreign; cd ../foreign; git commit -qm x --allow-empty; git worktree add -q ../theirs",
    )
    .ok();
}

#[test]
fn naming_a_foreign_repository() {
    let sandbox = repository();
    foreign(&sandbox);
    sandbox.sh("mkdir sub; cp ../theirs/.git sub/.git").ok();
    let inside = sandbox.run().cwd(sandbox.project.join("sub"));
    let script = "echo x > ../../foreign/.git/worktrees/theirs/HEAD; echo x > ../../foreign/.git/refs/x; git commit --allow-empty -m x";
    inside.sh(script).fails().says("read-only");
    assert!(!sandbox.beside("foreign/.git/refs/x").exists());
    let head = fs::read_to_string(sandbox.beside("foreign/.git/worktrees/theirs/HEAD")).unwrap();
    assert_eq!(head, "ref: refs/heads/theirs\n");
}

#[test]
fn naming_a_repository_of_links() {
    let sandbox = repository();
    let victim = sandbox.file_beside("victim/file", "old");
    let plant = "mkdir -p sub evil/worktrees/x; echo gitdir: $PWD/evil/worktrees/x > sub/.git
        echo $PWD/sub/.git > evil/worktrees/x/gitdir; echo ../.. > evil/worktrees/x/commondir
        ln -s $PWD/../victim evil/objects; ln -s $PWD/../victim evil/worktrees/x/logs";
    sandbox.sh(plant).ok();
    let script = format!("echo new > {}; echo new > ../evil/objects/file", victim.display());
    sandbox.run().cwd(sandbox.project.join("sub")).sh(&script).fails();
    assert_eq!(fs::read_to_string(victim).unwrap(), "old");
}

#[test]
fn a_true_one_opens_only_the_list() {
    let sandbox = repository();
    git(&sandbox, "git worktree add -q ../w side; git worktree add -q ../other clash").ok();
    let script = "git commit -q --allow-empty -m inside
        for name in f new .git/config .git/HEAD .git/index .git/hooks/x .git/worktrees/w/commondir .git/worktrees/w/gitdir \
            .git/worktrees/other/HEAD .git/worktrees/other/index .git/worktrees/new; do
            if (echo x >> ../p/$name) 2>/dev/null; then echo $name; fi
        done";
    sandbox.run().cwd(sandbox.beside("w")).sh(script).prints("");
    git(&sandbox, "git log -1 --format=%s side").ok().prints("inside");
}

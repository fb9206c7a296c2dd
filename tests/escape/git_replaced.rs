//! `.git` moved away or removed, and another one in its place.

use crate::support::git::runs_nothing;

const OTHER: &str = "git clone -q . c; git -C c config core.fsmonitor CANARY";

#[test]
fn by_another_directory() {
    runs_nothing("", &format!("{OTHER}; mv .git old; mv -T c/.git .git; rm -rf c old"), ".");
    runs_nothing("", &format!("{OTHER}; rm -rf .git; cp -r c/.git/. .git; rm -rf c"), ".");
}

#[test]
fn in_exchange() {
    // renameat2 with RENAME_EXCHANGE.
    let exchange = "python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"c/.git\", -100, b\".git\", 2)'";
    runs_nothing("", &format!("{OTHER}; {exchange}; rm -rf c"), ".");
}

#[test]
fn by_a_file_or_a_link() {
    let attack = "git clone -q . c; git -C c config core.fsmonitor CANARY; mv c/.git other; rm -rf c
        mv .git old; echo 'gitdir: other' > .git || ln -s other .git";
    runs_nothing("", attack, ".");
}

#[test]
fn of_a_linked_work_tree() {
    let attack = "cd w; git clone -q . c; git -C c config core.fsmonitor CANARY; mv c/.git other; rm -rf c
        rm -f .git; echo 'gitdir: other' > .git";
    let sandbox = crate::support::git::repository();
    crate::support::git::git(&sandbox, "git worktree add -q w side").ok();
    let canary = crate::support::git::Canary::new(&sandbox);
    let attack = attack.replace("CANARY", &canary.program).replace("cd w; ", "");
    let _ = sandbox.run().cwd(sandbox.project.join("w")).sh(&attack);
    let _ = crate::support::git::next_commands(&sandbox, "w");
    assert!(!canary.was_run());
}

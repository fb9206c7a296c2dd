//! Of a cherry-pick of several commits `sequencer/opts` holds the merge strategy: git runs `git-merge-<strategy>`, and with
//! slashes in it that is a program of the work tree.

use crate::support::git::runs_nothing;

const STATE: &str = "mkdir -p git-merge-; cp CANARY x; git rev-parse clash > .git/sequencer/todo.new
    git rev-parse HEAD > .git/sequencer/head; git rev-parse HEAD > .git/sequencer/abort-safety
    printf 'pick %s clash\\npick %s side\\n' $(git rev-parse clash) $(git rev-parse side) > .git/sequencer/todo
    rm .git/sequencer/todo.new";

#[test]
fn written() {
    let attack = format!(
        "mkdir -p .git/sequencer; {STATE}
        printf '[options]\\n\\tstrategy = /../x\\n' > .git/sequencer/opts"
    );
    runs_nothing("", &attack, ".");
}

#[test]
fn moved_in_with_its_directory() {
    let attack = format!(
        "mkdir -p .git/sequencer; {STATE}; mv .git/sequencer .git/refs/s || cp -r .git/sequencer .git/refs/s
        printf '[options]\\n\\tstrategy = /../x\\n' > .git/refs/s/opts
        rm -r .git/sequencer; mv .git/refs/s .git/sequencer || ln -s refs/s .git/sequencer"
    );
    runs_nothing("", &attack, ".");
}

#[test]
fn with_commands_in_the_todo_list() {
    use crate::support::git::{Canary, next_commands, repository};
    let sandbox = repository();
    let canary = Canary::new(&sandbox);
    let attack = format!("mkdir -p .git/sequencer; {STATE}; echo 'exec CANARY' > .git/sequencer/todo");
    let _ = sandbox.sh(&attack.replace("CANARY", &canary.program));
    assert!(sandbox.project.join(".git/sequencer/todo").exists());
    let _ = next_commands(&sandbox, ".");
    assert!(!canary.was_run());
}

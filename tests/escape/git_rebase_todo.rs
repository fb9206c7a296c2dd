//! An interactive rebase that waits for `--continue` then runs the `exec` lines of its todo list.

use crate::support::git::runs_nothing;

#[test]
fn of_a_rebase_begun_inside() {
    let attack = "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -i HEAD~1
        echo 'exec CANARY' >> .git/rebase-merge/git-rebase-todo";
    runs_nothing("", attack, ".");
}

#[test]
fn of_a_rebase_begun_outside() {
    let prepare = "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -i HEAD~1";
    let attack = "cd .git/rebase-merge; echo 'exec CANARY' > new; cp new git-rebase-todo; mv -f new git-rebase-todo";
    runs_nothing(prepare, attack, ".");
}

#[test]
fn made_elsewhere_and_moved_here() {
    let attack =
        "git clone -q . c; cd c; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git -c rebase.backend=merge rebase -i HEAD~1
        sed -i '1iexec CANARY' .git/rebase-merge/git-rebase-todo; cd ..
        for name in rebase-merge refs/x; do rm -rf .git/$name; cp -r c/.git/rebase-merge .git/$name; done
        mv .git/refs/x .git/rebase-merge || ln -s refs/x .git/rebase-merge; rm -rf c .git/refs/x";
    runs_nothing("", attack, ".");
}

#[test]
fn where_git_am_keeps_its_patches() {
    use crate::support::git::{Canary, git, next_commands, repository};
    let sandbox = repository();
    let canary = Canary::new(&sandbox);
    let state = "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -i HEAD~1
        sed -i '1iexec CANARY' .git/rebase-merge/git-rebase-todo; mv .git/rebase-merge ../state; git switch -q main";
    git(&sandbox, &state.replace("CANARY", &canary.program)).ok();
    sandbox
        .sh("cp -r ../state .git/rebase-apply; touch .git/rebase-apply/rebasing; echo s > .git/rebase-apply/strategy")
        .ok();
    let _ = next_commands(&sandbox, ".");
    assert!(!canary.was_run());
}

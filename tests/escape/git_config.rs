//! `.git/config` and what belongs to it name programs: `core.fsmonitor`, filters, `core.sshCommand`, aliases.

use crate::support::git::runs_nothing;

#[test]
fn written_by_git() {
    runs_nothing(
        "",
        "git config core.fsmonitor CANARY; git config core.editor CANARY; git config alias.status !CANARY",
        ".",
    );
}

#[test]
fn written_by_hand() {
    let attack = "printf '[core]\\n\\tfsmonitor = CANARY\\n' > new
        cat new >> .git/config; cp new .git/config.lock; mv -f .git/config.lock .git/config; ln -f new .git/config
        cp new .git/index.lock; mv -f .git/index.lock .git/config; cp new .git/refs/x; mv -f .git/refs/x .git/config
        python3 -c 'import os; os.rename(\"new\", \".git/config\")'; rm new";
    runs_nothing("", attack, ".");
}

#[test]
fn of_one_work_tree() {
    let attack = "git config --worktree core.fsmonitor CANARY
        printf '[core]\\n\\tfsmonitor = CANARY\\n' > .git/config.worktree";
    runs_nothing("git config extensions.worktreeConfig true", attack, ".");
}

#[test]
fn a_filter_with_its_attributes() {
    let attack = "mkdir -p .git/info; echo '* filter=x diff=x' > .git/info/attributes; echo changed > f
        git config filter.x.clean CANARY; git config diff.x.command CANARY";
    runs_nothing("", attack, ".");
}

//! Where `.git` is no repository, git asks whether the directory itself is a bare one: `HEAD`, `objects`, `refs` and a
//! `config`, all of them ordinary names in a work tree.

use crate::support::git::runs_nothing;

#[test]
fn made_of_the_work_tree() {
    let attack = "rm -f .git/HEAD; mkdir objects refs; echo 'ref: refs/heads/x' > HEAD || ln -s refs/heads/x HEAD
        echo 'ref: refs/heads/x' > refs/h; test -e HEAD || mv refs/h HEAD
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tworktree = .\\n\\tfsmonitor = CANARY\\n' > config";
    runs_nothing("", attack, ".");
}

//! git runs the programs in `.git/hooks`, and those where `core.hooksPath` leads.

use crate::support::git::runs_nothing;

#[test]
fn planted() {
    let attack = "mkdir -p .git/hooks; for name in pre-commit post-index-change post-checkout; do
        cp CANARY .git/hooks/$name; cp CANARY .git/refs/x; mv -f .git/refs/x .git/hooks/$name; done; echo x > new";
    runs_nothing("", attack, ".");
}

#[test]
fn a_directory_moved_in() {
    let attack = "mkdir other; cp CANARY other/post-index-change; mv .git/hooks moved || mv .git/hooks .git/lfs
        mv other .git/hooks || ln -s ../other .git/hooks; echo x > new";
    runs_nothing("rm -r .git/hooks", attack, ".");
    runs_nothing("", attack, ".");
}

#[test]
fn a_path_to_others() {
    let attack = "mkdir other; cp CANARY other/post-index-change; git config core.hooksPath other; echo x > new";
    runs_nothing("", attack, ".");
}

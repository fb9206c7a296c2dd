//! The repository of a submodule lies in `.git/modules`; `git status` asks git about each submodule.

use crate::support::git::runs_nothing;

const PREPARE: &str = "git clone -q . ../other; git submodule --quiet add ../other sub; git commit -qm sub";

#[test]
fn written() {
    let attack = "git -C sub config core.fsmonitor CANARY
        printf '[core]\\n\\tfsmonitor = CANARY\\n\\tworktree = ../../../sub\\n' > .git/modules/sub/config
        cp CANARY .git/modules/sub/hooks/post-index-change; touch sub/x";
    runs_nothing(PREPARE, attack, ".");
}

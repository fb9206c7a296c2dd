//! With a file `commondir` in `.git`, git takes its configuration from elsewhere.

use crate::support::git::runs_nothing;

const ATTACK: &str = "git clone -q . evil; git -C evil config core.fsmonitor CANARY; cp -r evil/.git other; rm -rf evil
    for name in commondir commondir.lock; do echo ../other > .git/$name; done
    ln -s ../x .git/commondir || mv .git/commondir.lock .git/commondir";

#[test]
fn planted() {
    runs_nothing("", ATTACK, ".");
}

//! Where a directory folds case, a protected name can be spelt otherwise.

use crate::support::{Sandbox, need};

/// Makes a file system whose directory `sub` folds case, with something protected by a pattern in it.
const SETUP: &str = "set -e
    truncate -s 16M ../disk; mkfs.ext4 -q -O casefold ../disk; mkdir ../on; mount -o loop ../disk ../on; mkdir -p ../on/p/sub
    cd ../on/p; chattr +F sub; echo 'as it was' > sub/secret; touch other";

fn attacked(attack: &str) {
    let needs = ["root", "/sys/fs/ext4/features/casefold", "/dev/loop-control", "mkfs.ext4"];
    if !needs.into_iter().all(need) {
        return;
    }
    let sandbox = Sandbox::new();
    let control = format!("{SETUP}; set +e; {attack}; cat sub/secret");
    let outside = sandbox.outside(&["unshare", "-m", "sh", "-c", &control]);
    assert_ne!(outside.out, "as it was\n", "the attack does nothing\n{}", outside.describe());
    let script = format!("{SETUP}; $SK run --no-config --read '**/secret' -- sh -c '{attack}' || :; cat sub/secret");
    let sandbox = Sandbox::new();
    let outcome = sandbox.outside(&["unshare", "-m", "sh", "-c", &script]).ok().prints("as it was");
    outcome.says("Read-only file system");
}

#[test]
fn writes_to_a_protected_name() {
    attacked("echo changed > sub/SECRET");
}

#[test]
fn removes_a_protected_name() {
    attacked("rm sub/Secret");
}

#[test]
fn moves_a_protected_name() {
    attacked("mv sub/secreT stolen");
}

#[test]
fn replaces_a_protected_name() {
    attacked("mv other sub/sEcret");
}

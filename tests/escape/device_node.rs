//! A device node in a tree that a rule makes visible or writable.

use crate::support::{Sandbox, need};

#[test]
fn cannot_be_opened() {
    if need("root") {
        let sandbox = Sandbox::new();
        let beside = sandbox.beside("node");
        sandbox.script(&format!("mknod zero c 1 5; mknod {} c 1 5", beside.display())).ok();
        let script =
            format!("for node in zero {}; do head -c 1 $node | od -An -tx1 | tr -d ' '; done", beside.display());
        sandbox.script(&script).ok().prints("00\n00");
        sandbox.run().read(&beside).sh(&script).prints("").says("Permission denied");
    }
}

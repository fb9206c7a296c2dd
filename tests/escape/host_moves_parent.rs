//! The host moves what lies above a writable directory to a protected name: the mount goes along, untouched itself.

use std::fs;

use crate::support::{Sandbox, eventually, need, python};

#[test]
fn the_directory_below_cannot_be_written_there() {
    if !need("python3") {
        return;
    }
    for wait in ["0", "0.6"] {
        let sandbox = Sandbox::new();
        sandbox.file("a/guarded/file", "");
        sandbox.file("a/free/file", "");
        let script = format!(
            "import os, time
time.sleep({wait}); open('a/free/ready', 'w').close()
while not os.path.exists('.vscode/free'): time.sleep(0.005)
time.sleep(0.5)
open('.vscode/free/new', 'w')"
        );
        let guarded = sandbox.project.join("a/guarded");
        let mut running = sandbox.run().read(guarded).spawn(python(&script));
        eventually("it works", || sandbox.project.join("a/free/ready").exists().then_some(()));
        fs::rename(sandbox.project.join("a"), sandbox.project.join(".vscode")).unwrap();
        running.wait().fails().says("Read-only file system");
        assert!(!sandbox.project.join(".vscode/free/new").exists(), "{wait}");
    }
}

//! What is mounted while the sandbox runs must be locked in inner namespaces as what was there before is: there nobody
//! may allow devices.

use super::{project, sandboxed};
use crate::support::{need, nested};

#[test]
fn of_a_new_directory_is_refused() {
    if !need("userns") {
        return;
    }
    let sandbox = project();
    let script = "mkdir new && echo made; for dir in new src; do
        mount -o remount,bind,rw,dev,suid $dir 2>/dev/null && echo evil; umount $dir 2>/dev/null && echo evil; done; true";
    sandboxed(&sandbox).argv(nested(&["sh", "-c", script])).ok().prints("made");
    assert!(sandbox.project.join("new").is_dir());
}

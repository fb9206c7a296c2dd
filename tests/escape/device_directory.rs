//! `/dev` holds what programs expect and no device of the host.

use crate::support::{Sandbox, entries};

#[test]
fn has_no_disk_no_memory_no_messages() {
    let allowed = [
        "console", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
        "zero", "core", "mqueue", "stockade",
    ];
    let host = entries("/dev".as_ref());
    let outcome = Sandbox::new().run().argv(["ls", "-A", "/dev"]).ok();
    let more: Vec<&str> = outcome.out.lines().filter(|name| !allowed.contains(name)).collect();
    assert!(more.is_empty(), "{more:?} of {host:?}");
    Sandbox::new().sh("find /dev -type b").ok().prints("");
}

#[test]
fn nothing_can_be_added() {
    Sandbox::new().sh("mknod /dev/x c 1 5").fails();
    Sandbox::new().sh("mknod /dev/shm/x c 1 5 || mknod /tmp/x c 1 5 || mknod x b 8 0").fails();
}

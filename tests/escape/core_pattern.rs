//! Root without any capability may write `core_pattern`, and the kernel then runs a program as the host's root.

use crate::support::{Sandbox, need};

const OPEN: &str = "import os; os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); print('open')";

#[test]
fn cannot_be_opened() {
    if need("root") && need("python3") {
        let sandbox = Sandbox::new();
        sandbox.outside(&crate::support::python(OPEN)).ok().prints("open");
        sandbox.run().python(OPEN).fails().prints("");
        sandbox.run().option("--allow-userns").python(OPEN).fails().prints("");
    }
}

#[test]
fn no_file_of_the_kernels_settings_can_be_written() {
    let script = "find /proc/sys /proc/irq /proc/bus /proc/fs /proc/acpi /proc/scsi -type f -perm -u=w 2>/dev/null \
        | while read f; do { : > \"$f\"; } 2>/dev/null && echo \"$f\"; done; true";
    let outcome = Sandbox::new().sh(script).ok();
    // What a user namespace owns concerns that namespace alone.
    let theirs = |line: &&str| !line.starts_with("/proc/sys/net/") && !line.starts_with("/proc/sys/user/");
    let rest: Vec<&str> = outcome.out.lines().filter(theirs).collect();
    assert!(rest.is_empty(), "{rest:?}");
}

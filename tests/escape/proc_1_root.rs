//! `/proc/1/root` and `cwd` are init's view; if that were the host's, everything would be writable there.

use crate::support::{Sandbox, real_home};

#[test]
fn leads_nowhere() {
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("file", "old");
    for pid in ["1", "2", "self", "thread-self"] {
        for link in ["root", "cwd/../../../../../../../../../.."] {
            let attack = format!("echo new > /proc/{pid}/{link}{}", file.display());
            let _ = sandbox.sh(&attack).fails();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "{attack}");
        }
    }
    sandbox.sh("ls /proc/1/root || ls /proc/1/cwd").fails().prints("");
}

#[test]
fn no_process_of_the_host_is_seen() {
    let sandbox = Sandbox::new();
    let own = std::process::id();
    sandbox.outside(&["sh", "-c", &format!("test -e /proc/{own}/root")]).ok();
    sandbox
        .sh("ls /proc | grep -c '^[0-9]*$'; for p in /proc/[0-9]*; do cat $p/cmdline; done | grep -c [e]scape-")
        .shows("0");
}

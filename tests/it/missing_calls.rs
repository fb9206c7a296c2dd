//! Kernels that lack a single call: a run is refused and names the call, or does without it as
//! `docs/kernel-features.md` says. It never runs unprotected, and leaves nothing.

use crate::support::{Answer, Outcome, Sandbox, need};

const FEATURES: &str = include_str!("../../docs/kernel-features.md");

/// Without one of these no run is possible.
const NO_RUN: &[&str] = &[
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "pidfd_open",
    "openat2",
    "statx",
    "close_range",
    "mount_setattr",
    // Older than the table: Linux 3.15 and 3.17.
    "renameat2",
    "seccomp",
];

/// Without one of these a run does the same, but for what is told of it below.
const WORKS: &[&str] = &["pidfd_send_signal", "pidfd_getfd", "faccessat2", "file_setattr"];

const SCRIPT: &str = "echo changed > .mcp.json; mkdir -p new/.claude; echo x > f && mv f new/g && chmod 600 new/g
    ln new/g h && rm h && cat new/g";

fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(".mcp.json", "as it was");
    sandbox
}

fn run(sandbox: &Sandbox, call: &str, options: &[&str], script: &str) -> Outcome {
    let args = [&["run", "--no-config"], options, &["--", "sh", "-c", script]].concat();
    let outcome = sandbox.filtered(Answer::missing(call), &args);
    let protected = std::fs::read_to_string(sandbox.project.join(".mcp.json")).unwrap();
    assert_eq!(protected, "as it was", "{call}\n{}", outcome.describe());
    assert!(sandbox.left_behind().is_empty(), "{call}: {:?}", sandbox.left_behind());
    outcome
}

#[test]
fn a_run_is_refused_and_names_the_call() {
    if !need("python3") {
        return;
    }
    for call in NO_RUN {
        let sandbox = prepared();
        for options in [&[][..], &["--overlay", "$PROJECT"], &["--read", "$PROJECT"]] {
            run(&sandbox, call, options, "touch ran").refused().says(call).says("stockade doctor");
            assert!(!sandbox.project.join("ran").exists(), "{call}");
        }
    }
}

#[test]
fn a_run_does_without() {
    if !need("python3") {
        return;
    }
    for call in WORKS {
        let sandbox = prepared();
        run(&sandbox, call, &[], SCRIPT).ok().prints("x").says("Read-only file system");
        assert_eq!(std::fs::read_to_string(sandbox.project.join("new/g")).unwrap(), "x\n", "{call}");
        run(&sandbox, call, &["--overlay", "$PROJECT"], "touch new/more && ls new").ok().prints("g\nmore");
        assert!(!sandbox.project.join("new/more").exists(), "{call}");
    }
}

/// The broker reads the paths of the callers: without that nothing is granted, and nothing is protected less.
#[test]
fn nothing_is_granted_to_callers_that_cannot_be_read() {
    if need("python3") {
        let sandbox = prepared();
        run(&sandbox, "process_vm_readv", &[], "touch f").fails().says("Read-only file system");
        run(&sandbox, "process_vm_readv", &["--overlay", "$PROJECT"], "touch f && ls").ok().prints("f");
    }
}

#[test]
fn access_is_refused_where_it_cannot_be_answered() {
    if need("python3") {
        let sandbox = prepared();
        run(&sandbox, "faccessat2", &[], "python3 -c 'import os; print(os.access(\".\", os.W_OK))'")
            .ok()
            .prints("False");
    }
}

#[test]
fn a_job_cannot_be_signalled() {
    if need("python3") {
        let sandbox = prepared();
        let id = sandbox.stockade(&["run", "--no-config", "--detach", "--", "sleep", "1000"]).plain().ok().out;
        let kill = ["job", "kill", id.trim()];
        let refused = sandbox.filtered(Answer::missing("pidfd_send_signal"), &kill);
        sandbox.stockade(&kill).plain().ok();
        refused.refused().says("pidfd_send_signal");
    }
}

/// Rows that begin with `` `call(2)` ``.
#[test]
fn every_call_of_the_table_is_tried() {
    let rows = FEATURES.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let calls: Vec<_> = rows.filter_map(|(name, _)| name.strip_suffix("(2)")).collect();
    assert!(calls.len() > 10, "{calls:?}");
    for call in calls {
        assert!(NO_RUN.contains(&call) || WORKS.contains(&call), "{call} is in the table and in no list here");
    }
}

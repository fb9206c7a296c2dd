//! What the policy refuses is told when the command fails: also where the kernel alone refuses, and nothing that would have
//! failed anyway.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::{Outcome, Run, Sandbox, is_root, need, real_home};

/// A sandbox whose neighbours are to be seen inside: `/var/tmp` is private.
fn sandbox() -> Sandbox {
    Sandbox::below(real_home())
}

/// The lines of a report.
fn report(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a script is denied, as `verb name`, with the names below the sandbox's directory.
fn denied(sandbox: &Sandbox, run: Run<'_>, script: &str) -> Vec<String> {
    let path = sandbox.beside("report");
    let _ = run.option("--report").option(&path).sh(script);
    let base = sandbox.beside("");
    let name = |line: &Value| line["path"].as_str().unwrap().replace(base.to_str().unwrap(), "");
    report(&path).iter().map(|line| format!("{} {}", line["verb"].as_str().unwrap(), name(line))).collect()
}

#[test]
fn writes_outside_of_every_writable_place_are_told() {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    let script = "echo > ../q/new; echo > ../q/f; mkdir ../q/d; rm -f ../q/f; mv ../q/f ../q/g; chmod 600 ../q/f\n\
        ln ../q/f ../q/l; ln -s x ../q/s; echo > ../q/new";
    let expected =
        ["create q/new", "write q/f", "create q/d", "remove q/f", "rename q/f", "change q/f", "link q/f", "create q/s"];
    assert_eq!(denied(&sandbox, sandbox.run(), script), expected);
    // Static programs are asked about more often.
    assert_eq!(denied(&sandbox, sandbox.run().options(["--fast-path", "off"]), script), expected);
    assert_eq!(report(&sandbox.beside("report"))[0]["count"], 2);
    sandbox.sh("echo > ../q/new").fails().says("denied by policy: create ").says("/q/new (read-only, built-in)");
}

#[test]
fn what_would_have_failed_anyway_is_not_told() {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    let closed = sandbox.file_beside("closed/f", "");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&closed, 0o444);
    mode(closed.parent().unwrap(), 0o555);
    let script = "mkdir -p ../q; set -C; echo > ../q/f; echo > ../q/none/f; rm -f ../q/none; mv ../q/none ../q/other\n\
        [ -w ../q ]; [ -w ../q/f ]; echo > ../closed/f; echo > ../closed/new; rm -f ../closed/f; mv ../closed/f ../closed/g\n\
        : < ../q/f; : > /dev/null; : > /dev/full; echo > /proc/self/comm";
    assert_eq!(denied(&sandbox, sandbox.run(), script), [""; 0]);
    mode(closed.parent().unwrap(), 0o755);
    if !is_root() {
        let script = "echo >> /etc/passwd; touch /usr/x /etc/x; rm -f /etc/passwd; chmod 777 /usr; mkdir /usr/lib";
        assert_eq!(denied(&sandbox, sandbox.run(), script), [""; 0]);
    }
}

#[test]
fn a_run_that_succeeds_says_nothing() {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    let outcome = sandbox.sh("echo 2>/dev/null > ../q/f; echo > .mcp.json; exit 0").ok();
    assert!(!outcome.err.contains("stockade:"), "{}", outcome.describe());
}

/// A second file system beside the project; `options` are the mount's.
fn beside_a_mount(sandbox: &Sandbox, options: &str, script: &str) -> Outcome {
    fs::create_dir_all(sandbox.beside("m")).unwrap();
    let namespace = if is_root() { "-m" } else { "-Urm" };
    let mount = format!("mount -t tmpfs {options} none ../m");
    sandbox.script(&format!("unshare {namespace} sh -c '{mount}; exec $SK run --no-config -- sh -c \"{script}\"'"))
}

#[test]
fn other_file_systems_are_told_of_unless_the_host_has_them_read_only() {
    if !need("userns") {
        return;
    }
    let sandbox = sandbox();
    let script = "mkdir ../m/d; echo > ../m/f";
    beside_a_mount(&sandbox, "-o rw", script)
        .fails()
        .says("denied by policy: create")
        .says("/m/d (read-only, built-in");
    let outcome = beside_a_mount(&sandbox, "-o ro", script).fails().says("Read-only file system");
    assert!(!outcome.err.contains("stockade:"), "{}", outcome.describe());
}

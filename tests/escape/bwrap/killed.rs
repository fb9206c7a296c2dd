//! One of the processes that hold the sandbox together is killed.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::{innocent, project, sandboxed};
use crate::support::{eventually, need};

const WRITER: &str = "exec >/dev/null 2>&1; touch src/ready; while ! test -e go; do sleep 0.05; done; echo evil > .vscode; echo evil > .git/hooks/evil
    mkdir later && echo fine > later/x; echo fine > src/later";

/// The processes that a process has started and that are in its own pid namespace, in the order of their start.
fn beside_the_sandbox(monitor: u32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{monitor}/task/{monitor}/children")).unwrap();
    let ours = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("NSpid:").is_some_and(|pids| pids.split_whitespace().count() == 1))
    };
    children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(ours).collect()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Nobody would look after the mounts any more.
#[test]
fn without_the_watcher_the_sandbox_ends() {
    if !need("userns") {
        return;
    }
    let sandbox = project();
    let mut running = sandboxed(&sandbox).spawn(["sh", "-c", WRITER]);
    eventually("it works", || sandbox.project.join("src/ready").exists().then_some(()));
    let found = eventually("both are there", || {
        let found = beside_the_sandbox(running.pid());
        (found.len() == 2).then_some(found)
    });
    kill(found[0]);
    let done = running.wait();
    assert_eq!(done.code, 137, "{}", done.describe());
    innocent(&sandbox);
}

#[test]
fn without_the_broker_nothing_is_granted() {
    if !need("userns") {
        return;
    }
    let sandbox = project();
    let mut running = sandboxed(&sandbox).spawn(["sh", "-c", WRITER]);
    eventually("it works", || sandbox.project.join("src/ready").exists().then_some(()));
    let found = eventually("both are there", || {
        let found = beside_the_sandbox(running.pid());
        (found.len() == 2).then_some(found)
    });
    kill(found[1]);
    sandbox.file("go", "");
    running.wait().fails();
    assert!(!sandbox.project.join("later").exists());
    innocent(&sandbox);
}

#[test]
fn without_the_monitor_everything_holds() {
    if !need("userns") {
        return;
    }
    let sandbox = project();
    let mut running = sandboxed(&sandbox).spawn(["sh", "-c", WRITER]);
    eventually("it works", || sandbox.project.join("src/ready").exists().then_some(()));
    running.signal(Signal::KILL);
    running.wait();
    sandbox.file("go", "");
    eventually("it goes on", || sandbox.project.join("src/later").exists().then_some(()));
    assert!(sandbox.project.join("later/x").exists());
    innocent(&sandbox);
}

//! What a run may use.

use std::time::{Duration, Instant};

use crate::support::{Run, Sandbox, alive, eventually, is_root, need, python};

fn limited<'a>(sandbox: &'a Sandbox, limit: &str) -> Run<'a> {
    sandbox.run().options(["--limit", limit])
}

#[test]
fn wall_time() {
    let sandbox = Sandbox::new();
    let begin = Instant::now();
    limited(&sandbox, "wall-time=300ms").argv(["sleep", "1000"]).status(143).says("wall-time of 300ms is reached");
    assert!(begin.elapsed() < Duration::from_secs(60));
    limited(&sandbox, "wall-time=1h").argv(["true"]).ok();
}

#[test]
fn cpu_time_of_all_processes_together() {
    let sandbox = Sandbox::new();
    // Each process alone stays far below.
    let script = "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";
    limited(&sandbox, "cpu-time=1s").sh(script).status(143).says("cpu-time of 1s");
    let alone = limited(&sandbox, "cpu-time=1s").sh("while :; do :; done");
    assert!([143, 137, 152].contains(&alone.code), "{}", alone.describe());
}

#[test]
fn open_files_and_file_size() {
    let sandbox = Sandbox::new();
    let open =
        "import os\nn = 0\ntry:\n    while True: os.open('/', os.O_RDONLY); n += 1\nexcept OSError: print(n < 60)";
    limited(&sandbox, "open-files=60").argv(python(open)).ok().prints("True");
    let script = "head -c 3000000 /dev/zero > /tmp/f; head -c 3000000 /dev/zero > f; wc -c < /tmp/f; wc -c < f";
    limited(&sandbox, "file-size=1M").sh(script).ok().prints("1048576\n1048576");
}

#[test]
fn pids() {
    let sandbox = Sandbox::new();
    let bomb = "import os, time\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0: time.sleep(30)\n        n += 1\nexcept OSError: pass\nprint(n)";
    if is_root() {
        limited(&sandbox, "pids=30").argv(python(bomb)).refused().says("--limit pids=30");
        return;
    }
    limited(&sandbox, "pids=30").argv(python(bomb)).ok().prints("29");
    // Two runs have their own each, whatever the user runs besides.
    limited(&sandbox, "pids=5").session("s1").sh("sleep 0 & sleep 0 & wait").ok();
}

#[test]
fn tmp_bytes() {
    let sandbox = Sandbox::new();
    let script = "head -c 30000000 /dev/zero > /tmp/big; exec sleep 1000";
    limited(&sandbox, "tmp-bytes=10M").sh(script).status(143).says("tmp-bytes of 10485760 bytes");
    limited(&sandbox, "tmp-bytes=100M").sh("head -c 3000000 /dev/zero > /tmp/big; sleep 0.3").ok();
}

#[test]
fn a_command_that_ignores_the_end_is_killed() {
    let sandbox = Sandbox::new();
    limited(&sandbox, "wall-time=1s").sh("trap '' TERM; while :; do sleep 0.1; done").status(137).says("wall-time");
}

#[test]
fn in_a_policy_file_and_in_explain() {
    let sandbox = Sandbox::new();
    let policy = "[limits]\nopen-files = 100\nwall-time = \"10m\"\n";
    sandbox.run().policy(policy).sh("ulimit -n").ok().prints("100");
    sandbox.run().policy(policy).options(["--limit", "open-files=50"]).sh("ulimit -n").ok().prints("50");
    let path = sandbox.file_beside("limits.toml", policy);
    let explain = sandbox.stockade(&["explain", "--no-config", "--policy", path.to_str().unwrap()]);
    explain.argv(["true"]).ok().shows("limit:    wall-time 10m").shows("limits.toml:3");
}

#[test]
fn mistakes_are_named() {
    let sandbox = Sandbox::new();
    limited(&sandbox, "pid=1").argv(["true"]).refused().says("`pid` is no limit").says("pids, memory");
    limited(&sandbox, "wall-time=soon").argv(["true"]).refused().says("expected a time");
    sandbox
        .run()
        .policy("[limits]\nfile-size = \"much\"\n")
        .argv(["true"])
        .refused()
        .says(":2:1")
        .says("expected a size");
}

#[test]
fn a_job_tells_which_limit_ended_it() {
    let sandbox = Sandbox::new();
    let id = limited(&sandbox, "wall-time=200ms").option("--detach").session("s1").argv(["sleep", "1000"]).ok().out;
    sandbox.stockade(&["job", "wait", id.trim()]).plain().status(143);
    sandbox.stockade(&["job", "show", id.trim()]).plain().ok().shows("wall-time of 200ms is reached");
}

#[test]
fn ps_shows_what_is_used() {
    let sandbox = Sandbox::new();
    let script = "head -c 5000000 /dev/zero > /tmp/x; echo ready; exec sleep 1000";
    let id = sandbox.run().option("--detach").session("s1").sh(script).ok().out.trim().to_owned();
    sandbox.stockade(&["ps"]).plain().ok().shows("s1").shows(&id).shows("sleep 1000");
    crate::support::eventually("the bytes", || {
        let ps = sandbox.stockade(&["ps", "--json"]).plain().ok().out;
        let ps: serde_json::Value = serde_json::from_str(&ps).unwrap();
        let run = &ps[0]["runs"][0];
        assert!(run["memory_bytes"].as_u64().unwrap() > 100_000, "{ps}");
        assert!(run["processes"].as_u64().unwrap() >= 3, "{ps}");
        (ps[0]["private_bytes"].as_u64().unwrap() >= 5_000_000).then_some(())
    });
    sandbox.stockade(&["session", "end", "--kill", "s1"]).plain().ok();
    sandbox.stockade(&["ps"]).plain().ok().lacks("s1");
}

/// In a control group of its own, which goes with the run; where nobody has delegated one, the limit is refused.
#[test]
fn memory() {
    let sandbox = Sandbox::new();
    if !need("delegated-memory") {
        limited(&sandbox, "memory=100M").argv(["true"]).refused().says("--limit memory=100M").says("control group");
        return;
    }
    let hog = "b = bytearray(400 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('had it')";
    limited(&sandbox, "memory=100M").argv(python(hog)).status(137).says("memory of 104857600 bytes is reached");
    limited(&sandbox, "memory=2G").argv(python(hog)).ok().prints("had it");
    // Two runs have their own each, and one that swallows a child's death has succeeded.
    let both = format!("{} -c '{hog}' && exit 1; echo went on", crate::support::PYTHON);
    limited(&sandbox, "memory=100M").sh(&both).ok().prints("went on");
    // What a killed run left is removed by the next.
    let groups = || crate::support::delegated_groups().len();
    let mut killed = limited(&sandbox, "memory=100M").spawn(["sleep", "1000"]);
    eventually("it has a group", || (groups() > 0).then_some(()));
    killed.signal(rustix::process::Signal::KILL);
    killed.wait();
    eventually("its processes are gone", || alive(&sandbox.marker).is_empty().then_some(()));
    limited(&sandbox, "memory=100M").argv(["true"]).ok();
    assert_eq!(groups(), 0);
}

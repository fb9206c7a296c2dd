//! `run --events FD`: what becomes of a run, as it happens, for the program that started it.

use std::fs;

use serde_json::Value;

use crate::support::{Outcome, PYTHON, Sandbox, need, real_home};

/// The lines that were written to a file.
fn lines(sandbox: &Sandbox) -> Vec<Value> {
    let text = fs::read_to_string(sandbox.beside("events")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

/// A run with events to a file; `$SK`'s other options, and a script without single quotes.
fn run(sandbox: &Sandbox, options: &str, script: &str) -> Outcome {
    sandbox.script(&format!("exec $SK run --no-config --events 3 {options} -- sh -c '{script}' 3>../events"))
}

#[test]
fn a_run_is_told_from_its_start_to_its_end() {
    let sandbox = Sandbox::new();
    run(&sandbox, "--session s1", "ls /proc/self/fd; echo > .mcp.json; exit 7").status(7).prints("0\n1\n2\n3");
    let lines = lines(&sandbox);
    assert_eq!(names(&lines), ["started", "pid", "denied", "exited", "reaped"]);
    assert_eq!(lines[0]["session"], "s1");
    assert!(lines[0]["run"].is_string() && lines[0]["supervisor"].is_u64() && lines[1]["pid"].is_u64());
    assert_eq!((lines[2]["verb"].as_str(), lines[2]["rule"].as_str()), (Some("create"), Some("built-in")));
    assert_eq!((&lines[3]["status"], &lines[3]["signal"], &lines[3]["dropped"]), (&7.into(), &Value::Null, &0.into()));
    assert!(lines.iter().all(|line| line["time"].is_f64()));
}

#[test]
fn signals_and_limits_are_told_apart() {
    let sandbox = Sandbox::new();
    run(&sandbox, "", "kill -KILL $$").status(137);
    assert_eq!(lines(&sandbox)[2]["signal"], 9);
    run(&sandbox, "--limit wall-time=200ms", "exec sleep 20").status(143);
    let told = lines(&sandbox);
    assert_eq!((told[2]["event"].as_str(), told[2]["limit"].as_str()), (Some("exited"), Some("wall-time")));
}

#[test]
fn what_keeps_a_run_from_starting_is_told() {
    let sandbox = Sandbox::new();
    let failing = |words: &str| sandbox.script(&format!("exec $SK run --no-config --events 3 {words} 3>../events"));
    failing("-- no-such-command").status(127);
    let told = lines(&sandbox);
    assert_eq!((names(&told), &told[1]["status"]), (vec!["started", "failed"], &127.into()));
    failing("--policy none.toml -- true").status(125);
    let told = lines(&sandbox);
    assert_eq!((names(&told), &told[0]["status"]), (vec!["failed"], &125.into()));
    assert!(told[0]["text"].as_str().unwrap().contains("none.toml"));
}

#[test]
fn a_denial_is_told_before_the_command_goes_on() {
    let sandbox = Sandbox::below(real_home());
    let look = "cat ../events | grep -c denied";
    run(&sandbox, "", &format!("echo > ../new; {look}; echo > ../new; {look}")).ok().prints("1\n1");
}

/// Runs with events to a pipe that is full, or that nobody reads, and exits as stockade does.
const DEAF: &str = "import os, subprocess, sys\n\
r, w = os.pipe()\n\
if sys.argv[2] == 'closed': os.close(r)\n\
else:\n os.set_blocking(w, False)\n try:\n  while True: os.write(w, b'x' * 4096)\n except BlockingIOError: os.set_blocking(w, True)\n\
argv = [sys.argv[1], 'run', '--no-config', '--events', str(w), '--', 'sh', '-c', 'echo > .mcp.json; exit 5']\n\
status = subprocess.run(argv, pass_fds=[w], timeout=30).returncode\n\
sys.exit(status if os.get_blocking(w) else 'the flags of the pipe were changed')";

#[test]
fn nobody_is_waited_for() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    for deaf in ["full", "closed"] {
        sandbox.outside(&[PYTHON, "-c", DEAF, &sandbox.binary(), deaf]).status(5);
    }
}

#[test]
fn a_descriptor_that_cannot_be_used_is_refused() {
    let sandbox = Sandbox::new();
    let refused = |words: &str| sandbox.script(&format!("exec $SK run --no-config {words}")).status(125);
    let _ = refused("--events 9 -- true").says("descriptor 9 takes no events (--events)").says("hint: ");
    let _ = refused("--events 3 -- true 3</dev/null").says("Bad file descriptor");
    let _ = refused("--events 3 --report-fd 3 -- true 3>/dev/null").says("both for --events and for --report-fd");
    let _ = refused("--events 3 --preserve-fds 1 -- true 3>/dev/null").says("both for --events and for --preserve-fds");
    let _ = refused("--events 3 --detach -- true 3>/dev/null").says("cannot be used with '--detach'");
}

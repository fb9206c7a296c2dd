//! Background jobs outlive their caller, and what is known of them outlives them.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Outcome, Run, Sandbox, alive, eventually, unique};

fn job<'a>(sandbox: &'a Sandbox, session: &str) -> Run<'a> {
    sandbox.run().option("--detach").session(session)
}

/// Starts a job and gives its id.
fn start(sandbox: &Sandbox, session: &str, script: &str) -> String {
    job(sandbox, session).sh(script).ok().out.trim().to_owned()
}

fn ask(sandbox: &Sandbox, args: &[&str]) -> Outcome {
    let words: Vec<&str> = ["job"].iter().chain(args).copied().collect();
    sandbox.stockade(&words).plain()
}

fn show(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    serde_json::from_str(&ask(sandbox, &["show", id, "--json"]).ok().out).unwrap()
}

fn supervisor(sandbox: &Sandbox, id: &str) -> i32 {
    show(sandbox, id)["supervisor"].as_i64().unwrap().try_into().unwrap()
}

fn kill(pid: i32) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn status_output_and_denials_are_kept() {
    let sandbox = Sandbox::new();
    let id = start(&sandbox, "s1", "echo out; echo err >&2; echo x > .mcp.json; exit 7");
    ask(&sandbox, &["wait", &id]).status(7);
    ask(&sandbox, &["logs", &id]).ok().shows("out\nerr\n");
    ask(&sandbox, &["show", &id]).ok().shows("exited 7").shows("denied: create ");
    ask(&sandbox, &["list"]).ok().shows(&id);
    ask(&sandbox, &["rm", &id]).ok();
    ask(&sandbox, &["list"]).ok().prints("");
}

#[test]
fn it_has_no_terminal_and_nothing_of_its_caller() {
    let sandbox = Sandbox::new();
    let call =
        "exec 8>/dev/null; $SK run --no-config --session s1 --detach -- sh -c 'cat; ls /proc/self/fd | wc -w; tty'";
    let id = sandbox.script(call).ok().out.trim().to_owned();
    ask(&sandbox, &["wait", &id]).fails();
    // 0, 1, 2, and that of ls itself.
    ask(&sandbox, &["logs", &id]).ok().prints("4\nnot a tty");
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_job() {
    let sandbox = Sandbox::new();
    job(&sandbox, "s1").argv(["no-such-command"]).status(127).says("no-such-command");
    sandbox.run().option("--detach").argv(["no-such-command"]).status(127);
    ask(&sandbox, &["list"]).ok().prints("");
    let sessions = sandbox.stockade(&["session", "list"]).plain().ok();
    assert_eq!(sessions.out.lines().count(), 1, "{}", sessions.out);
}

/// The harness that started it is killed, with its whole process group.
#[test]
fn it_survives_its_caller_and_shares_tmp_with_foreground_runs() {
    let sandbox = Sandbox::new();
    let script = "for i in $(seq 60); do echo $i >> /tmp/p; sleep 0.02; done";
    let call = format!("$SK run --no-config --session s1 --detach -- sh -c '{script}'; sleep 1000");
    let mut harness = std::process::Command::new("setsid")
        .args(["sh", "-c", &format!("{call} & echo $! > pid; wait")])
        .current_dir(&sandbox.project)
        .env("SK", sandbox.binary())
        .env("HOME", &sandbox.home)
        .env("STOCKADE_STATE", &sandbox.state)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let list = || ask(&sandbox, &["list", "--json"]).ok().out;
    let jobs = eventually("the job", || {
        let jobs: serde_json::Value = serde_json::from_str(&list()).unwrap();
        (jobs[0]["pid"].is_number()).then_some(jobs)
    });
    let id = jobs[0]["id"].as_str().unwrap();
    let group = rustix::process::Pid::from_raw(harness.id().cast_signed()).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    harness.wait().unwrap();
    for _ in 0..10 {
        sandbox.run().session("s1").argv(["true"]).ok();
    }
    ask(&sandbox, &["wait", id]).ok();
    let expected: Vec<String> = (1..=60).map(|n| n.to_string()).collect();
    sandbox.run().session("s1").argv(["cat", "/tmp/p"]).ok().prints(&expected.join("\n"));
}

#[test]
fn a_job_whose_supervisor_dies_is_lost_and_nothing_of_it_lives() {
    let sandbox = Sandbox::new();
    let seconds = format!("6{}", unique());
    let id = start(&sandbox, "s1", &format!("echo begun; exec sleep {seconds}"));
    kill(supervisor(&sandbox, &id));
    ask(&sandbox, &["wait", &id]).refused().says("lost");
    eventually("no process", || alive(&format!("sleep {seconds}")).is_empty().then_some(()));
    ask(&sandbox, &["list"]).ok().shows("lost");
    sandbox.stockade(&["session", "end", "s1"]).plain().ok();
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn kill_and_signal_reach_the_command() {
    let sandbox = Sandbox::new();
    let id = start(&sandbox, "s1", "trap 'echo usr1; exit 3' USR1; echo ready; while :; do sleep 0.01; done");
    eventually("ready", || ask(&sandbox, &["logs", &id]).ok().out.contains("ready").then_some(()));
    ask(&sandbox, &["signal", &id, "USR1"]).ok();
    ask(&sandbox, &["wait", &id]).status(3);
    let id = start(&sandbox, "s1", "exec sleep 1000");
    ask(&sandbox, &["wait", "--timeout", "50ms", &id]).status(124);
    ask(&sandbox, &["rm", &id]).refused();
    ask(&sandbox, &["kill", &id]).ok();
    ask(&sandbox, &["wait", &id]).status(143);
    let id = start(&sandbox, "s1", "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    eventually("ready", || ask(&sandbox, &["logs", &id]).ok().out.contains("ready").then_some(()));
    ask(&sandbox, &["kill", "--grace", "100ms", &id]).ok();
    ask(&sandbox, &["wait", &id]).status(137);
    ask(&sandbox, &["signal", &id, "TERM"]).status(1);
}

/// A stopped job must not stop its supervisor.
#[test]
fn stopping_and_continuing() {
    let sandbox = Sandbox::new();
    let id = start(&sandbox, "s1", "exec sleep 1000");
    ask(&sandbox, &["signal", &id, "STOP"]).ok();
    std::thread::sleep(Duration::from_millis(100));
    ask(&sandbox, &["signal", &id, "CONT"]).ok();
    ask(&sandbox, &["kill", &id]).ok();
    ask(&sandbox, &["wait", &id]).status(143);
}

#[test]
fn names_are_unique_among_the_living() {
    let sandbox = Sandbox::new();
    let named = || job(&sandbox, "s1").options(["--name", "dev"]);
    let first = named().sh("exec sleep 1000").ok().out;
    named().argv(["true"]).refused().says(first.trim());
    job(&sandbox, "s2").options(["--name", "dev"]).argv(["true"]).ok();
    ask(&sandbox, &["kill", "dev"]).refused().says("s1, s2");
    ask(&sandbox, &["kill", "dev", "--session", "s1"]).ok();
    let second = named().argv(["true"]).ok().out;
    ask(&sandbox, &["wait", "dev", "--session", "s1"]).ok();
    ask(&sandbox, &["show", "dev", "--session", "s1"]).ok().shows(second.trim());
}

#[test]
fn a_log_keeps_both_ends_within_its_limit() {
    let sandbox = Sandbox::new();
    let script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last";
    let id = job(&sandbox, "s1").options(["--log-limit", "1M"]).sh(script).ok().out.trim().to_owned();
    ask(&sandbox, &["wait", &id]).ok();
    let log = ask(&sandbox, &["logs", &id]).ok().shows("first\nxxx").shows("xxx\nlast\n").shows(" bytes cut here]");
    assert!(log.out.len() <= 1 << 20, "{}", log.out.len());
    let log = fs::read_dir(format!("{}/log", show(&sandbox, &id)["path"].as_str().unwrap())).unwrap();
    let bytes: u64 = log.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 1 << 20, "{bytes}");
}

#[test]
fn logs_follow_to_the_end() {
    let sandbox = Sandbox::new();
    let id = start(&sandbox, "s1", "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done");
    ask(&sandbox, &["logs", "--follow", &id]).ok().prints("1\n2\n3\n4\n5");
}

#[test]
fn a_job_without_a_session_has_its_own_which_goes_with_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.run().option("--detach").sh("echo $STOCKADE_SESSION").ok().out.trim().to_owned();
    ask(&sandbox, &["wait", &id]).ok();
    ask(&sandbox, &["logs", &id]).ok().prints(&format!("job-{id}"));
    ask(&sandbox, &["rm", &id]).ok();
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
}

/// Each job is running, ended with a status, or lost, and the end of a session ends what runs in it.
#[test]
fn many_jobs_killed_supervisors_ended_sessions() {
    let sandbox = Sandbox::new();
    let seconds = format!("7{}", unique());
    let mut ids = Vec::new();
    for session in ["m0", "m1", "m2", "m3"] {
        for n in 0..5 {
            let script = if n == 0 { "exit 5".to_owned() } else { format!("exec sleep {seconds}") };
            ids.push((session, n, start(&sandbox, session, &script)));
        }
    }
    for (_, _, id) in ids.iter().filter(|(_, n, _)| *n == 1) {
        kill(supervisor(&sandbox, id));
    }
    for (session, n, id) in &ids {
        match n {
            0 => drop(ask(&sandbox, &["wait", id, "--session", session]).status(5)),
            1 => drop(ask(&sandbox, &["wait", id]).refused().says("lost")),
            _ => assert_eq!(show(&sandbox, id)["state"], "running"),
        }
    }
    // The supervisors' command lines name the script too.
    let sleepers = || alive(&format!("sleep {seconds}")).iter().filter(|line| line.contains(": sleep")).count();
    for session in ["m0", "m1"] {
        sandbox.stockade(&["session", "end", "--kill", session]).plain().ok();
    }
    eventually("the other sessions' jobs only", || (sleepers() == 6).then_some(()));
    for session in ["m2", "m3"] {
        sandbox.stockade(&["session", "end", "--kill", session]).plain().ok();
    }
    eventually("no process", || alive(&format!("sleep {seconds}")).is_empty().then_some(()));
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
}

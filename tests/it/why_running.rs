//! `why --running` answers for runs that go on, by what they were started with; never by a guess.

use std::fs;

use crate::support::{Outcome, Run, Running, Sandbox, eventually};

/// A run of session `s` that stays.
fn start(sandbox: &Sandbox, run: Run<'_>) -> Running {
    let running = run.session("s").spawn(["sh", "-c", "touch started; exec sleep 1000"]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    fs::remove_file(sandbox.project.join("started")).unwrap();
    running
}

fn why(sandbox: &Sandbox, args: &[&str]) -> Outcome {
    sandbox.stockade(&["why", "--session", "s"]).options(args).plain()
}

#[test]
fn tells_the_rules_of_the_run_not_of_a_new_one() {
    let sandbox = Sandbox::new();
    sandbox.file("data/x", "");
    let _run = start(&sandbox, sandbox.run().read("$HELD").env("HELD", "data"));
    why(&sandbox, &["data/x", "--write"]).ok();
    let told = why(&sandbox, &["--running", "data/x", "--write"]).status(1);
    told.shows("process ").shows("sleep 1000").shows("--read $HELD").shows("leave out --read");
    why(&sandbox, &["--running", "src", "--create"]).ok();
    let told = why(&sandbox, &["--running", "--json", "data/x"]).ok();
    let value: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(value[0]["answer"]["may"]["write"], false);
}

#[test]
fn paths_begin_where_the_question_is_asked() {
    let sandbox = Sandbox::new();
    sandbox.file("sub/data/x", "");
    let _run = start(&sandbox, sandbox.run().options(["--chdir", "."]).read("./sub/data"));
    let asked = sandbox.stockade(&["why", "--session", "s", "--running", "data/x", "--write"]);
    asked.cwd(sandbox.project.join("sub")).plain().status(1).shows("--read ./sub/data");
}

#[test]
fn a_job_is_a_run() {
    let sandbox = Sandbox::new();
    sandbox.file("data/x", "");
    let job = sandbox.run().session("s").option("--detach").read("data").argv(["sleep", "1000"]).ok().out;
    why(&sandbox, &["--running", "data/x", "--write"]).status(1).shows("--read data");
    sandbox.stockade(&["job", "kill", job.trim()]).plain().ok();
}

#[test]
fn one_no_among_many_runs_is_a_no() {
    let sandbox = Sandbox::new();
    let _one = start(&sandbox, sandbox.run());
    why(&sandbox, &["--running", "data", "--create"]).ok();
    let _other = start(&sandbox, sandbox.run().read("data"));
    why(&sandbox, &["--running", "data", "--create"]).status(1).shows("yes: ").shows("no: ");
}

#[test]
fn what_has_changed_since_is_not_told() {
    let sandbox = Sandbox::new();
    let policy = sandbox.file_beside("own.toml", "[files]\nread = [\"$PROJECT/data\"]\n");
    let run = || sandbox.stockade(&["run"]).option("--policy").option(&policy);
    let first = start(&sandbox, run());
    why(&sandbox, &["--running", "data", "--create"]).status(1).shows("own.toml:2");
    fs::write(&policy, "[files]\nread = [\"$PROJECT/date\"]\n").unwrap();
    why(&sandbox, &["--running", "data", "--create"]).refused().says("has changed").says("hint: ");
    drop(first);
    let _second = start(&sandbox, run());
    why(&sandbox, &["--running", "data", "--create"]).ok();
    // A configuration that was not there.
    let _ = sandbox.stockade(&["init"]).plain().ok();
    why(&sandbox, &["--running", "data", "--create"]).refused().says("has changed");
    fs::remove_file(sandbox.home.join(".config/stockade/config.toml")).unwrap();
    why(&sandbox, &["--running", "data", "--create"]).ok();
    fs::remove_file(&policy).unwrap();
    why(&sandbox, &["--running", "data", "--create"]).refused().says("own.toml");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let sandbox = Sandbox::new();
    why(&sandbox, &["--running", "x"]).refused();
    let mut run = start(&sandbox, sandbox.run());
    why(&sandbox, &["--running", "--write=x", "x"]).refused().says("rules already");
    why(&sandbox, &["--running", "--git", "open", "x"]).refused();
    sandbox.stockade(&["why", "--running", "x"]).plain().refused().says("--session");
    let _ = sandbox.stockade(&["session", "end", "--kill", "s"]).plain().ok();
    let _ = run.wait();
    why(&sandbox, &["--running", "x"]).refused();
}

//! A session outlives single commands and ends when it is told to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{Sandbox, alive, eventually, unique};

fn path_of(sandbox: &Sandbox, args: &[&str]) -> PathBuf {
    let words: Vec<&str> = ["session", "path"].iter().chain(args).copied().collect();
    PathBuf::from(sandbox.stockade(&words).plain().ok().out.trim_end())
}

#[test]
fn keeps_its_files_and_hides_them_from_others() {
    let sandbox = Sandbox::new();
    sandbox.run().session("s1").sh("echo v > /tmp/x; echo w > /var/tmp/x").ok();
    sandbox.run().session("s1").sh("cat /tmp/x /var/tmp/x").ok().prints("v\nw");
    sandbox.run().session("s2").sh("ls -A /tmp /var/tmp | grep -x x").status(1);
}

#[test]
fn path_leads_to_a_directory_that_others_cannot_enter() {
    let sandbox = Sandbox::new();
    sandbox.run().session("s1").sh("echo v > /tmp/x").ok();
    let host = path_of(&sandbox, &["s1", "/tmp/x"]);
    assert_eq!(fs::read_to_string(&host).unwrap(), "v\n");
    let closed = |dir: &Path| fs::metadata(dir).unwrap().permissions().mode() & 0o777 == 0o700;
    let ours = host.ancestors().filter(|dir| dir.starts_with(&sandbox.state));
    assert!(ours.filter(|dir| dir.is_dir()).any(closed), "no closed directory above {}", host.display());
    assert!(closed(&sandbox.state));
    assert!(path_of(&sandbox, &["s1"]).starts_with(&sandbox.state));
}

#[test]
fn end_removes_everything() {
    let sandbox = Sandbox::new();
    sandbox.run().session("s1").sh("mkdir -p /tmp/d/e; touch /tmp/d/e/f; chmod 0 /tmp/d/e /tmp/d").ok();
    let host = path_of(&sandbox, &["s1", "/tmp"]);
    sandbox.stockade(&["session", "end", "s1"]).plain().ok();
    assert!(!host.exists());
    assert_eq!(sandbox.left_behind(), Vec::<PathBuf>::new());
    sandbox.run().session("s1").argv(["ls", "-A", "/tmp"]).ok().prints("");
}

#[test]
fn end_never_follows_a_link() {
    let sandbox = Sandbox::new();
    let outside = sandbox.file_beside("kept/file", "kept");
    let script = format!("ln -s {} /tmp/link; ln -s / /tmp/root", outside.parent().unwrap().display());
    sandbox.run().session("s1").sh(&script).ok();
    sandbox.stockade(&["session", "end", "s1"]).plain().ok();
    assert_eq!(fs::read_to_string(outside).unwrap(), "kept");
}

#[test]
fn end_refuses_while_a_command_runs_and_kill_ends_it() {
    let sandbox = Sandbox::new();
    let seconds = format!("5{}", unique());
    let script = format!("touch started; exec sleep {seconds}");
    let mut run = sandbox.run().session("s1").spawn(["sh", "-c", &script]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    sandbox.stockade(&["session", "end", "s1"]).plain().refused();
    assert!(!run.ended());
    sandbox.stockade(&["session", "end", "--kill", "s1"]).plain().ok();
    run.wait().fails();
    eventually("no process of the run", || alive(&format!("sleep {seconds}")).is_empty().then_some(()));
    assert_eq!(sandbox.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn list_names_the_sessions() {
    let sandbox = Sandbox::new();
    for id in ["one", "two"] {
        sandbox.run().session(id).argv(["true"]).ok();
    }
    sandbox.stockade(&["session", "list"]).plain().ok().shows("one").shows("two");
}

#[test]
fn the_command_learns_its_session() {
    let sandbox = Sandbox::new();
    sandbox.run().session("s1").sh("echo $STOCKADE_SESSION").ok().prints("s1");
    // A run of its own has no name that another command could use.
    sandbox.sh("echo ${STOCKADE_SESSION-unset}").ok().prints("unset");
}

#[test]
fn the_id_comes_from_the_environment() {
    let sandbox = Sandbox::new();
    let show = "echo $STOCKADE_SESSION";
    sandbox.run().env("STOCKADE_SESSION", "e1").sh(show).ok().prints("e1");
    sandbox.run().env("STOCKADE_SESSION", "e1").session("f1").sh(show).ok().prints("f1");
    let policy = "[session]\nid-from = [\"MISSING\", \"EMPTY\", \"AGENT_ID\"]\n";
    let run = sandbox.run().policy(policy).env("EMPTY", "").env("AGENT_ID", "a1");
    run.sh(show).ok().prints("a1");
}

#[test]
fn ids_are_short_and_plain() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(129);
    for id in ["", ".", "..", ".hidden", "a/b", "a b", "a\nb", "ä", "a\u{1b}[31m", "*", &long] {
        sandbox.run().session(id).sh("touch ran").refused();
    }
    assert!(!sandbox.project.join("ran").exists());
    for id in ["A-z_0.9", "-x", &"x".repeat(128)] {
        sandbox.run().option(format!("--session={id}")).argv(["true"]).ok();
    }
}

#[test]
fn an_unknown_session_is_an_error_that_names_it() {
    let sandbox = Sandbox::new();
    for args in [["session", "path", "nobody"], ["session", "end", "nobody"]] {
        sandbox.stockade(&args).plain().refused().says("nobody");
    }
}

#[test]
fn a_run_of_its_own_ends_with_its_command() {
    let sandbox = Sandbox::new();
    for script in ["touch /tmp/x", "mkdir /tmp/d; chmod 0 /tmp/d; exit 3", "kill -9 $$"] {
        let _ = sandbox.sh(script);
        assert_eq!(sandbox.left_behind(), Vec::<PathBuf>::new(), "after {script}");
    }
}

//! `$CLAUDE_JOB_DIR/tmp` is private and writable wherever the variable points to, and the host's directory stays as it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::support::{Outcome, Run, Sandbox, eventually, is_root, real_home};

const PROBE: &str = "touch \"$CLAUDE_JOB_DIR/tmp/probe.sh\" && ls \"$CLAUDE_JOB_DIR/tmp\" && ls \"$CLAUDE_JOB_DIR\"";

fn job_run<'a>(sandbox: &'a Sandbox, dir: &Path) -> Run<'a> {
    sandbox.run().env("CLAUDE_JOB_DIR", dir)
}

/// Every name below a directory.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        found.extend(tree(&path));
        found.push(path);
    }
    found.sort();
    found
}

fn probe(sandbox: &Sandbox, dir: &Path) -> Outcome {
    let before = tree(dir);
    let outcome = job_run(sandbox, dir).sh(PROBE).ok();
    assert_eq!(tree(dir), before, "the host's directory changed");
    outcome
}

/// A directory beside the home and the project, which are below /var/tmp: shown by a rule, as the host has it.
fn job_dir(sandbox: &Sandbox) -> PathBuf {
    let dir = sandbox.beside("jobs/j1");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("state.json"), "{}").unwrap();
    dir
}

fn visible<'a>(sandbox: &'a Sandbox, dir: &Path) -> Run<'a> {
    job_run(sandbox, dir).read(sandbox.beside("jobs"))
}

#[test]
fn exists() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    fs::create_dir(dir.join("tmp")).unwrap();
    fs::write(dir.join("tmp/of-the-host"), "").unwrap();
    let before = tree(&dir);
    visible(&sandbox, &dir).sh(PROBE).ok().prints("probe.sh\nstate.json\ntmp");
    assert_eq!(tree(&dir), before);
}

#[test]
fn missing() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    let before = tree(&dir);
    let name = format!("echo $CLAUDE_JOB_DIR; {PROBE}; cat {}/state.json", dir.display());
    let expected = format!("{}\nprobe.sh\nstate.json\ntmp\n{{}}", dir.display());
    visible(&sandbox, &dir).sh(&name).ok().prints(&expected);
    assert_eq!(tree(&dir), before);
}

#[test]
fn nothing_else_there_can_be_written() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    for name in ["new", "state.json", "state.json/x", ".stockade-host/new", ".stockade-host/state.json", "../x"] {
        visible(&sandbox, &dir).sh(&format!("echo x > \"$CLAUDE_JOB_DIR/{name}\"")).fails();
    }
    visible(&sandbox, &dir).sh("rm -f \"$CLAUDE_JOB_DIR/state.json\"").fails();
    assert_eq!(fs::read_to_string(dir.join("state.json")).unwrap(), "{}");
}

#[test]
fn what_the_host_does_meanwhile_is_seen() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    let script = "d=$CLAUDE_JOB_DIR; ls $d/new 2>/dev/null; touch started
        until grep -q hello $d/new; do sleep 0.01; done 2>/dev/null
        until grep -q two $d/state.json; do sleep 0.01; done
        until [ ! -L $d/new ]; do sleep 0.01; done; ls $d";
    let mut run = visible(&sandbox, &dir).spawn(["sh", "-c", script]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    fs::write(dir.join("new"), "hello").unwrap();
    // Replaced, as careful programs do.
    fs::write(dir.join("state.new"), "two").unwrap();
    fs::rename(dir.join("state.new"), dir.join("state.json")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    fs::remove_file(dir.join("new")).unwrap();
    run.wait().ok().prints("state.json\ntmp");
}

#[test]
fn the_directory_itself_is_missing() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox).parent().unwrap().join("j2/deep");
    visible(&sandbox, &dir).sh(PROBE).ok().prints("probe.sh\ntmp");
    assert!(!dir.parent().unwrap().exists());
}

/// Below a home that is written in: it sorts before /tmp, where the directory's stand-in lies.
#[test]
fn missing_in_a_home() {
    let sandbox = Sandbox::below(real_home());
    let dir = sandbox.beside("jobs/none");
    probe(&sandbox, &dir).prints("probe.sh\ntmp");
    assert!(!dir.parent().unwrap().exists());
    let beside = sandbox.file_beside("state.json", "{}").parent().unwrap().join("none");
    probe(&sandbox, &beside).prints("probe.sh\ntmp");
    assert!(!beside.exists());
}

#[test]
fn hidden() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    for hidden in [dir.clone(), dir.parent().unwrap().to_owned()] {
        for make in [false, true] {
            if make {
                fs::create_dir_all(dir.join("tmp")).unwrap();
            }
            let before = tree(&dir);
            job_run(&sandbox, &dir)
                .hide(&hidden)
                .read(sandbox.beside("jobs/other"))
                .sh(PROBE)
                .ok()
                .prints("probe.sh\ntmp");
            assert_eq!(tree(&dir), before);
            fs::remove_dir(dir.join("tmp")).unwrap_or_default();
        }
    }
}

/// Ordinary users have root's directory, root has somebody else's.
#[test]
fn foreign() {
    let sandbox = Sandbox::new();
    if is_root() {
        let dir = job_dir(&sandbox);
        chown(&dir, Some(65_000), Some(65_000)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        visible(&sandbox, &dir).sh(PROBE).ok().prints("probe.sh\ntmp");
        fs::create_dir(dir.join("tmp")).unwrap();
        visible(&sandbox, &dir).sh(PROBE).ok().prints("probe.sh\ntmp");
    } else {
        for dir in ["/root/job", "/root", "/etc"] {
            job_run(&sandbox, Path::new(dir)).sh("touch \"$CLAUDE_JOB_DIR/tmp/x\"").ok();
        }
        assert!(!Path::new("/etc/tmp").exists());
    }
}

#[test]
fn below_a_private_directory() {
    let sandbox = Sandbox::new();
    // The sandbox lies below /var/tmp, which is private, and no rule shows this part of it.
    let dir = job_dir(&sandbox);
    probe(&sandbox, &dir).prints("probe.sh\ntmp");
}

#[test]
fn in_a_writable_place_the_variable_moves_and_explain_says_so() {
    let sandbox = Sandbox::new();
    let dir = sandbox.project.join("job");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("state.json"), "{}").unwrap();
    probe(&sandbox, &dir).prints("probe.sh\nstate.json\ntmp");
    job_run(&sandbox, &dir).sh("cat $CLAUDE_JOB_DIR/state.json; echo $CLAUDE_JOB_DIR").ok().shows("{}/tmp/.job/");
    let explain = sandbox.stockade(&["explain", "--no-config"]).env("CLAUDE_JOB_DIR", &dir);
    explain.argv(["true"]).ok().shows("note: CLAUDE_JOB_DIR is /tmp/.job/");
}

#[test]
fn it_is_one_directory_for_all_runs_of_a_session() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    visible(&sandbox, &dir).session("s1").sh("echo v > $CLAUDE_JOB_DIR/tmp/x").ok();
    visible(&sandbox, &dir).session("s1").sh("cat $CLAUDE_JOB_DIR/tmp/x").ok().prints("v");
    visible(&sandbox, &dir).session("s2").sh("cat $CLAUDE_JOB_DIR/tmp/x").fails();
}

#[test]
fn other_private_directories_may_be_absent_too() {
    let sandbox = Sandbox::new();
    let dir = job_dir(&sandbox);
    let run = || visible(&sandbox, &dir).env("CACHE", dir.join("cache"));
    let policy = "[files]\nprivate = [\"$CACHE/a\", \"$CACHE/b\"]\n";
    let script = "touch $CACHE/a/x $CACHE/b/y && ls $CACHE $CACHE/a; ls $CLAUDE_JOB_DIR";
    run().policy(policy).sh(script).ok().shows("a\nb\n").shows("cache\nstate.json\n");
    assert!(!dir.join("cache").exists());
    // A stricter place in the way: refused, and the rule named.
    let absent = sandbox.project.join("absent");
    sandbox.run().option("--private").option(&absent).argv(["true"]).refused().says("--private");
}

//! What the command finds in its environment.

use std::fs;

use crate::support::{Sandbox, real_home};

#[test]
fn names_the_sandbox() {
    let sandbox = Sandbox::new();
    sandbox.run().session("s").sh("echo $STOCKADE $STOCKADE_SESSION $TMPDIR").ok().prints("1 s /tmp");
}

#[test]
fn tmp_and_temp_follow_tmpdir_only_when_they_are_set() {
    let sandbox = Sandbox::new();
    let show = "echo ${TMP-unset} ${TEMP-unset}";
    sandbox.sh(show).ok().prints("unset unset");
    sandbox.run().env("TMP", "/nowhere").env("TEMP", "/nowhere").sh(show).ok().prints("/tmp /tmp");
    sandbox.run().env("TMPDIR", "/nowhere").sh("echo $TMPDIR").ok().prints("/tmp");
}

#[test]
fn is_otherwise_the_callers() {
    let sandbox = Sandbox::new();
    let run = sandbox.run().env("PLAIN", "a b").env("LINES_", "a\nb").env("EMPTY", "");
    run.sh("printf '%s|%s|%s' \"$PLAIN\" \"$LINES_\" \"${EMPTY-unset}\"").ok().prints("a b|a\nb|");
}

#[test]
fn keep_unset_and_set() {
    let sandbox = Sandbox::new();
    let run = || sandbox.run().env("AWS_KEY", "k").env("AWS_ID", "i").env("OTHER", "o");
    let show = "echo ${AWS_KEY-no} ${AWS_ID-no} ${OTHER-no}";
    run().policy("[environment]\nunset = [\"AWS_*\"]\n").sh(show).ok().prints("no no o");
    run().policy("[environment]\nkeep = [\"PATH\", \"AWS_ID\"]\n").sh(show).ok().prints("no i no");
    run().policy("[environment]\nset = { AWS_KEY = \"new\" }\n").sh(show).ok().prints("new i o");
    run().options(["--setenv", "OTHER=a=b"]).sh(show).ok().prints("k i a=b");
    run().options(["--setenv", "novalue"]).sh(show).refused();
}

#[test]
fn the_runtime_directory_is_usable_or_not_named() {
    let sandbox = Sandbox::new();
    let dir = sandbox.beside("runtime");
    fs::create_dir(&dir).unwrap();
    let script = "test -z \"$XDG_RUNTIME_DIR\" || touch \"$XDG_RUNTIME_DIR/x\"";
    sandbox.run().env("XDG_RUNTIME_DIR", &dir).sh(script).ok();
    sandbox.run().env("XDG_RUNTIME_DIR", "/run/user/4711").sh(script).ok();
}

#[test]
fn identity_is_the_callers() {
    let sandbox = Sandbox::new();
    let script = "id -u; id -g; touch own; stat -c '%u %g' own";
    let outside = sandbox.script(script).ok().out;
    fs::remove_file(sandbox.project.join("own")).unwrap();
    sandbox.sh(script).ok().prints(outside.trim_end());
}

#[test]
fn git_accepts_the_project() {
    let sandbox = Sandbox::new();
    let setup = "git init -q . && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m first";
    sandbox.script(setup).ok();
    sandbox.sh("git log --format=%s && git status --short").ok().prints("first");
    let below = Sandbox::below(real_home());
    below.script(setup).ok();
    below.sh("git log --format=%s").ok().prints("first");
}

//! Names in a writable project that cannot be written: every way to write, replace, move or fake one.
//!
//! Each way is a program that is run twice: outside, where it must change a protected name (else it proves nothing), and
//! in a sandbox, where the host's files must afterwards be what they were, and what is permitted must still work.

mod attributes;
mod descriptors;
mod names;
mod namespaces;
mod paths;
mod planted;
mod processes;
mod races;

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::{Outcome, Run, Sandbox, need, python, real_home};

/// What every program begins with. `PRESENT` and `ABSENT` are protected, `DIRS` lead to protected names.
const PRELUDE: &str = include_str!("prelude.py");

/// Protected names that are there.
const PRESENT: [&str; 4] = [".mcp.json", ".claude/hooks/hook", "keep/secret", "keep/deep/er/secret"];
/// Protected directories that are there.
const DIRECTORIES: [&str; 1] = [".claude/hooks"];
/// Protected names that are not there.
const ABSENT: [&str; 8] = [
    ".envrc",
    ".claude/settings.json",
    ".claude/hooks/new",
    ".vscode",
    ".vscode/tasks.json",
    "gone/far/secret",
    "pat/any/key",
    "free2/absent",
];

/// A project with protected names, and with others.
fn project(sandbox: Sandbox) -> Sandbox {
    for name in PRESENT {
        sandbox.file(name, "old");
    }
    for name in ["mine", "free/mine", "free/below/mine", "keep/other", "free2/mine"] {
        sandbox.file(name, "mine");
    }
    fs::create_dir(sandbox.project.join("pat")).unwrap();
    sandbox
}

/// A run with the rules that protect the names.
fn guarded(sandbox: &Sandbox) -> Run<'_> {
    let dir = sandbox.project.display();
    let paths = ["keep/secret", "keep/deep/er/secret", "gone/far/secret", "pat/*/key", "free2/absent"];
    let read = paths.map(|path| format!("\"{dir}/{path}\"")).join(", ");
    sandbox.run().policy(&format!("[files]\nread = [{read}]\n"))
}

/// Everything about the protected names that a program could change.
fn snapshot(sandbox: &Sandbox) -> String {
    let mut text = String::new();
    for name in PRESENT.iter().chain(&DIRECTORIES).chain(&ABSENT) {
        let path = sandbox.project.join(name);
        writeln!(text, "{name}: {}", describe(&path)).unwrap();
    }
    text
}

/// The change time tells of every change of owner, mode, attributes, content and links.
fn describe(path: &Path) -> String {
    let Ok(meta) = fs::symlink_metadata(path) else { return "absent".into() };
    let content = if meta.is_file() { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let changed = (meta.ctime(), meta.ctime_nsec());
    format!(
        "{:?} ino {} mode {:o} links {} {changed:?} {content:?}",
        meta.file_type(),
        meta.ino(),
        meta.mode(),
        meta.nlink()
    )
}

fn program(attack: &str) -> String {
    format!("{PRELUDE}\n{attack}\nproof()\n")
}

/// The attack changes a protected name outside, and none in a sandbox.
fn holds(attack: &str) {
    if need("python3") {
        let control = project(Sandbox::new());
        let before = snapshot(&control);
        let outcome = control.outside(&python(&program(attack)));
        assert_ne!(snapshot(&control), before, "without a sandbox it does nothing\n{}", outcome.describe());
        holds_inside(attack, |run| run);
    }
}

/// The attack changes no protected name in a sandbox, be the project on the host's tree or in a private directory.
fn holds_inside(attack: &str, more: impl Fn(Run<'_>) -> Run<'_>) {
    if !need("python3") {
        return;
    }
    for sandbox in [Sandbox::new(), Sandbox::below(real_home())] {
        let sandbox = project(sandbox);
        let before = snapshot(&sandbox);
        let outcome = more(guarded(&sandbox)).python(&program(attack));
        unchanged(&sandbox, &before, &outcome);
        assert!(sandbox.project.join("proof").exists(), "what is permitted failed\n{}", outcome.describe());
    }
}

#[track_caller]
fn unchanged(sandbox: &Sandbox, before: &str, outcome: &Outcome) {
    let after = snapshot(sandbox);
    assert_eq!(after, before, "a protected name was changed\n{}", outcome.describe());
}

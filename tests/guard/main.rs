//! The broker against real kernels: each case runs in a process with read-only mounts and the filter, in a user namespace
//! of its own; the broker runs here.
//!
//! The sandboxed side is this same binary, started again for the one test [`inside`], which looks up its case by name.

#![allow(clippy::print_stdout, reason = "skips are told, and the sandboxed side says by a line that it is ready")]

mod cases;
mod differential;
mod harness;

use harness::{Project, require};
use stockade::guard::Denials;

/// Not a test by itself: what the sandboxed process runs.
#[test]
fn inside() {
    harness::inside(cases::ALL);
}

macro_rules! runs {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                if require() {
                    let project = Project::new();
                    project.run(stringify!($name));
                    project.check_protected();
                }
            }
        )*
    };
}

runs! {
    opens_and_creates
    protected_names_stay
    above_a_protected_name
    missing_ways_are_told_apart
    final_links_are_followed
    dots_and_slashes
    descriptor_calls
    nameless_files
    two_names
    sockets
    attributes
    access_is_answered
    threads_in_one_directory
    executables_are_not_busy
    locks_end_with_their_file
    fifos_do_not_block
    any_bytes_in_a_name
    inner_sandbox_gets_nothing
    killed_callers
    patterns_hold_for_new_names
    openat2_restrictions
    other_working_directories
    landlock_is_absent
}

/// Random calls have the same results and leave the same tree inside and outside, as long as no protected name is meant.
#[test]
fn random_calls_answer_as_outside() {
    if require() {
        let (inside, outside) = (Project::new(), Project::new());
        inside.run("random_calls");
        outside.run_native("random_calls");
        inside.check_protected();
        differential::compare(inside.path(), outside.path());
    }
}

#[test]
fn denials_are_noted() {
    if !require() {
        return;
    }
    let project = Project::new();
    let denials: Denials = project.run("makes_denied_calls");
    let lines: Vec<String> =
        denials.all().iter().map(|denial| denial.relative_to(project.path()).to_string()).collect();
    let flag = |rule: &str| format!("(read-only, --read {}/{rule})", project.path().display());
    let expected = [
        format!("write ./prot {}", flag("prot")),
        format!("create ./.claude/hooks {}", flag(".claude/hooks")),
        format!("remove ./prot {}", flag("prot")),
        format!("rename ./prot {}", flag("prot")),
    ];
    assert_eq!(lines, expected);
    assert_eq!(denials.all()[0].count, 2);
    assert_eq!(denials.all()[0].call, "openat");
}

/// For a look by hand, and for measuring: runs `$STOCKADE_TEST_COMMAND` in the project.
#[test]
#[ignore = "runs a command of yours"]
fn command() {
    if require() {
        let project = Project::new();
        project.run("command");
        project.check_protected();
    }
}

/// A broker that is gone grants nothing, and nothing hangs.
#[test]
fn without_a_broker_calls_fail() {
    if require() {
        let project = Project::new();
        project.run_without_broker("nothing_can_be_written");
        project.check_protected();
    }
}

#[test]
fn new_directories_are_told() {
    if require() {
        let project = Project::new();
        let told = project.run_told("makes_directories");
        assert_eq!(told, [project.path().join("new"), project.path().join("new/deep")]);
    }
}

//! `doctor` tries for real what a run needs, and says cause and cure.

mod host;
mod logs;
mod place;

use serde_json::Value;

use crate::support::{Outcome, Run, Sandbox};

/// The checks of one name, as JSON.
fn checks(outcome: &Outcome, name: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(&outcome.out).unwrap_or_else(|_| panic!("{}", outcome.describe()));
    all.into_iter().filter(|check| check["name"] == name).collect()
}

/// What the warnings (or failures, by `severity`) of one name say, causes and cures.
fn told(outcome: &Outcome, name: &str, severity: &str) -> String {
    let found = checks(outcome, name).into_iter().filter(|check| check["severity"] == severity);
    found.map(|check| format!("{}\n{}\n", check["found"], check["cure"])).collect::<Vec<_>>().concat()
}

fn doctor(sandbox: &Sandbox) -> Run<'_> {
    sandbox.stockade(&["doctor", "--json"])
}

#[test]
fn says_that_a_run_can_work() {
    Sandbox::new().stockade(&["doctor"]).plain().ok().shows("user namespace").shows("a run here: a command ran in");
}

#[test]
fn each_check_says_what_was_tried() {
    let sandbox = Sandbox::new();
    let outcome = doctor(&sandbox).plain().ok();
    let all: Vec<Value> = serde_json::from_str(&outcome.out).unwrap();
    for check in &all {
        assert!(check["name"].is_string() && check["tried"].is_string() && check["found"].is_string(), "{check}");
        assert!(["ok", "warning"].contains(&check["severity"].as_str().unwrap()), "{check}");
    }
    for name in ["kernel", "mounts", "new /proc", "notification", "state directory", "overlays", "a run", "room"] {
        assert!(all.iter().any(|check| check["name"] == name), "no {name}: {}", outcome.describe());
    }
}

#[test]
fn leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.stockade(&["doctor"]).plain().ok();
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
    for dir in [&sandbox.project, &sandbox.home] {
        assert_eq!(crate::support::entries(dir), Vec::<std::path::PathBuf>::new());
    }
}

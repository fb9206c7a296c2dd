//! `explain` prints the plan and does nothing.

use crate::support::Sandbox;

#[test]
fn prints_the_plan() {
    let sandbox = Sandbox::new();
    let run = sandbox.stockade(&["explain", "--no-config", "--", "true"]);
    run.plain().ok().shows("/tmp").shows(&sandbox.project.display().to_string());
    assert!(!sandbox.state.exists(), "explain made a state directory");
}

#[test]
fn names_where_a_rule_comes_from() {
    let sandbox = Sandbox::new();
    let secret = sandbox.file_beside("h/secret", "x");
    let run = sandbox.stockade(&["explain", "--no-config"]).hide("/srv");
    let run = run.policy(&format!("[files]\nhide = [\"{}\"]\n", secret.display()));
    run.plain().ok().shows("--hide").shows(".toml:2").shows("built-in");
}

#[test]
fn as_json() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.stockade(&["explain", "--no-config", "--json", "--", "true"]).plain().ok();
    let plan: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    assert!(plan.is_object());
    assert!(outcome.out.contains(sandbox.project.to_str().unwrap()));
}

#[test]
fn refuses_what_run_refuses() {
    let sandbox = Sandbox::new();
    sandbox.stockade(&["explain", "--no-config", "--read", "/srv", "--write", "/srv"]).plain().refused();
    sandbox.stockade(&["explain", "--policy", "absent.toml"]).plain().refused().says("absent.toml");
}

#[test]
fn trace_shows_the_steps() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run().option("--trace").argv(["echo", "out"]).ok().prints("out");
    assert!(outcome.err.lines().count() > 3, "{}", outcome.describe());
}

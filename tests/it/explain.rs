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

#[test]
fn shows_what_a_later_layer_replaced() {
    let sandbox = Sandbox::new();
    let first = "[files]\nread = [{ path = \"$PROJECT/data\", reason = \"kept\" }]\n";
    let second = "[files]\nhide = [\"$PROJECT/data\"]\n";
    let explain = |more: &[&str]| {
        let run = sandbox.stockade(&["explain", "--no-config"]).policy(first).policy(second);
        run.options(["--write", "data", "--write", ".envrc"]).options(more).plain().ok()
    };
    let lines: Vec<String> = explain(&[]).out.lines().map(|line| line.trim().to_owned()).collect();
    let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
    // Under the rule that is in force, the earlier ones by layer.
    let data = at(&format!("write    {}  (--write data)", sandbox.project.join("data").display()));
    assert!(lines[data + 1].starts_with("instead of read ("), "{}", lines[data + 1]);
    assert!(lines[data + 1].contains(".toml:2: kept)"), "{}", lines[data + 1]);
    assert!(lines[data + 2].starts_with("instead of hide ("), "{}", lines[data + 2]);
    let envrc = at(&format!("write    {}  (--write .envrc)", sandbox.project.join(".envrc").display()));
    assert!(lines[envrc + 1].starts_with("instead of read (built-in: "), "{}", lines[envrc + 1]);

    let json: serde_json::Value = serde_json::from_str(&explain(&["--json"]).out).unwrap();
    let rules = json["rules"].as_array().unwrap();
    let data = rules.iter().find(|rule| rule["origin"] == "--write data").unwrap();
    assert_eq!(data["replaced"][0]["access"], "read");
    assert_eq!(data["replaced"][0]["reason"], "kept");
    assert_eq!(data["replaced"][1]["access"], "hide");
    assert!(rules.iter().any(|rule| rule["replaced"].as_array().unwrap().is_empty()));
}

//! `stockade` without a command names those that one needs.

use crate::support::Sandbox;

#[test]
fn names_five_commands_with_examples() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.stockade(&[]).plain().status(125);
    assert!(outcome.err.lines().count() < 25 && outcome.out.is_empty(), "{}", outcome.describe());
    let examples = outcome.err.lines().filter_map(|line| line.trim().strip_prefix("stockade "));
    let commands: Vec<&str> = examples.filter_map(|example| example.split(' ').next()).collect();
    assert_eq!(commands, ["run", "why", "ps", "init", "doctor", "--help"], "{}", outcome.describe());
    for command in commands {
        let help: &[&str] = if command == "--help" { &[command] } else { &[command, "--help"] };
        sandbox.stockade(help).plain().ok();
    }
}

#[test]
fn help_and_mistakes_are_as_before() {
    let sandbox = Sandbox::new();
    sandbox.stockade(&["--help"]).plain().ok().shows("Usage: ").shows("overlay");
    sandbox.stockade(&["--version"]).plain().ok().shows("stockade ");
    sandbox.stockade(&["no-such-command"]).plain().status(125).says("error: ");
}

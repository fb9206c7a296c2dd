//! Bad input: 125, where it is written, and nothing started.

use crate::support::{Outcome, Sandbox};

/// Refused before anything was started.
#[track_caller]
fn refused(sandbox: &Sandbox, outcome: Outcome) -> Outcome {
    assert!(!sandbox.project.join("ran").exists(), "it ran\n{}", outcome.describe());
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
    outcome.refused()
}

/// The policy is refused, pointing at `place`.
#[track_caller]
fn refuses(policy: &str, place: &str, words: &[&str]) {
    let sandbox = Sandbox::new();
    let outcome = refused(&sandbox, sandbox.run().policy(policy).sh("touch ran"));
    let outcome = words.iter().fold(outcome.says(".toml").says(place), |outcome, word| outcome.says(word));
    assert!(outcome.err.contains('^'), "no caret\n{}", outcome.describe());
}

#[test]
fn unknown_key() {
    refuses("[files]\nwriet = [\"x\"]\n", ":2:1", &["writet".trim_end_matches('t'), "writ"]);
    refuses("strct = true\n", ":1:1", &["strct"]);
    refuses("[files]\nread = [{ path = \"x\", optinal = true }]\n", ":2:", &["optinal"]);
}

#[test]
fn wrong_type() {
    refuses("[files]\nread = \"x\"\n", ":2:8", &[]);
    refuses("strict = \"yes\"\n", ":1:10", &[]);
    refuses("[network]\nmode = \"some\"\n", ":2:8", &["none", "host"]);
}

#[test]
fn broken_text() {
    refuses("[files\n", ":1:", &[]);
    refuses("[files]\nread = [\"a\"\n", ":", &[]);
}

#[test]
fn contradicting_rules_of_one_layer() {
    refuses("[files]\nread = [\"/srv/a\"]\nwrite = [\"/srv/a\"]\n", ":3:", &["/srv/a", ":2"]);
    let sandbox = Sandbox::new();
    let run = sandbox.run().read("/srv/a").write("/srv/a");
    refused(&sandbox, run.sh("touch ran")).says("--read").says("--write");
}

#[test]
fn a_later_layer_replaces_an_earlier_one() {
    let sandbox = Sandbox::new();
    let dir = sandbox.beside("other");
    std::fs::create_dir(&dir).unwrap();
    let policy = format!("[files]\nread = [\"{}\"]\n", dir.display());
    let script = format!("touch {}/x", dir.display());
    sandbox.run().policy(&policy).sh(&script).fails().says("Read-only file system");
    sandbox.run().policy(&policy).write(&dir).sh(&script).ok();
}

#[test]
fn missing_policy_file() {
    let sandbox = Sandbox::new();
    let run = sandbox.run().options(["--policy", "absent.toml"]);
    refused(&sandbox, run.sh("touch ran")).says("absent.toml").says("No such file");
}

#[test]
fn an_undefined_variable_is_named() {
    refuses("[files]\nread = [\"$NO_SUCH_VARIABLE/x\"]\n", ":2:", &["NO_SUCH_VARIABLE"]);
    let sandbox = Sandbox::new();
    sandbox.run().policy("[files]\nread = [\"${NO_SUCH_VARIABLE:-/srv}/x\"]\n").argv(["true"]).ok();
}

#[test]
fn usage() {
    let sandbox = Sandbox::new();
    for args in [&["run", "--no-such-option"][..], &["run", "--network", "some"], &["nothing"], &["run", "--session"]] {
        sandbox.stockade(args).plain().status(125).says("error: ");
    }
    sandbox.stockade(&["--help"]).plain().ok().shows("run").shows("explain").shows("doctor");
    sandbox.stockade(&["--version"]).plain().ok().shows(env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_users_own_configuration_counts_unless_told_otherwise() {
    let sandbox = Sandbox::new();
    let dir = sandbox.beside("readable");
    std::fs::create_dir(&dir).unwrap();
    sandbox.file_beside("h/.config/stockade/config.toml", "[environment]\nset = { FROM = \"config\" }\n");
    let words = ["run", "--", "sh", "-c", "echo $FROM"];
    sandbox.stockade(&words).plain().ok().prints("config");
    sandbox.stockade(&["run", "--no-config", "--", "sh", "-c", "echo $FROM"]).plain().ok().prints("");
    let moved = sandbox.file_beside("x/stockade/config.toml", "[environment]\nset = { FROM = \"moved\" }\n");
    let xdg = moved.parent().unwrap().parent().unwrap();
    sandbox.stockade(&words).env("XDG_CONFIG_HOME", xdg).plain().ok().prints("moved");
    sandbox.file_beside("h/.config/stockade/config.toml", "nonsense");
    sandbox.stockade(&words).plain().refused().says("config.toml:1:");
}

#[test]
fn what_cannot_be_enforced_is_refused() {
    let sandbox = Sandbox::new();
    let run = sandbox.run().options(["--overlay", "/etc/passwd"]);
    refused(&sandbox, run.sh("touch ran")).says("overlay").says("/etc/passwd");
}

#[test]
fn control_characters_of_names_are_not_printed() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run().options(["--policy", "a\u{1b}[31mred\r\n"]).sh("touch ran");
    let outcome = refused(&sandbox, outcome);
    assert!(!outcome.err.contains('\u{1b}') && !outcome.err.contains('\r'), "{}", outcome.describe());
}

#[test]
fn three_thousand_rules_work() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..3000).map(|n| format!("  \"/srv/data/a-rather-long-name-{n}\",\n")).collect();
    let policy = format!("[files]\nread = [\n{}]\n", names.concat());
    sandbox.run().policy(&policy).argv(["echo", "hi"]).ok().prints("hi");
}

//! Lists in documents that are also lists in the code.

use std::collections::BTreeSet;
use std::fs;

use stockade::launch::Step;
use stockade::policy::Limit;

use super::{document, files};
use crate::support::Sandbox;

fn numbered(text: &str) -> Vec<String> {
    let items = text.lines().filter_map(|line| line.split_once(". **"));
    let items = items.filter(|(number, _)| number.chars().all(|c| c.is_ascii_digit()));
    items.map(|(_, rest)| rest.split("**").next().unwrap().to_owned()).collect()
}

#[test]
fn the_steps_of_a_launch() {
    let operation = document("docs/operation.md");
    let documented = numbered(operation.section("## The sandbox"));
    let steps: Vec<String> = Step::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(documented, steps);
}

/// What `--trace` prints comes in the order of the list.
#[test]
fn the_steps_as_they_happen() {
    let sandbox = Sandbox::new();
    sandbox.file(".envrc", "");
    for options in [&["--session", "s"][..], &["--network", "host"], &["--strict"]] {
        let outcome = sandbox.run().options(options).option("--trace").sh("true").ok();
        let steps = outcome.err.lines().filter_map(|line| line.split_once(" ms  "));
        let position = |text: &str| Step::ALL.iter().position(|step| step.text() == text);
        let order: Vec<_> = steps.map(|(_, text)| position(text).unwrap()).collect();
        assert!(order.len() > 15 && order.is_sorted(), "{order:?}\n{}", outcome.describe());
    }
}

/// The test functions of a file of `tests/escape`.
fn tests_of(path: &std::path::Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let after = text.split("#[test]\n").skip(1);
    after.filter_map(|rest| rest.split_once("fn ")?.1.split_once('(')).map(|(name, _)| name.to_owned()).collect()
}

/// Every attack that is tried: `file::test`, and `guarded::file::test`.
fn attacks() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (dir, prefix) in [("tests/escape", ""), ("tests/escape/guarded", "guarded::")] {
        for path in files(dir).iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
            let file = path.file_stem().unwrap().to_str().unwrap();
            all.extend(tests_of(path).into_iter().map(|test| format!("{prefix}{file}::{test}")));
        }
    }
    all
}

#[test]
fn the_attacks_that_were_tried() {
    let security = document("docs/security.md");
    let spans: BTreeSet<&str> = security.text.split('`').skip(1).step_by(2).collect();
    let attacks = attacks();
    assert!(attacks.len() > 100);
    let file = |attack: &str| attack.rsplit_once("::").unwrap().0.to_owned();
    let files: BTreeSet<String> = attacks.iter().map(|attack| file(attack)).collect();
    let untold: Vec<&String> = files.iter().filter(|file| !spans.contains(file.as_str())).collect();
    assert_eq!(untold, Vec::<&String>::new(), "not in docs/security.md");
    let named = spans.iter().filter(|span| span.contains("::") && !span.contains(['/', '(', ' ']));
    let unknown: Vec<_> = named.filter(|span| !attacks.contains(**span) && !files.contains(**span)).collect();
    assert_eq!(unknown, Vec::<&&str>::new(), "no such attack is tried");
}

#[test]
fn the_options_and_limits_in_the_manual() {
    let policy = document("docs/policy.md").text;
    for limit in Limit::ALL {
        assert!(policy.contains(&format!("`{limit}`")), "{limit}");
    }
    let help = Sandbox::new().stockade(&["run", "--help"]).plain().ok().out;
    let all: String = super::documents().into_iter().map(|document| document.text).collect();
    let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    let options = options.filter(|option| *option != "--help");
    let options: BTreeSet<&str> = options.map(|word| word.trim_end_matches([',', '.', ')'])).collect();
    let untold: Vec<&&str> = options.iter().filter(|option| !all.contains(**option)).collect();
    assert_eq!(untold, Vec::<&&str>::new(), "in no document");
}

#[test]
fn the_examples_are_linked_and_tested() {
    let manual = document("docs/policy.md").links();
    let tests = include_str!("../examples.rs");
    for entry in files("docs/examples") {
        let name = entry.file_name().unwrap().to_str().unwrap();
        assert!(manual.contains(&format!("examples/{name}")), "docs/policy.md does not link {name}");
        assert!(tests.contains(&format!("docs/examples/{name}\")")), "not tested: {name}");
    }
}

//! Manual pages and completions are made of the same commands and options as the help.

use std::fs;

use crate::support::{Outcome, Sandbox, need};

/// A command's words below `stockade`, and its help.
struct Helped {
    words: Vec<String>,
    help: String,
}

/// Every command, found by reading help.
fn commands(sandbox: &Sandbox, words: &[String], found: &mut Vec<Helped>) {
    let args: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let help = sandbox.stockade(&args).plain().ok().out;
    let listed = help.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.map(|line| line.split_whitespace().next().unwrap().to_owned()) {
        commands(sandbox, &[words, &[name]].concat(), found);
    }
    found.push(Helped { words: words.to_vec(), help });
}

fn all() -> (Sandbox, Vec<Helped>) {
    let sandbox = Sandbox::new();
    let mut found = Vec::new();
    commands(&sandbox, &[], &mut found);
    // Its options are another program's, and so is the help for them.
    found.iter_mut().filter(|found| found.words == ["bwrap"]).for_each(|found| found.help.clear());
    assert!(found.len() > 20, "{}", found.len());
    (sandbox, found)
}

fn options(help: &str) -> impl Iterator<Item = &str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take(2)).filter(|word| word.starts_with("--"));
    words.map(|word| word.split(['[', '=']).next().unwrap())
}

#[test]
fn every_command_has_a_page_with_every_option() {
    let (sandbox, commands) = all();
    let dir = sandbox.beside("man");
    let printed = sandbox.stockade(&["man", dir.to_str().unwrap()]).plain().ok().out;
    assert_eq!(printed.lines().count(), commands.len());
    for Helped { words, help } in &commands {
        let name = [&["stockade".to_owned()], words.as_slice()].concat().join("-");
        let page = fs::read_to_string(dir.join(format!("{name}.1"))).unwrap().replace("\\-", "-");
        assert!(page.contains(&format!("\n{name}")) || page.contains(&format!("{name} - ")), "{name}");
        for option in options(help) {
            assert!(page.contains(option), "{name}.1 lacks {option}");
        }
    }
}

#[test]
fn pages_are_read_without_complaint() {
    if !need("man") || !need("groff") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.stockade(&["man", "."]).plain().ok();
    let read = "for page in *.1; do man --warnings -l $page > text || exit; grep -q SYNOPSIS text || exit 9; done";
    let outcome = sandbox.outside(&["sh", "-c", read]).ok();
    assert_eq!(outcome.err, "", "{}", outcome.describe());
}

/// Nobody has to guess what an argument is.
#[test]
fn every_argument_is_explained() {
    for Helped { words, help } in all().1 {
        let lines: Vec<&str> = help.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let name = line.trim_start();
            let is_value = ["[possible", "[default"].iter().any(|start| name.starts_with(start));
            let is_argument = line.starts_with("  ") && name.starts_with(['<', '[', '-']) && !is_value;
            let bare = name.split("  ").skip(1).all(str::is_empty);
            let next = lines.get(index + 1).is_some_and(|next| next.starts_with("       ") && !next.trim().is_empty());
            assert!(!is_argument || !bare || next, "{}: {line}", words.join(" "));
        }
    }
}

/// What bash offers for a line of words, of which the last is being written.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let script = format!(
        "source <($SK completions bash) || exit; COMP_WORDS=({line}); COMP_CWORD={}; _stockade stockade '{last}' '{before}'
        printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    sandbox.outside(&["bash", "--norc", "-c", &script]).ok()
}

#[test]
fn bash_completes_commands_options_and_values() {
    if !need("bash") {
        return;
    }
    let sandbox = Sandbox::new();
    offered(&sandbox, &["stockade", "ru"]).prints("run");
    offered(&sandbox, &["stockade", "job", "wa"]).prints("wait");
    offered(&sandbox, &["stockade", "run", "--fast"]).prints("--fast-path");
    offered(&sandbox, &["stockade", "run", "--network", ""]).prints("none\nhost");
}

#[test]
fn bash_completes_every_option() {
    if !need("bash") {
        return;
    }
    let (sandbox, commands) = all();
    for Helped { words, help } in &commands {
        let line: Vec<&str> = ["stockade"].into_iter().chain(words.iter().map(String::as_str)).chain(["--"]).collect();
        let offered = offered(&sandbox, &line);
        for option in options(help) {
            assert!(offered.out.lines().any(|word| word == option), "{option}\n{}", offered.describe());
        }
    }
}

/// The other shells at least read it.
#[test]
fn other_shells_load_it() {
    let sandbox = Sandbox::new();
    for (shell, load) in [("zsh", "autoload -Uz compinit; compinit -u -D; . ./script"), ("fish", "source script")] {
        let script = sandbox.stockade(&["completions", shell]).plain().ok().out;
        sandbox.file("script", &script);
        if need(shell) {
            let outcome = sandbox.outside(&[shell, "-c", load]).ok();
            assert_eq!(outcome.err, "", "{}", outcome.describe());
        }
    }
    sandbox.stockade(&["completions", "tcsh"]).plain().status(125).says("possible values");
}

//! The commands in the documents run as they stand there.
//!
//! A block of `sh` is run whole and stops at the first command that fails; blocks of one document follow each other in one
//! project. A line whose comment ends with `status N` has to end with that, one with `# refused` has to fail. A block of
//! `text` that follows is what it prints, one of `console` its standard error, with `…` for anything. Blocks that cannot be run are marked (`<!-- not run: REASON -->`) and counted.

use std::fs;
use std::os::unix::fs::symlink;

use super::documents;
use super::markdown::{Block, Document};
use crate::support::git::repository;
use crate::support::{Outcome, Sandbox};

/// Programs that need not be installed for what the documents show. They do nothing.
const STUBS: [&str; 3] = ["npm", "pip", "agent"];

/// How many blocks are not run.
const NOT_RUN: usize = 4;

/// A project as the documents assume one: a repository with a Makefile, a script and some places at home.
fn fixture() -> Sandbox {
    let mut sandbox = repository();
    // The project lies at home, as projects do.
    fs::copy(sandbox.home.join(".gitconfig"), sandbox.beside(".gitconfig")).unwrap();
    sandbox.home = sandbox.project.parent().unwrap().to_owned();
    sandbox.file("Makefile", "test:\n\t@echo tested\nbuild:\n\t@mkdir -p dist && echo built > dist/app\n");
    let script = "#!/bin/sh\nmkdir -p ~/tool && echo installed > ~/tool/version\n";
    sandbox.program(&sandbox.project.join("install.sh"), script);
    sandbox.file("package.json", "{}");
    sandbox.file("src/main.rs", "fn main() {}\n");
    sandbox.file_beside(".cache/pip/x", "");
    sandbox.file_beside(".ssh/id_ed25519", "key");
    fs::create_dir(sandbox.beside("bin")).unwrap();
    for stub in STUBS {
        sandbox.program(&sandbox.beside(&format!("bin/{stub}")), "#!/bin/sh\n");
    }
    symlink(sandbox.binary(), sandbox.beside("bin/stockade")).unwrap();
    for policy in super::files("docs/examples") {
        fs::copy(&policy, sandbox.home.join(policy.file_name().unwrap())).unwrap();
    }
    sandbox
}

/// A line whose comment ends with `status N` gives that, one whose comment begins with `refused` fails, others succeed.
fn checked(line: &str) -> String {
    let Some((command, comment)) = line.split_once(" # ") else { return line.to_owned() };
    let status = comment.rsplit_once("status ").and_then(|(_, number)| number.parse::<u8>().ok());
    let ends = match status {
        Some(status) => format!("test $s = {status}"),
        None if comment.starts_with("refused") => "test $s -gt 0 -a $s -ne 125".into(),
        None => return line.to_owned(),
    };
    format!("if ({command}\n); then s=0; else s=$?; fi; {ends} || exit 99")
}

fn run(sandbox: &Sandbox, block: &Block) -> Outcome {
    let lines: Vec<String> = block.text.replace("\\\n", " ").lines().map(checked).collect();
    let bin = sandbox.beside("bin");
    sandbox.script(&format!("set -e; PATH={}:$PATH\n{}", bin.display(), lines.join("\n")))
}

/// Is it this text, in which `…` stands for anything?
fn matches(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap()) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (index, part) in parts.iter().enumerate() {
        if index + 1 == parts.len() && rest.ends_with(part) {
            return true;
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

fn run_all(document: &Document) {
    let sandbox = fixture();
    let _sessions = Sessions(&sandbox);
    let blocks = document.blocks();
    for (index, block) in blocks.iter().enumerate() {
        if block.info != "sh" || block.not_run.is_some() {
            continue;
        }
        let outcome = run(&sandbox, block);
        let place = format!("{}:{}", document.name.display(), block.line);
        assert_eq!(outcome.code, 0, "{place}\n{}", outcome.describe());
        let Some(Block { info, text, .. }) = blocks.get(index + 1) else { continue };
        let printed = match info.as_str() {
            "text" => &outcome.out,
            "console" => &outcome.err,
            _ => continue,
        };
        assert!(matches(printed.trim_end(), text.trim_end()), "{place} prints\n{}", outcome.describe());
    }
}

/// Ends the sessions of a fixture, and with them its background jobs, also when a command failed.
struct Sessions<'a>(&'a Sandbox);

impl Drop for Sessions<'_> {
    fn drop(&mut self) {
        let end = "for id in $($SK session list | cut -f 1); do $SK session end --kill \"$id\" || true; done";
        let _ = self.0.script(end);
    }
}

#[test]
fn every_command_runs() {
    for document in documents() {
        run_all(&document);
    }
}

#[test]
fn those_that_do_not_run_are_counted_and_have_a_reason() {
    let documents: Vec<Document> = documents();
    let blocks: Vec<Block> = documents.iter().flat_map(Document::blocks).collect();
    let marked: Vec<&str> = blocks.iter().filter_map(|block| block.not_run.as_deref()).collect();
    assert!(marked.iter().all(|reason| reason.split(' ').count() > 2), "{marked:?}");
    assert_eq!(marked.len(), NOT_RUN, "{marked:?}");
    let marks: usize = documents.iter().map(|document| document.text.matches("<!-- not run").count()).sum();
    assert_eq!(marks, NOT_RUN, "a mark does not stand right before its block");
    // Commands in a block of another kind would go untried.
    let odd: Vec<&String> = blocks
        .iter()
        .filter(|block| !["sh", "toml", "text", "json", "console", ""].contains(&block.info.as_str()))
        .map(|block| &block.info)
        .collect();
    assert_eq!(odd, Vec::<&String>::new());
    assert!(blocks.iter().filter(|block| block.info == "sh").count() > 20);
}

#[test]
fn the_test_sees_what_is_wrong() {
    assert!(matches("a 12 b", "a … b") && matches("x", "x") && !matches("xy", "x") && matches("a\nb", "…b"));
    let sandbox = fixture();
    let block = |text: &str| Block { line: 1, info: "sh".into(), text: text.into(), not_run: None };
    run(&sandbox, &block("stockade why .envrc --write # no: status 1\n")).ok();
    run(&sandbox, &block("stockade why .envrc --write # status 0\n")).fails();
    run(&sandbox, &block("stockade run -- sh -c 'echo > .envrc' # refused\n")).ok();
    run(&sandbox, &block("stockade run -- true # refused\n")).fails();
    run(&sandbox, &block("false\ntrue\n")).fails();
    run(&sandbox, &block("stockade run --no-such-option\n")).fails();
}

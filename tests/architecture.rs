//! The direction of the modules: who may use whom. What is outside of the table fails here, with file and line.

#![allow(clippy::unwrap_used, reason = "a test that cannot read the sources fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A module, what it may use, and why where that is not plain from the design.
const TABLE: [(&str, &[&str], &str); 12] = [
    ("main", &["cli"], "a look at argv[0]"),
    (
        "cli",
        &["bwrap", "policy", "probe", "plan", "launch", "guard", "session", "overlay", "import"],
        "the only writer to the terminal",
    ),
    (
        "bwrap",
        &["plan", "launch", "policy", "probe"],
        "of policy only rules as a plan holds them, of probe only who calls and may change what",
    ),
    ("import", &["policy"], "other tools' settings to a policy's text; pure, of policy only what is built in"),
    ("policy", &[], "files and flags to a value; asks the host nothing"),
    ("probe", &["policy", "plan", "sys"], "of plan only the types of what it finds"),
    ("plan", &["policy", "sys"], "pure; of sys only the types that facts are made of"),
    ("launch", &["plan", "policy", "guard", "overlay", "session", "sys"], "of policy only the types that a plan holds"),
    ("guard", &["plan", "policy", "sys"], "the filter and the judgement are pure, the broker is not"),
    ("session", &["sys"], "a directory with locks; knows no rules"),
    ("overlay", &["sys"], "layers on disk"),
    ("sys", &[], "one function a system call"),
];

/// Words that belong to one module alone.
const ONLY_IN: [(&str, &[&str]); 6] = [
    ("sys", &["rustix::", "libc::"]),
    ("sys", &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]),
    ("cli", &["println!", "eprintln!", "print!(", "eprint!("]),
    ("cli", &[" io::stdout()", " io::stderr()", "std::io::stdout", "std::io::stderr", "stdout().lock"]),
    ("cli", &["process::exit("]),
    ("cli", &["clap::", "clap_mangen::", "clap_complete::"]),
];

/// A line of the sources that is code.
struct Line {
    module: String,
    place: String,
    text: String,
}

fn root() -> PathBuf {
    // The sources may lie elsewhere than where the test was built.
    let here = std::env::current_dir().unwrap_or_default();
    if here.join("src/lib.rs").exists() { here } else { env!("CARGO_MANIFEST_DIR").into() }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The first part of the path below `src`, without the extension.
fn module_of(file: &Path, src: &Path) -> String {
    let below = file.strip_prefix(src).unwrap();
    below.components().next().unwrap().as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
}

/// Every line of code; comments, and the unit tests at the end of a file, are left out.
fn lines() -> Vec<Line> {
    let src = root().join("src");
    let mut all = Vec::new();
    for file in files(&src) {
        let text = fs::read_to_string(&file).unwrap();
        let end = text.find("#[cfg(test)]\nmod ").filter(|_| !text.contains("#[cfg(test)]\nmod tests;"));
        let code = &text[..end.unwrap_or(text.len())];
        if file.ends_with("tests.rs") {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            let text = line.split("//").next().unwrap_or_default().to_owned();
            let place = format!("{}:{}", file.strip_prefix(root()).unwrap().display(), number + 1);
            all.push(Line { module: module_of(&file, &src), place, text });
        }
    }
    all
}

/// The modules that a line names: `crate::x`, `crate::{x, y::z}`, `stockade::x`, `super::super::x` is not allowed at all.
fn named(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "stockade::"] {
        for (at, _) in text.match_indices(start) {
            if text[..at].ends_with("pub(in ") {
                continue;
            }
            let rest = &text[at + start.len()..];
            let group = rest.strip_prefix('{').map(|rest| rest.split('}').next().unwrap_or(rest));
            let parts = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
            found.extend(parts.into_iter().map(first_word).filter(|word| !word.is_empty()));
        }
    }
    found
}

fn first_word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn may_use(module: &str) -> Option<&'static [&'static str]> {
    TABLE.iter().find(|(name, ..)| *name == module).map(|(_, uses, _)| *uses)
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    for Line { module, place, text } in lines() {
        for used in named(&text) {
            let known = may_use(&used).is_some();
            let allowed = used == module || may_use(&module).is_some_and(|uses| uses.contains(&used.as_str()));
            if module != "lib" && known && !allowed {
                wrong.push(format!("{place}: {module} uses {used}: {}", text.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_words_belong_to_one_module() {
    let mut wrong = Vec::new();
    for Line { module, place, text } in lines() {
        for (owner, words) in ONLY_IN {
            if module != owner && words.iter().any(|word| text.contains(word)) {
                wrong.push(format!("{place}: only {owner} may say this: {}", text.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_in_the_table_and_exists() {
    let src = root().join("src");
    let seen: BTreeSet<String> =
        files(&src).iter().map(|file| module_of(file, &src)).filter(|name| name != "lib").collect();
    let listed: BTreeSet<String> = TABLE.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(seen, listed);
}

#[test]
fn every_unsafe_block_says_why() {
    for file in files(&root().join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
        let blocks =
            text.lines().filter(|line| line.split("//").next().unwrap_or_default().contains("unsafe {")).count();
        assert!(blocks <= count("SAFETY:"), "{}: {blocks} blocks", file.display());
    }
}

#[test]
fn the_scan_sees_what_it_looks_for() {
    assert!(named("use crate::sys::fs;").contains("sys"));
    assert!(named("use crate::{plan, sys::fs};").contains("sys"));
    assert!(named("let x = crate::launch::start(y)").contains("launch"));
    assert!(named("// nothing").is_empty());
}

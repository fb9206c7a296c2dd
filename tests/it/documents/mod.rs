//! The documents say what is so: their commands run, their links lead somewhere, their lists are those of the code.

mod commands;
mod facts;
mod links;
mod markdown;

use std::fs;
use std::path::{Path, PathBuf};

use markdown::Document;

/// Where the sources lie, which may be elsewhere than where the test was built.
fn root() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    if here.join("src/lib.rs").exists() { here } else { env!("CARGO_MANIFEST_DIR").into() }
}

/// The files of a directory of the sources, by name.
fn files(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Every document that is there. Of those beside README.md some are left out where the suite runs without a clone.
fn documents() -> Vec<Document> {
    let all = files(".").into_iter().chain(files("docs")).filter(|path| is_markdown(path));
    let all: Vec<Document> = all.map(|path| Document::read(&root(), &path)).collect();
    assert!(all.len() > 5, "where are the documents?");
    all
}

fn document(name: &str) -> Document {
    Document::read(&root(), &root().join(name))
}

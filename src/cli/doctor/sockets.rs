//! Sockets below the home directory: connecting to one is not a write, so a read-only view does not stop it.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::check::Check;
use super::place::Place;
use crate::policy::{Access, Policy};
use crate::probe::host;

const NAME: &str = "sockets";
const TRIED: &str =
    "looked for sockets below the home directory: those that somebody listens on, and files three levels deep";
/// How far down files are looked at.
const DEPTH: usize = 3;
/// How many files are looked at.
const FILES: usize = 20_000;
/// How many are named.
const SHOWN: usize = 5;

pub(super) fn check(place: &Place) -> Vec<Check> {
    let (Some(home), Ok(policy)) = (&place.home, &place.policy) else { return Vec::new() };
    let mut visible = reachable(home, policy);
    if visible.is_empty() {
        return vec![Check::ok(NAME, TRIED, "none below the home directory that a command could reach")];
    }
    let count = visible.len();
    visible.truncate(SHOWN);
    let names: Vec<String> = visible.iter().map(|path| path.display().to_string()).collect();
    let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let cause = format!(
        "commands can connect to {}{more}: whoever listens there works outside of the sandbox",
        names.join(", ")
    );
    let cure = format!("in ~/.config/stockade/config.toml: [files] hide = [{}]", quoted.join(", "));
    vec![Check::warning(NAME, TRIED, cause).cured_by(cure)]
}

/// Those that a run here would see.
fn reachable(home: &Path, policy: &Policy) -> Vec<PathBuf> {
    let mut found: BTreeSet<PathBuf> =
        host::listening().into_iter().filter(|path| path.starts_with(home) && is_socket(path)).collect();
    walk(home, DEPTH, &mut FILES.clone(), &mut found);
    let seen = |path: &PathBuf| !matches!(policy.rules.judge(path).access, Access::Hide | Access::Private);
    found.into_iter().filter(seen).collect()
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

/// Links are not followed; what cannot be read holds nothing that a command could reach.
fn walk(dir: &Path, depth: usize, left: &mut usize, found: &mut BTreeSet<PathBuf>) {
    for entry in dir.read_dir().into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        match entry.file_type() {
            Ok(kind) if kind.is_socket() => drop(found.insert(entry.path())),
            Ok(kind) if kind.is_dir() && depth > 1 => walk(&entry.path(), depth - 1, left, found),
            _ => {}
        }
    }
}

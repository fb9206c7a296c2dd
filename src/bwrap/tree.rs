//! The tree as the options before have made it: which part is whose, and what is known to lie in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::host::{Host, Look};

/// What the kernel follows at most (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Whose a part of the tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// A file system of ours, in which anything may be made.
    Ours,
    /// The host's, read-only.
    Read(PathBuf),
    /// The host's, writable.
    Write(PathBuf),
    /// A file system that only the kernel can read; `ours`: what is made in it never reaches the host.
    Foreign { ours: bool },
}

/// A part of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) at: PathBuf,
    pub(super) owner: Owner,
    pub(super) is_dir: bool,
    /// The step that made it, and the option it was made for.
    pub(super) step: Option<usize>,
    pub(super) option: String,
}

/// A name of the host that an option denied, or that something is mounted upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) inside: PathBuf,
    pub(super) host: PathBuf,
    pub(super) option: String,
    /// Writing there was what the option forbids: else the name is only held while something is mounted there.
    pub(super) guards: bool,
}

/// The whole tree.
pub(super) struct Tree<'a> {
    host: &'a dyn Host,
    pub(super) regions: Vec<Region>,
    made: BTreeMap<PathBuf, Look>,
    pub(super) denied: Vec<Denied>,
}

/// Where a path leads.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) look: Look,
    /// The directory that it lies in is missing.
    pub(super) lost: bool,
    /// Links on the way.
    pub(super) links: Vec<PathBuf>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(host: &'a dyn Host) -> Self {
        let root =
            Region { at: "/".into(), owner: Owner::Ours, is_dir: true, step: None, option: "the empty root".into() };
        Self { host, regions: vec![root], made: BTreeMap::new(), denied: Vec::new() }
    }

    /// The region that a path lies in.
    pub(super) fn region(&self, path: &Path) -> &Region {
        let holding = self.regions.iter().filter(|region| lies_in(path, &region.at));
        // The first region is the root, which holds everything.
        holding.max_by_key(|region| region.at.as_os_str().len()).unwrap_or(&self.regions[0])
    }

    /// The region that the name itself lies in.
    pub(super) fn outer(&self, path: &Path) -> &Region {
        self.region(path.parent().unwrap_or(path))
    }

    /// Where the host has what lies in the directory of a name, if the host has it.
    pub(super) fn host_name(&self, path: &Path) -> Option<PathBuf> {
        let region = self.outer(path);
        match &region.owner {
            Owner::Read(source) | Owner::Write(source) => Some(below(source, path.strip_prefix(&region.at).ok()?)),
            _ => None,
        }
    }

    fn look(&self, path: &Path) -> Look {
        let region = self.region(path);
        if region.at.as_os_str() == path.as_os_str() {
            return if region.is_dir { Look::Directory } else { Look::File };
        }
        match &region.owner {
            Owner::Ours => self.made.get(path).cloned().unwrap_or(Look::Absent),
            Owner::Foreign { .. } => Look::Unknown,
            _ => self.host_name(path).map_or(Look::Unknown, |host| self.host.look(&host)),
        }
    }

    /// Follow the links on the way, and the last one too if that is wanted.
    pub(super) fn find(&self, path: &Path, last: bool) -> Option<Found> {
        let mut found = Found { path: "/".into(), look: Look::Directory, lost: false, links: Vec::new() };
        let mut rest = parts(path);
        while let Some(part) = rest.pop() {
            if part == ".." {
                found.path.pop();
                found.look = Look::Directory;
                continue;
            }
            let next = found.path.join(&part);
            found.lost |= matches!(found.look, Look::Absent | Look::File);
            match self.look(&next) {
                Look::Link(target) if last || !rest.is_empty() => {
                    found.links.push(next);
                    if found.links.len() > MAX_LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        found.path = "/".into();
                    }
                    found.look = Look::Directory;
                    rest.extend(parts(&target));
                }
                look => {
                    found.path = next;
                    found.look = look;
                }
            }
        }
        Some(found)
    }

    /// Something of ours lies there now.
    pub(super) fn make(&mut self, path: &Path, look: Look) {
        for dir in path.ancestors().skip(1) {
            self.made.entry(dir.to_owned()).or_insert(Look::Directory);
        }
        self.made.insert(path.to_owned(), look);
    }

    /// Something is mounted there now: what was at or below it is covered.
    pub(super) fn mount(&mut self, region: Region) {
        let (at, ours) = (region.at.clone(), self.outer(&region.at).owner == Owner::Ours);
        self.regions.retain(|region| !lies_in(&region.at, &at));
        self.made.retain(|path, _| !lies_in(path, &at));
        self.denied.retain(|denied| !lies_in(&denied.inside, &at));
        if ours {
            self.make(&at, if region.is_dir { Look::Directory } else { Look::File });
        }
        self.regions.push(region);
    }

    /// Deny a name, if it lies in something writable of the host.
    pub(super) fn deny(&mut self, path: &Path, option: &str, guards: bool) {
        if !matches!(self.outer(path).owner, Owner::Write(_)) || path.parent().is_none() {
            return;
        }
        if let Some(host) = self.host_name(path) {
            self.denied.push(Denied { inside: path.to_owned(), host, option: option.to_owned(), guards });
        }
    }
}

/// Is one path at or below the other? Both must be absolute, and have neither a dot nor a slash too many: letter by letter is
/// many times faster than part by part, and is asked a thousand times in a launch.
fn lies_in(path: &Path, dir: &Path) -> bool {
    let rest = path.as_os_str().as_encoded_bytes().strip_prefix(dir.as_os_str().as_encoded_bytes());
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')) || dir.parent().is_none())
}

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    let mut parts: Vec<OsString> = parts.map(|part| part.as_os_str().to_owned()).collect();
    parts.reverse();
    parts
}

/// A path joined without a slash at its end.
pub(super) fn below(dir: &Path, rest: &Path) -> PathBuf {
    if rest == Path::new("") { dir.to_owned() } else { dir.join(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_in_those_above_it() {
        for (path, dir) in [("/", "/"), ("/a", "/"), ("/a", "/a"), ("/a/b", "/a"), ("/a/b/c", "/a/b")] {
            assert!(lies_in(Path::new(path), Path::new(dir)), "{path} in {dir}");
        }
        for (path, dir) in [("/", "/a"), ("/ab", "/a"), ("/a", "/ab"), ("/a", "/a/b"), ("/b/a", "/a")] {
            assert!(!lies_in(Path::new(path), Path::new(dir)), "{path} in {dir}");
        }
    }
}

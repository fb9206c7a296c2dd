//! What is there: turns the rules' paths into places on this host. Reads only; what [`trial`] does ends with a process of
//! its own, or with the session that it is given.
#![forbid(unsafe_code)]

pub mod features;
mod finder;
mod group;
pub mod host;
mod overlay;
mod permits;
mod second_ways;
pub mod trial;
mod worktree;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use finder::Finder;

use crate::plan::{Anchor, Caller, Child, Extent, Facts, Kind, Link, Place, State};
use crate::policy::{Access, Limit, Origin, Policy, Rules, Target};
use crate::sys::fs::{self, FileType, OFlags, Stat};
use crate::sys::{self, process, terminal};

pub use crate::sys::{Errno, Error as TrialError};
pub use permits::{Wanted, permits};
pub use worktree::{git_lacks, linked, opens_what_git_lacks};

/// As many links on one way as the kernel follows (`path_resolution(7)`).
const MAX_LINKS: usize = 40;
/// At most this many directories below guarded ones get a mount of their own; the rest is served by the broker.
const MAX_CHILDREN: usize = 256;

/// Something that must be known about the host could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}")]
    Read { path: &'static str, source: std::io::Error },
    #[error("{path} is not as the kernel writes it: {line:?}")]
    Map { path: &'static str, line: String },
}

/// Everything that a plan for this policy needs to know about the host.
///
/// # Errors
/// When the caller's user mappings cannot be read: without `/proc` nothing here works.
pub fn facts(policy: &Policy) -> Result<Facts, Error> {
    let mut names = policy.rules.clone();
    let places = places(policy, &mut names);
    second_ways::add(&mut names).map_err(|source| Error::Read { path: "/proc/self/mountinfo", source })?;
    let caller = caller()?;
    let anchors = anchors(&names, &places, &caller);
    let children = guarded_children(&names, &places);
    let overlays = overlay::look(policy, &names, &places)?;
    Ok(Facts {
        caller,
        anchors,
        places,
        names,
        folding: children.keys().filter(|dir| folds_case(dir)).cloned().collect(),
        children,
        mounts: overlays.mounts,
        split: overlays.split,
        terminal: terminal_device(),
        ssh_config: ssh_config(),
        pwd_is_cwd: pwd_is_cwd(policy),
        bare_repository: worktree::bare_repository(&policy.context.project),
        can_guard: can_guard(),
        memory_group: policy.limits.get(Limit::Memory).and_then(|_| group::with_memory()),
    })
}

/// Who calls, by effective ids.
///
/// # Errors
/// When `/proc/self/uid_map` cannot be read.
pub fn caller() -> Result<Caller, Error> {
    let (uid, gid) = process::user();
    Ok(Caller {
        uid,
        gid,
        can_map: process::can_map_users(),
        uids: extents("/proc/self/uid_map")?,
        gids: extents("/proc/self/gid_map")?,
    })
}

fn extents(path: &'static str) -> Result<Vec<Extent>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path, source })?;
    let extent = |line: &str| {
        let mut fields = line.split_whitespace().map(str::parse);
        match (fields.next(), fields.next(), fields.next()) {
            (Some(Ok(first)), Some(_), Some(Ok(count))) => Ok(Extent { first, count }),
            _ => Err(Error::Map { path, line: line.to_owned() }),
        }
    };
    text.lines().map(extent).collect()
}

fn places(policy: &Policy, names: &mut Rules) -> Vec<Option<Place>> {
    let mut places = Vec::with_capacity(policy.rules.all().len());
    let mut finder = Finder::default();
    for (index, rule) in policy.rules.all().iter().enumerate() {
        let Target::Path(path) = &rule.target else {
            places.push(None);
            continue;
        };
        let mut found = finder.place(path);
        if rule.access == Access::Write && rule.origin == Origin::BuiltIn && could_be_planted(policy, &found) {
            found = unfollowed(path);
        }
        add_names(names, index, rule.access, &found);
        places.push(Some(found));
    }
    places
}

/// Could an earlier run have made one of the links on the way? The rules are asked as they were written: a `write` rule
/// also makes its own last name writable.
fn could_be_planted(policy: &Policy, place: &Place) -> bool {
    place.links.iter().any(|link| policy.rules.judge(&link.at).access == Access::Write)
}

/// A built-in rule is not worth refusing every later run for (one command could do that to all others): it holds for its
/// name alone, whatever link lies there.
fn unfollowed(path: &Path) -> Place {
    direct(path, fs::lstat(path).map_or_else(|error| missing(error.errno()), |stat| present(&stat)))
}

/// Let a rule hold where its path leads. `read` and `hide` hold for each name on the way too, so that no link of the way
/// can be replaced; a `write` or `overlay` rule does not make the link itself writable.
fn add_names(names: &mut Rules, index: usize, access: Access, place: &Place) {
    if place.links.is_empty() {
        return;
    }
    if matches!(access, Access::Read | Access::Hide) {
        for link in &place.links {
            names.add_name(index, link.name.clone());
        }
        names.add_name(index, place.real.clone());
    } else {
        names.move_name(index, &place.real);
    }
}

/// What a path is on this host.
#[must_use]
pub fn place(path: &Path) -> Place {
    Finder::default().place(path)
}

/// Where a path leads that may hold `.` and `..`, step by step.
#[must_use]
pub fn follow(path: &Path) -> Place {
    walk(path)
}

/// The host's mount (`STATX_MNT_ID`) that a path lies on, or what is there of it.
#[must_use]
pub fn mount_of(path: &Path) -> Option<u64> {
    path.ancestors().find_map(|path| fs::lstat(path).ok()).map(|stat| stat.mount)
}

/// Where the ways to private directories end.
fn anchors(names: &Rules, places: &[Option<Place>], caller: &Caller) -> BTreeMap<usize, Anchor> {
    let mut anchors = BTreeMap::new();
    for (index, (rule, place)) in names.all().iter().zip(places).enumerate() {
        if let (Access::Private, Some(place)) = (rule.access, place)
            && let Some(anchor) = anchor(&place.real, place.state, caller)
        {
            anchors.insert(index, anchor);
        }
    }
    anchors
}

fn anchor(path: &Path, state: State, caller: &Caller) -> Option<Anchor> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    let mut deepest = None;
    for dir in above {
        let Ok(stat) = fs::lstat(dir) else { break };
        if !stat.is_dir() {
            break;
        }
        if !may_enter(&stat, caller) {
            return Some(Anchor { path: dir.to_owned(), readable: false });
        }
        deepest = Some(dir);
    }
    if matches!(state, State::Present { kind: Kind::Directory, .. }) {
        return None;
    }
    let path = deepest?.to_owned();
    let readable = fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY).is_ok();
    Some(Anchor { path, readable })
}

/// May a command without capabilities enter the directory? Root that probes may enter every one. An ordinary caller is
/// asked in the kernel's own words by the next step down.
fn may_enter(stat: &Stat, caller: &Caller) -> bool {
    if !caller.can_map {
        return true;
    }
    permits::mode_for(stat, caller) & 1 != 0
}

fn direct(path: &Path, state: State) -> Place {
    Place { real: path.to_owned(), state, links: Vec::new() }
}

fn present(stat: &Stat) -> State {
    let kind = if stat.is_dir() { Kind::Directory } else { Kind::File };
    State::Present { kind, file: stat.file, nlink: stat.nlink, uid: stat.uid }
}

fn missing(errno: Errno) -> State {
    match errno {
        Errno::NOENT | Errno::NOTDIR => State::Absent,
        errno => State::Unknown(errno),
    }
}

/// Follow a path component by component and remember the links.
fn walk(path: &Path) -> Place {
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    let mut rest: Vec<_> = components(path);
    let mut state = State::Unknown(Errno::LOOP);
    while let Some(name) = rest.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        match fs::lstat(&real) {
            Ok(stat) if stat.is_link() => {
                let Ok(target) = fs::readlink_at(fs::CWD, &real) else { break };
                let at = real.clone();
                if links.len() >= MAX_LINKS {
                    return Place { real, state: State::Unknown(Errno::LOOP), links };
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                } else {
                    real.pop();
                }
                let name = rest.iter().rev().fold(at.clone(), |path, part| path.join(part));
                rest.extend(components(&target));
                links.push(Link { at, target, name });
                state = State::Unknown(Errno::LOOP);
            }
            Ok(stat) => state = present(&stat),
            Err(error) => {
                real.extend(rest.into_iter().rev());
                return Place { real, state: missing(error.errno()), links };
            }
        }
    }
    if matches!(state, State::Unknown(Errno::LOOP)) {
        state = fs::lstat(&real).map_or_else(|error| missing(error.errno()), |stat| present(&stat));
    }
    Place { real, state, links }
}

/// The components of a path, last one first, without `/` and `.`.
fn components(path: &Path) -> Vec<std::ffi::OsString> {
    let mut parts: Vec<_> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}

/// The directories in every guarded directory, as far down as directories are guarded.
fn guarded_children(names: &Rules, places: &[Option<Place>]) -> BTreeMap<PathBuf, Vec<Child>> {
    let mut children = BTreeMap::new();
    for (rule, place) in names.all().iter().zip(places) {
        if let (Access::Write, Some(place)) = (rule.access, place)
            && matches!(place.state, State::Present { kind: Kind::Directory, .. })
        {
            list_guarded(names, &place.real, &mut children);
        }
    }
    children
}

fn list_guarded(names: &Rules, dir: &Path, children: &mut BTreeMap<PathBuf, Vec<Child>>) {
    if children.contains_key(dir) || names.is_free(dir) || names.judge(dir).access != Access::Write {
        return;
    }
    let found = directories(dir);
    let paths: Vec<_> = found.iter().map(|child| dir.join(&child.name)).collect();
    children.insert(dir.to_owned(), found);
    for path in paths {
        // Only where a stricter name lies below: a directory that merely a pattern keeps from being free is served by the
        // broker, and walking the whole tree for it is what makes others slow.
        if names.judge(&path).above_stricter {
            list_guarded(names, &path, children);
        }
    }
}

/// By its flag, or because its own name in other letters leads to it too (vfat, CIFS, 9p of a Windows host).
fn folds_case(dir: &Path) -> bool {
    let by_flag = fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY).is_ok_and(|dir| fs::folds_case(&dir));
    by_flag || swapped(dir).is_some_and(|other| is_same(dir, &other))
}

/// The path with the case of the letters of its last name exchanged; `None` if that has none.
fn swapped(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    let other: String = name.chars().map(swap).collect();
    (other != name).then(|| path.with_file_name(other))
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::lstat(a), fs::lstat(b)) {
        (Ok(a), Ok(b)) => a.file == b.file,
        _ => false,
    }
}

fn directories(dir: &Path) -> Vec<Child> {
    let listed =
        fs::openat2(fs::CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY, fs::Mode::empty(), fs::ResolveFlags::NO_SYMLINKS)
            .and_then(fs::entries);
    // A directory that cannot be listed only loses an optimisation: the broker serves what lies in it.
    let mut found: Vec<_> = listed
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| match entry.file_type {
            FileType::Directory => true,
            FileType::Unknown => fs::lstat(&dir.join(&entry.name)).is_ok_and(|stat| stat.is_dir()),
            _ => false,
        })
        .map(|entry| Child { name: entry.name })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.truncate(MAX_CHILDREN);
    found
}

/// Can names be guarded here: does the kernel let a supervisor answer system calls?
#[must_use]
pub fn can_guard() -> bool {
    sys::seccomp::can_notify()
}

fn pwd_is_cwd(policy: &Policy) -> bool {
    let pwd = policy.context.env.get(OsStr::new("PWD")).map(Path::new);
    pwd.is_some_and(|pwd| pwd.is_absolute() && place(pwd).real == policy.context.cwd)
}

fn terminal_device() -> Option<PathBuf> {
    use std::io::{stderr, stdin, stdout};
    terminal::name(stdin()).or_else(|| terminal::name(stdout())).or_else(|| terminal::name(stderr()))
}

/// ssh refuses included configuration that neither root nor the caller owns, and root is nobody where one user is mapped.
fn ssh_config() -> Vec<PathBuf> {
    let dir = Path::new("/etc/ssh/ssh_config.d");
    let Ok(entries) = sys::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY).and_then(fs::entries) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.into_iter().map(|entry| dir.join(entry.name)).collect();
    files.retain(|path| path.extension() == Some(OsStr::new("conf")));
    files.sort();
    files
}

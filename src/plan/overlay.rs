//! Overlays: which directories can be one, and which only in parts.
//!
//! An overlay shows one mount. The mounts of the host are locked in the run's namespaces, and of a directory with locked
//! mounts below it the kernel makes no layer (`clone_private_mount`: who may not unmount must not see what is covered).
//! Such a directory stays read-only and each directory in it becomes an overlay of its own. So does one that holds the
//! state directory, where the layers on disk are, if it is on an overlay itself: the kernel refuses a layer that lies in
//! another one (`ELOOP`), and the way around that needs a level of its own.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::build::built_in;
use super::error::Problem;
use super::mounts::{Builder, Item};
use super::regions::Region;
use super::{Error, Kind, Op, Request, State};
use crate::policy::{Access, Backing, Policy, Scope};

/// Something mounted on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub path: PathBuf,
    /// The type of its file system.
    pub kind: String,
}

/// Where an overlay keeps what is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Upper {
    /// In memory that only the run holds; with the limit of its own, if it has one.
    Memory { size: Option<u64> },
    /// In the run's directory on disk.
    Disk,
    /// On disk, for the session's next runs too.
    Session,
    /// On disk, under this name, until somebody discards it.
    Kept { name: String },
}

impl fmt::Display for Upper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { size: None } => f.write_str("writes go to memory"),
            Self::Memory { size: Some(size) } => write!(f, "writes go to memory, at most {size} bytes"),
            Self::Disk => f.write_str("writes go to a layer on disk that ends with the run"),
            Self::Session => f.write_str("writes go to a layer on disk that the session's next runs see"),
            Self::Kept { name } => write!(f, "writes are kept as {name}"),
        }
    }
}

/// What the policy says of all overlays.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlaying {
    pub(super) redirect: bool,
    keep: Option<String>,
    scope: Scope,
    /// Where layers on disk are.
    state: PathBuf,
}

impl Overlaying {
    pub(super) fn of(policy: &Policy, request: &Request) -> Self {
        let (redirect, scope, state) = (policy.redirect.value, policy.overlay.scope, policy.context.state.clone());
        Self { redirect, keep: request.keep.clone(), scope, state }
    }
}

/// File systems that hold no files of anybody's, or whose own rules of names forbid a layer (`ovl_mount_dir_check`).
const NO_LOWER: &[&str] = &[
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup",
    "cgroup2",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "pstore",
    "configfs",
    "fusectl",
    "mqueue",
    "hugetlbfs",
    "autofs",
    "binfmt_misc",
    "efivarfs",
    "selinuxfs",
    "nsfs",
    "vfat",
    "msdos",
    "exfat",
    "ntfs3",
];

impl<'a> Builder<'a> {
    pub(super) fn overlay(&mut self, item: &Item<'a>) -> Result<(), Error> {
        match item.kind {
            Some(Kind::Directory) => {}
            Some(Kind::File) => return Err(Error::of(item.rule, Problem::OverlayFile)),
            None if item.rule.optional || built_in(item.rule) => return Ok(()),
            None => return Err(Error::of(item.rule, Problem::Absent)),
        }
        let upper = self.upper(item);
        if self.around(item.path) == Region::Overlay && self.is_same(item.path, &upper) {
            return Ok(());
        }
        self.note_foreign(item);
        let required = item.rule.access == Access::Overlay;
        if !self.lay(item.path, item.index, &upper, required) {
            return Err(Error::of(item.rule, Problem::NoLower(self.kind_of_mount(item.path).to_owned())));
        }
        Ok(())
    }

    fn upper(&self, item: &Item<'a>) -> Upper {
        let scope = item.rule.scope.unwrap_or(self.overlaying.scope);
        match (&self.overlaying.keep, scope, item.rule.backing) {
            (Some(name), ..) => Upper::Kept { name: name.clone() },
            (None, Scope::Session, _) => Upper::Session,
            (None, Scope::Run, Backing::Disk) => Upper::Disk,
            (None, Scope::Run, Backing::Memory) => Upper::Memory { size: item.rule.size },
        }
    }

    /// Is the overlay around this path already what is asked for?
    fn is_same(&self, path: &Path, upper: &Upper) -> bool {
        let around = self.ops.iter().filter_map(|op| match op {
            Op::Overlay { path: at, upper, .. } if path.starts_with(at) => Some((at, upper)),
            _ => None,
        });
        around.max_by_key(|(at, _)| at.components().count()).is_some_and(|(_, around)| around == upper)
    }

    /// Make a directory an overlay, or the directories in it; false if nothing of it can be one.
    fn lay(&mut self, path: &Path, rule: usize, upper: &Upper, required: bool) -> bool {
        if path == Path::new("/dev") || NO_LOWER.contains(&self.kind_of_mount(path)) {
            return false;
        }
        let Some(reason) = self.why_not_whole(path, upper) else {
            if self.around(path).is_ours() {
                self.ops.push(Op::Stub { path: path.to_owned(), kind: Kind::Directory });
            }
            let upper = upper.clone();
            self.ops.push(Op::Overlay { path: path.to_owned(), rule, upper, required });
            self.regions.insert(path, Region::Overlay);
            return true;
        };
        if path != Path::new("/") {
            let path = path.display();
            self.notes.push(format!("{path} {reason}: the directories in it are overlays, it itself is read-only"));
        }
        self.split(path, rule, upper)
    }

    fn split(&mut self, path: &Path, rule: usize, upper: &Upper) -> bool {
        let facts = self.facts;
        let mut some = false;
        for child in facts.split.get(path).into_iter().flatten() {
            let child = path.join(&child.name);
            let covered = matches!(self.named.get(&*child), Some(Access::Hide | Access::Private | Access::Overlay));
            // A mount of ours covers it, or makes an overlay of it in its turn.
            some |= !covered && self.lay(&child, rule, upper, false);
        }
        some
    }

    fn why_not_whole(&self, path: &Path, upper: &Upper) -> Option<&'static str> {
        if self.facts.mounts.iter().any(|mount| mount.path != path && mount.path.starts_with(path)) {
            return Some("has mounts below it");
        }
        let on_disk = !matches!(upper, Upper::Memory { .. });
        let holds_layers = on_disk && self.overlaying.state.starts_with(path);
        // One more overlay in between hides that from the kernel, but there may be no third one.
        (holds_layers && self.kind_of_mount(path) == "overlay").then_some("holds the layers on disk")
    }

    /// The type of the file system that a path lies on.
    fn kind_of_mount(&self, path: &Path) -> &str {
        let above = self.facts.mounts.iter().filter(|mount| path.starts_with(&mount.path));
        // Of several mounts at one place the last one is to be seen.
        above.max_by_key(|mount| mount.path.components().count()).map_or("", |mount| &mount.kind)
    }

    /// In a layer the owner stays who it is.
    fn note_foreign(&mut self, item: &Item<'a>) {
        let caller = &self.facts.caller;
        let owner = match self.facts.places.get(item.index) {
            Some(Some(place)) => place.state,
            _ => return,
        };
        if let State::Present { uid, .. } = owner
            && uid != caller.uid
            && item.path != Path::new("/")
        {
            self.notes.push(format!(
                "{} ({}) belongs to user {uid}: an overlay lets nobody write what its owner and mode forbid",
                item.path.display(),
                item.rule.origin
            ));
        }
    }

    /// What is named below an overlay reaches the host under no name, so a read-only view of what is there is enough.
    pub(super) fn read_in_overlay(&mut self, item: &Item<'a>) {
        if !built_in(item.rule) {
            self.notes.push(format!(
                "{} ({}) lies in an overlay: {}",
                item.path.display(),
                item.rule.origin,
                match item.kind {
                    Some(_) => "what the host has there is shown read-only",
                    None => "it does not exist, and if the command makes it, only in the overlay",
                }
            ));
        }
        if item.kind.is_some() {
            self.regions.insert(item.path, Region::Host);
        }
    }
}

//! What runs and private directories use at this moment.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::sys::{self, fs, host};
use fs::{FileType, OFlags};

/// How deep directories are counted: every level holds a descriptor.
const DEPTH: u32 = 200;

/// How the directories of overlays begin in a file system in memory that holds nothing else. A process of the run keeps
/// its root open; from outside it is told by these names.
pub const IN_MEMORY: &str = "overlay-";

/// The first inode of each tmpfs (Linux 5.9; before, what overlays hold is not told).
const TMPFS_ROOT: u64 = 1;

/// What a process and everything that it started use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub processes: usize,
    /// Processor time, that of ended children included.
    pub cpu: Duration,
    /// Bytes of memory that are resident; what processes share counts in each.
    pub memory: u64,
}

/// All processes that can be seen, at one moment.
#[derive(Debug, Default)]
pub struct Processes {
    children: BTreeMap<u32, Vec<u32>>,
    usage: BTreeMap<u32, Usage>,
}

impl Processes {
    /// Read `/proc`.
    #[must_use]
    pub fn now() -> Self {
        let mut all = Self::default();
        let names = fs::open(Path::new("/proc"), OFlags::RDONLY | OFlags::DIRECTORY).and_then(fs::entries);
        for pid in names.unwrap_or_default().iter().filter_map(|entry| entry.name.to_str()?.parse::<u32>().ok()) {
            // It may have ended since.
            if let Ok(Some(process)) = host::process(pid) {
                all.children.entry(process.parent).or_default().push(pid);
                let usage = Usage { processes: 1, cpu: process.cpu, memory: process.memory };
                all.usage.insert(pid, usage);
            }
        }
        all
    }

    /// What the descendants of a process use, and the process itself.
    #[must_use]
    pub fn below(&self, pid: u32) -> Usage {
        let mut sum = self.usage.get(&pid).copied().unwrap_or_default();
        for child in self.children.get(&pid).into_iter().flatten().filter(|child| **child != pid) {
            let used = self.below(*child);
            sum.processes += used.processes;
            sum.cpu += used.cpu;
            sum.memory += used.memory;
        }
        sum
    }

    /// Bytes in the overlays in memory of the run that a process supervises, as far as its children can be looked into
    /// (`PTRACE_MODE_READ_FSCREDS`, proc(5)).
    #[must_use]
    pub fn overlays_below(&self, supervisor: u32) -> u64 {
        let children = self.children.get(&supervisor).into_iter().flatten();
        children.flat_map(|child| held_by(*child)).filter_map(|dir| memory_of_overlays(&dir)).sum()
    }
}

/// The directories that a process has open.
fn held_by(pid: u32) -> Vec<OwnedFd> {
    let path = format!("/proc/{pid}/fd");
    let held = fs::open(Path::new(&path), OFlags::RDONLY | OFlags::DIRECTORY).and_then(fs::entries);
    let open = |entry: &fs::Entry| fs::open(&Path::new(&path).join(&entry.name), OFlags::PATH | OFlags::DIRECTORY).ok();
    held.unwrap_or_default().iter().filter_map(open).collect()
}

/// Bytes in the file system of a directory, if that holds overlays of a run and nothing else.
fn memory_of_overlays(dir: &OwnedFd) -> Option<u64> {
    let dir = fs::open_beneath(dir, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let entries = fs::entries(&dir).ok()?;
    let ours = |entry: &fs::Entry| entry.name.as_encoded_bytes().starts_with(IN_MEMORY.as_bytes());
    // What is in a directory of the project's, which is held too, is the command's: it is no root of a file system.
    let is_root = fs::fstat(&dir).is_ok_and(|stat| stat.file.ino == TMPFS_ROOT) && fs::is_tmpfs(&dir);
    let space = fs::space(&dir).ok().filter(|_| is_root && !entries.is_empty() && entries.iter().all(ours))?;
    Some(space.total.saturating_sub(space.available))
}

/// Bytes on disk in a tree. Links are not followed, other mounts not counted, nor what cannot be opened; what has several
/// names counts once for each.
#[must_use]
pub fn bytes_in(path: &Path) -> u64 {
    let dir = fs::openat2(
        fs::CWD,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY,
        fs::Mode::empty(),
        fs::ResolveFlags::NO_SYMLINKS,
    );
    dir.map_or(0, |dir| bytes(&dir, DEPTH))
}

fn bytes(dir: &OwnedFd, depth: u32) -> u64 {
    let entries = fs::entries(dir).unwrap_or_default();
    entries.iter().map(|entry| entry_bytes(dir, Path::new(&entry.name), entry.file_type, depth).unwrap_or(0)).sum()
}

fn entry_bytes(dir: &OwnedFd, name: &Path, kind: FileType, depth: u32) -> sys::Result<u64> {
    let stat = fs::lstat_at(dir.as_fd(), name)?;
    let own = stat.allocated;
    if depth == 0 || !(kind == FileType::Directory || stat.is_dir()) {
        return Ok(own);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_SYMLINKS | fs::ResolveFlags::NO_XDEV;
    let below = fs::openat2(dir, name, flags, fs::Mode::empty(), resolve);
    Ok(own + below.map_or(0, |below| bytes(&below, depth - 1)))
}

//! A control group of the run's own, for its limit on memory (`cgroups(7)`, version 2).
//!
//! It is in the kernel, not on a disk. Who makes one holds a lock on its directory; one that nobody holds is left from a run
//! that was killed, and the next run that needs one removes it. The kernel removes none that a process is in.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::{Failure, Step};
use crate::sys::lock::{self, Lock};
use crate::sys::{Errno, fs, host};

const PREFIX: &str = "stockade-";
/// As often another run may take a group for left between its making and its locking.
const TRIES: usize = 100;

/// The group of one run.
pub(super) struct Group {
    path: PathBuf,
    /// Held for its lock.
    _dir: OwnedFd,
    procs: File,
}

impl Group {
    /// A new group below `parent` whose processes may have so many bytes together.
    pub(super) fn new(parent: &Path, bytes: u64) -> Result<Self, Failure> {
        sweep(parent);
        for _ in 0..TRIES {
            let name = host::random_name().map_err(|error| Failure::of(Step::Fork, &error))?;
            let path = parent.join(format!("{PREFIX}{name}"));
            std::fs::create_dir(&path).map_err(failed(&path))?;
            if let Some(dir) = locked(&path)? {
                std::fs::write(path.join("memory.max"), bytes.to_string()).map_err(failed(&path))?;
                // What is swapped out counts as memory too, so there is none. The file is missing where there is no swap.
                let _ = std::fs::write(path.join("memory.swap.max"), "0");
                let procs = File::options().write(true).open(path.join("cgroup.procs")).map_err(failed(&path))?;
                return Ok(Self { path, _dir: dir, procs });
            }
        }
        Err(Failure::because(Step::Fork, "other runs remove each control group that is made").about(parent.display()))
    }

    /// Put this process, and what it will start, into the group.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        (&self.procs).write_all(b"0").map_err(failed(&self.path))
    }

    /// Nobody is in it any more. Remove it; was something killed for want of memory?
    pub(super) fn end(self) -> bool {
        let events = std::fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        // What cannot be removed yet is removed by a later run.
        let _ = std::fs::remove_dir(&self.path);
        killed(&events)
    }
}

fn killed(events: &str) -> bool {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.is_some_and(|count| count.trim() != "0")
}

/// The directory with a lock that says it is in use; `None`: somebody removed it before.
fn locked(path: &Path) -> Result<Option<OwnedFd>, Failure> {
    let at = |error| Failure::of(Step::Fork, &error);
    let dir = match fs::open(path, fs::OFlags::RDONLY | fs::OFlags::DIRECTORY) {
        Err(error) if error.is(Errno::NOENT) => return Ok(None),
        opened => opened.map_err(at)?,
    };
    let is_locked = lock::try_lock(&dir, Lock::Shared).map_err(at)?;
    let is_there = fs::lstat(path).is_ok_and(|now| fs::fstat(&dir).is_ok_and(|dir| dir.file == now.file));
    Ok((is_locked && is_there).then_some(dir))
}

/// Remove what killed runs left.
fn sweep(parent: &Path) {
    let entries =
        fs::open(parent, fs::OFlags::RDONLY | fs::OFlags::DIRECTORY).and_then(fs::entries).unwrap_or_default();
    for entry in entries.into_iter().filter(|entry| entry.name.as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let path = parent.join(&entry.name);
        let dir = fs::open(&path, fs::OFlags::RDONLY | fs::OFlags::DIRECTORY);
        if dir.is_ok_and(|dir| lock::try_lock(&dir, Lock::Exclusive).is_ok_and(|locked| locked)) {
            // `EBUSY`: its processes are about to end.
            let _ = std::fs::remove_dir(path);
        }
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::because(Step::Fork, error.to_string()).about(format!("the control group {}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn events_tell_of_kills() {
        assert!(super::killed("low 0\nmax 12\noom 1\noom_kill 1\n"));
        assert!(!super::killed("low 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 3\n") && !super::killed(""));
    }
}

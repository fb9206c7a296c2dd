//! The layers that runs of one session leave to its next runs, for one directory.
//!
//! ```text
//! <session>/overlay/<key>/lock                exclusive for who lists or changes the layers
//!                        /<number>/lease      shared by every run that has the layer as a lower one
//!                                 /tree/      the layer; the highest number is on top
//!                                 /merged     it is part of a higher one: deleted when no run uses it any more
//!                        /.new-<random>       half made
//! ```
//!
//! Every run has an upper layer of its own, which becomes the top of the stack when the run has ended: concurrent runs
//! never share one. Of two that changed one file the one that ended last wins.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::at;
use super::kept::open_lease;
use super::merge::merge;
use super::{Error, Result, layer};
use crate::sys::lock::{self, Lock};
use crate::sys::{fs as sys_fs, host};

/// So many layers are merged into one. Well below what the kernel takes by one page of options.
const MERGE_AT: usize = 12;
/// How long somebody may merge before we give up.
const PATIENCE: Duration = Duration::from_secs(60);
const NEW: &str = ".new-";
const MERGED: &str = "merged";

/// The layers of a session over one directory.
#[derive(Debug)]
pub struct Stack {
    dir: PathBuf,
}

impl Stack {
    /// The stack over `path` of the session whose directory is `session`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(session: &Path, path: &Path) -> Result<Self> {
        let dir = session.join("overlay").join(key(path));
        fs::create_dir_all(&dir).map_err(at("make", &dir))?;
        Ok(Self { dir })
    }

    /// The layers that a run that begins now sees, the newest first. They stay as long as the locks are held.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lower(&self) -> Result<(Vec<PathBuf>, Vec<OwnedFd>)> {
        let _lock = self.lock()?;
        let (mut lower, mut leases) = (Vec::new(), Vec::new());
        for number in self.numbers()?.into_iter().rev() {
            let dir = self.dir.join(number_name(number));
            let lease = open_lease(&dir, false)?;
            // Only who deletes takes it exclusively, and that under the lock that we hold.
            lock::try_lock(&lease, Lock::Shared).map_err(at("lock", &dir))?;
            leases.push(lease);
            lower.push(self.tree(number));
        }
        Ok((lower, leases))
    }

    /// Put the upper layer of a run that has ended on top. Gives directories that nothing uses any more, each with its
    /// lock, for the caller to delete.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn push(&self, upper: &Path) -> Result<Vec<(PathBuf, OwnedFd)>> {
        let _lock = self.lock()?;
        if !layer::names(upper)?.is_empty() {
            self.add(|tree| fs::rename(upper, tree).map_err(at("take over", upper)))?;
        }
        let numbers = self.numbers()?;
        if numbers.len() >= MERGE_AT {
            self.merge(self.to_merge(&numbers)?)?;
        }
        self.unused()
    }

    /// All, or all but the lowest where that is much larger than the others together: what a session installed once is not
    /// to be linked anew for every dozen of its runs.
    fn to_merge<'a>(&self, numbers: &'a [u64]) -> Result<&'a [u64]> {
        let Some((lowest, others)) = numbers.split_first() else { return Ok(numbers) };
        let mut count = 0;
        for &number in others {
            count += layer::count(&self.tree(number), usize::MAX)?;
        }
        let is_large = layer::count(&self.tree(*lowest), count * 2)? >= count * 2;
        Ok(if is_large { others } else { numbers })
    }

    fn tree(&self, number: u64) -> PathBuf {
        self.dir.join(number_name(number)).join("tree")
    }

    fn merge(&self, numbers: &[u64]) -> Result<()> {
        let trees: Vec<PathBuf> = numbers.iter().rev().map(|&number| self.tree(number)).collect();
        // On top of what it was made of, so that nothing is missing whenever we are interrupted.
        self.add(|tree| merge(&trees, tree))?;
        for &number in numbers {
            // It stays where it is: a run may have its path and not have opened it yet.
            let mark = self.dir.join(number_name(number)).join(MERGED);
            fs::write(&mark, "").map_err(at("write", &mark))?;
        }
        Ok(())
    }

    /// A new top layer, whose tree `fill` makes.
    fn add(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let new = self.dir.join(random(NEW, &self.dir)?);
        fs::create_dir(&new).map_err(at("make", &new))?;
        open_lease(&new, true)?;
        fill(&new.join("tree"))?;
        let place = self.dir.join(number_name(self.all_numbers()?.last().map_or(1, |last| last + 1)));
        fs::rename(&new, &place).map_err(at("make", &place))
    }

    /// What was merged, or left half made, and that no run uses. It gets a name that is no layer's while we have the lock.
    fn unused(&self) -> Result<Vec<(PathBuf, OwnedFd)>> {
        let mut unused = Vec::new();
        for name in layer::names(&self.dir)? {
            let dir = self.dir.join(&name);
            let is_half_made = name.as_bytes().starts_with(NEW.as_bytes());
            if !is_half_made && !dir.join(MERGED).exists() {
                continue;
            }
            // One without a lock was never used; one that is gone is being deleted by somebody else.
            let Ok(lease) = open_lease(&dir, false).or_else(|_| open_lease(&dir, true)) else { continue };
            if !lock::try_lock(&lease, Lock::Exclusive).map_err(at("lock", &dir))? {
                continue;
            }
            let away = self.dir.join(random(NEW, &self.dir)?);
            match fs::rename(&dir, &away) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                renamed => {
                    renamed.map_err(at("set aside", &dir))?;
                    unused.push((away, lease));
                }
            }
        }
        Ok(unused)
    }

    /// The layers, the oldest first.
    fn numbers(&self) -> Result<Vec<u64>> {
        let mut numbers = self.all_numbers()?;
        numbers.retain(|&number| !self.dir.join(number_name(number)).join(MERGED).exists());
        Ok(numbers)
    }

    /// Those that are part of higher ones too.
    fn all_numbers(&self) -> Result<Vec<u64>> {
        let names = layer::names(&self.dir)?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn lock(&self) -> Result<OwnedFd> {
        let path = self.dir.join("lock");
        let open = || sys_fs::open(&path, sys_fs::OFlags::RDWR);
        let lock = match open() {
            Err(error) if error.is(crate::sys::Errno::NOENT) => {
                sys_fs::create_at(sys_fs::CWD, &path, 0o600).or_else(|_| open())
            }
            opened => opened,
        };
        let lock = lock.map_err(at("open", &path))?;
        let begin = Instant::now();
        while !lock::try_lock(&lock, Lock::Exclusive).map_err(at("lock", &path))? {
            if begin.elapsed() > PATIENCE {
                return Err(Error::Locked(path));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(lock)
    }
}

fn number_name(number: u64) -> String {
    format!("{number:08}")
}

fn random(prefix: &str, dir: &Path) -> Result<String> {
    host::random_name().map(|name| format!("{prefix}{name}")).map_err(at("name", dir))
}

/// A path as one name: readable, and where it is too long for a name, its beginning and a hash of all of it.
fn key(path: &Path) -> OsString {
    let text = path.as_os_str().as_bytes();
    // Writing to a string cannot fail.
    let mut name = String::new();
    for &byte in text {
        match byte {
            b'/' => name.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(byte.into()),
            other => {
                let _ = write!(name, "%{other:02x}");
            }
        }
    }
    if name.len() > 200 {
        let hash = text
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        name.truncate(180);
        let _ = write!(name, "~{hash:016x}");
    }
    name.into()
}

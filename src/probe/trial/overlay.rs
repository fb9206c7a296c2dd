//! Overlays as a user namespace may make them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use super::namespaces::Trial;
use super::{Tried, errno, in_child, number};
use crate::sys::fs::{self, OFlags};
use crate::sys::mount::{self, NODEV, NOSUID};
use crate::sys::{Errno, Result};

/// Make an overlay whose upper layer lies in `dir`. What it left there is the caller's to remove.
///
/// # Errors
/// When no process can be made.
pub fn overlay_on_disk(dir: &Path) -> Result<std::result::Result<(), Errno>> {
    let answer = in_child(|| {
        let mut trial = Trial::default();
        if trial.enter().is_none() {
            return trial.last().as_ref().and_then(Tried::refused).map(Errno::raw_os_error);
        }
        let made = fs::open(dir, OFlags::PATH | OFlags::DIRECTORY).and_then(|dir| over_lower(&dir));
        made.err().as_ref().map(number)
    })?;
    Ok(match answer {
        Some(None) => Ok(()),
        Some(Some(number)) => Err(errno(number)),
        None => Err(Errno::CHILD),
    })
}

/// A directory that is to be found everywhere, and below which nothing is mounted: the kernel makes no layer of one that
/// holds locked mounts.
pub const LOWER: &str = "/usr";

/// An overlay over [`LOWER`], with its layers in `base`.
pub(super) fn over_lower(base: &OwnedFd) -> Result<()> {
    let layer = |name| {
        fs::mkdir_at(base, Path::new(name), 0o700)?;
        fs::open_beneath(base, Path::new(name), OFlags::PATH | OFlags::DIRECTORY)
    };
    let (lower, upper, work) = (fs::open_place(Path::new(LOWER))?, layer("upper")?, layer("work")?);
    let [lower, upper, work] = [lower, upper, work].map(|fd| (format!("/proc/self/fd/{}", fd.as_raw_fd()), fd));
    let options = [("lowerdir", lower.0.as_str()), ("upperdir", &upper.0), ("workdir", &work.0), ("userxattr", "")];
    mount::new_filesystem("overlay", &options, NOSUID | NODEV).map(drop)
}

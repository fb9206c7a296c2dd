//! Overlays of the host's directories, in bubblewrap's three kinds.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use super::mounts::Builder;
use super::{Done, failed};
use crate::plan::ordered::{Place, Source, Upper};
use crate::sys::mount::{self, NODEV, NOSUID};
use crate::sys::{self, fs};

/// The overlay, and whether what is made in it stays away from the host.
pub(super) fn make(builder: &mut Builder<'_>, lower: &[Source], upper: &Upper, to: &Place) -> Done<(OwnedFd, bool)> {
    let text = format!("Can't make overlay mount on /newroot{}", to.written.display());
    // The kernel wants the topmost first.
    let lower = lower.iter().rev().map(Builder::open).collect::<Done<Vec<_>>>()?;
    let layers = match upper {
        Upper::Nothing => None,
        Upper::Memory => Some(in_memory(builder).map_err(failed(&text))?),
        Upper::Host { upper, work } => Some((Builder::open(upper)?, Builder::open(work)?)),
    };
    let lower = lower.iter().map(by_descriptor).collect::<Vec<_>>().join(":");
    let layers = layers.as_ref().map(|(upper, work)| (by_descriptor(upper), by_descriptor(work)));
    let mut options = vec![("lowerdir", lower.as_str()), ("userxattr", "")];
    if let Some((upper, work)) = &layers {
        options.extend([("upperdir", upper.as_str()), ("workdir", work.as_str())]);
    }
    let tree = mount::new_filesystem("overlay", &options, NOSUID | NODEV).map_err(failed(&text))?;
    Ok((tree, *upper == Upper::Memory))
}

/// Upper layer and work directory where nobody sees them.
fn in_memory(builder: &mut Builder<'_>) -> sys::Result<(OwnedFd, OwnedFd)> {
    let mut make = || {
        let name = builder.name();
        fs::mkdir_at(&builder.base, &name, 0o755)?;
        fs::open_beneath(&builder.base, &name, fs::OFlags::PATH)
    };
    Ok((make()?, make()?))
}

/// A path could be exchanged, and its commas and colons would have to be escaped.
fn by_descriptor(fd: &OwnedFd) -> String {
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string()).display().to_string()
}

//! The library of the fast path (`preload/lib.rs`), as a file in the `/dev` of the run.
//!
//! There it needs nothing on the host's disk, ends with the run, and cannot be written: that file system becomes read-only.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::mounts::attaching;
use super::{Failure, Step};
use crate::plan::PRELOAD;
use crate::sys::fs;

#[cfg(preload)]
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// There is none for this processor, and no plan asks for it.
#[cfg(not(preload))]
const LIBRARY: &[u8] = &[];

/// Put it at [`PRELOAD`], below a `/dev` that is not sealed yet.
pub(super) fn put(dev: &OwnedFd) -> Result<(), Failure> {
    let path = Path::new(PRELOAD).strip_prefix("/dev").unwrap_or(Path::new(PRELOAD));
    let made = path.parent().map_or(Ok(()), |dir| fs::mkdir_at(dev, dir, 0o755));
    let file = made.and_then(|()| fs::create_at(dev, path, 0o444)).map_err(attaching(Path::new(PRELOAD)))?;
    std::fs::File::from(file)
        .write_all(LIBRARY)
        .map_err(|error| Failure::because(Step::Attach, error.to_string()).about(PRELOAD))
}

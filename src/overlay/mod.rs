//! Layers on disk: where they lie, what changed in them, how that is taken over.
//!
//! A layer is a directory as the kernel writes it (`Documentation/filesystems/overlayfs.rst`, with `userxattr`): a
//! character device 0:0 says that a name of the layers below is gone, the attribute `user.overlay.opaque` that nothing of
//! theirs is to be seen in a directory.
#![forbid(unsafe_code)]

mod apply;
mod change;
mod error;
mod kept;
mod layer;
mod merge;
mod stack;
#[cfg(test)]
mod tests;

pub use crate::sys::layer::Meta;
pub use apply::{Applied, apply};
pub use change::{Change, Conflict, What, text};
pub use error::Error;
pub use kept::{Found, Kept};
pub use stack::Stack;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The layers on disk of one overlay.
#[derive(Debug)]
pub struct Layers {
    /// The directory that the overlay shows.
    pub path: PathBuf,
    /// Holds `upper` and `work`.
    pub dir: PathBuf,
    /// Read-only layers between the host's directory and the upper one, the newest first.
    pub lower: Vec<PathBuf>,
    /// Locks that must be held until no process of the run is left.
    pub leases: Vec<OwnedFd>,
}

/// What every function here gives.
pub type Result<T> = std::result::Result<T, Error>;

/// A directory for the upper layer number `number` of a run, below the run's own directory.
///
/// # Errors
/// What the kernel says.
pub fn fresh(run: &Path, number: usize) -> Result<PathBuf> {
    let dir = run.join("overlay").join(number.to_string());
    std::fs::create_dir_all(&dir).map_err(error::at("make", &dir))?;
    Ok(dir)
}

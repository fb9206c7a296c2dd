//! Layers on disk: where they lie, what changed in them, how that is taken over.
#![forbid(unsafe_code)]

use std::path::PathBuf;

/// The layers on disk of one overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// The directory that the overlay shows.
    pub path: PathBuf,
    /// Holds `upper` and `work`.
    pub dir: PathBuf,
    /// Read-only layers between the host's directory and the upper one, the newest first.
    pub lower: Vec<PathBuf>,
}

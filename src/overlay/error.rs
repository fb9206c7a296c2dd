//! Why something about layers could not be done.

use std::io;
use std::path::{Path, PathBuf};

/// Something that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{0:?} cannot be the name of a kept overlay: letters, digits, `-`, `_` and `.`, a letter or digit first")]
    Name(String),
    #[error("something is kept as {0} already")]
    Taken(String),
    #[error("nothing is kept as {0}")]
    Missing(String),
    #[error("a run still writes to {0}")]
    Busy(String),
    #[error("the record of {name} cannot be read: {reason}")]
    Record { name: String, reason: String },
    #[error("{} was changed while the changes were being applied", .0.display())]
    Raced(PathBuf),
    #[error("another run has held the lock of {} for too long", .0.display())]
    Locked(PathBuf),
}

impl Error {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Taken(name) => Some(format!("see `stockade overlay diff {name}`, or take another name")),
            Self::Missing(_) => Some("`stockade overlay list` shows what is kept".into()),
            Self::Raced(_) => Some("everything before it is applied; look at the difference again".into()),
            Self::Record { name, .. } => Some(format!("`stockade overlay discard {name}` removes it")),
            _ => None,
        }
    }
}

/// Say what was being done to what.
pub(super) fn at<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source: source.into() }
}

//! What each part of the tree is, by the longest path that is known. Compared byte by byte: paths here are normalised, and
//! `Path` would take every comparison apart into components.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a part of the tree is once the operations above are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// The host's tree, read-only.
    Host,
    /// The host's tree, writable or guarded.
    Writable,
    /// The host's tree, what is written goes elsewhere.
    Overlay,
    /// A directory of the session's own.
    Private,
    /// A tmpfs that holds only what is named.
    Frame,
    /// Nothing to be seen.
    Hidden,
}

impl Region {
    /// Is a mount point there ours to make?
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Private | Self::Frame)
    }
}

/// The regions of the whole tree.
pub(super) struct Regions(HashMap<OsString, Region>);

impl Regions {
    pub(super) fn new(known: [(&str, Region); 2]) -> Self {
        Self(known.map(|(path, region)| (path.into(), region)).into())
    }

    pub(super) fn insert(&mut self, path: &Path, region: Region) {
        self.0.insert(path.as_os_str().to_owned(), region);
    }

    /// The region that begins at this very path.
    pub(super) fn at(&self, path: &Path) -> Option<Region> {
        self.0.get(path.as_os_str()).copied()
    }

    /// The region that things in the directory `path` lie in.
    pub(super) fn within(&self, path: &Path) -> Region {
        with_ancestors(path).find_map(|dir| self.0.get(dir)).copied().unwrap_or(Region::Host)
    }
}

/// An absolute, normalised path and all directories above it, deepest first.
pub(super) fn with_ancestors(path: &Path) -> impl Iterator<Item = &OsStr> {
    std::iter::successors(Some(path.as_os_str()), |path| {
        let bytes = path.as_bytes();
        match bytes.iter().rposition(|&byte| byte == b'/')? {
            0 if bytes.len() == 1 => None,
            0 => Some(OsStr::new("/")),
            end => Some(OsStr::from_bytes(&bytes[..end])),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_end_with_the_root() {
        let all: Vec<_> = with_ancestors(Path::new("/a/b")).collect();
        assert_eq!(all, ["/a/b", "/a", "/"]);
        assert_eq!(with_ancestors(Path::new("/")).collect::<Vec<_>>(), ["/"]);
    }
}

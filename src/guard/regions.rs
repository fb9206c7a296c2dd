//! Which parts of a sandbox's tree are served, told by paths instead of mounts.
//!
//! bubblewrap's clients make a second user and mount namespace inside, in which every mount has another id. There a grant
//! follows the directory itself: the caller's path says which region it lies in, the host's directory of that region is
//! opened, and device and inode of both must be the same. A path that an inner namespace made up leads to another file.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The parts of a tree, each at its path inside.
#[derive(Debug, Clone, Default)]
pub struct Regions(Vec<(PathBuf, Option<PathBuf>)>);

impl Regions {
    /// `parts` are (inside, host); without a host directory nothing is served there.
    #[must_use]
    pub fn new(mut parts: Vec<(PathBuf, Option<PathBuf>)>) -> Self {
        // The deepest first: it is the first that holds a path.
        parts.sort_by_key(|(inside, _)| std::cmp::Reverse(inside.components().count()));
        Self(parts)
    }

    /// Where the host has what a path inside names; `None` where nothing is served.
    #[must_use]
    pub fn host(&self, path: &Path) -> Option<PathBuf> {
        let (inside, host) = self.0.iter().find(|(inside, _)| path.starts_with(inside))?;
        let rest = path.strip_prefix(inside).ok()?;
        let host = host.as_ref()?;
        Some(if rest == Path::new("") { host.clone() } else { host.join(rest) })
    }

    /// Is it where a region begins? In the region above its name stands for a mount point.
    #[must_use]
    pub fn begins_at(&self, path: &Path) -> bool {
        self.0.iter().any(|(inside, _)| inside == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_region_holds() {
        let part = |inside: &str, host: Option<&str>| (PathBuf::from(inside), host.map(PathBuf::from));
        let regions = Regions::new(vec![part("/", None), part("/w", Some("/h/w")), part("/w/tmp", None)]);
        let host = |path: &str| regions.host(Path::new(path));
        assert_eq!(host("/w"), Some("/h/w".into()));
        assert_eq!(host("/w/a/b"), Some("/h/w/a/b".into()));
        assert_eq!((host("/w/tmp/x"), host("/etc"), host("/wx")), (None, None, None));
        assert!(regions.begins_at(Path::new("/w/tmp")) && !regions.begins_at(Path::new("/w/a")));
    }
}

//! What overlays need to know: mounts, and what lies in directories that cannot be overlays as a whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Error, directories};
use crate::plan::{Child, Mount, Place};
use crate::policy::{Access, Policy, Rules};
use crate::sys::mountinfo;

#[derive(Default)]
pub(super) struct Found {
    pub(super) mounts: Vec<Mount>,
    pub(super) split: BTreeMap<PathBuf, Vec<Child>>,
}

/// Nothing is read where nothing is an overlay.
pub(super) fn look(policy: &Policy, names: &Rules, places: &[Option<Place>]) -> Result<Found, Error> {
    let rules = names.all().iter().zip(places);
    let overlays = rules.filter(|(rule, _)| rule.access == Access::Overlay);
    let mut roots: Vec<PathBuf> = overlays.filter_map(|(_, place)| Some(place.as_ref()?.real.clone())).collect();
    if policy.redirect.value {
        roots.push("/".into());
    }
    if roots.is_empty() {
        return Ok(Found::default());
    }
    let mut found = Found { mounts: mounts()?, split: BTreeMap::new() };
    for root in roots {
        found.list(&root, &policy.context.state);
    }
    Ok(found)
}

impl Found {
    /// List a directory that a mount or the state directory lies in, and the directories on the way there.
    fn list(&mut self, dir: &Path, state: &Path) {
        let below = |path: &Path| path != dir && path.starts_with(dir);
        if self.split.contains_key(dir) || !(self.mounts.iter().any(|mount| below(&mount.path)) || below(state)) {
            return;
        }
        let children = directories(dir);
        let paths: Vec<_> = children.iter().map(|child| dir.join(&child.name)).collect();
        self.split.insert(dir.to_owned(), children);
        for path in paths.iter().filter(|path| !is_special(path)) {
            self.list(path, state);
        }
    }
}

/// Never an overlay, whatever is mounted there.
fn is_special(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|special| path == Path::new(special))
}

fn mounts() -> Result<Vec<Mount>, Error> {
    let found = mountinfo::read().map_err(|source| Error::Read { path: "/proc/self/mountinfo", source })?;
    Ok(found.into_iter().map(|entry| Mount { path: entry.point, kind: entry.kind }).collect())
}

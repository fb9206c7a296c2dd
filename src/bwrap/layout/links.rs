//! Links that lead to denied names. Clients follow a link before they deny where it leads, and say nothing of the link:
//! without it, something else could be put in the place that was meant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::bwrap::host::Host;
use crate::bwrap::tree::{Denied, Tree};
use crate::bwrap::{Failure, reason};

/// Deny every link that leads to, above or below a denied name, and lies in a directory above one.
pub(super) fn deny(tree: &mut Tree<'_>, host: &dyn Host) -> Result<(), Failure> {
    let denied: Vec<Denied> = tree.denied.iter().filter(|denied| denied.guards).cloned().collect();
    let directories: BTreeSet<_> = denied.iter().flat_map(|denied| directories_above(tree, denied)).collect();
    for (inside, on_host) in directories {
        let failed = |error| Failure::new(format!("Can't look for links in {}: {}", on_host.display(), reason(&error)));
        for name in host.links(&on_host).map_err(failed)? {
            let Some(found) = tree.find(&inside.join(name), true) else { continue };
            if let Some(denied) = denied.iter().find(|denied| is_way_to(&found.path, &inside, &denied.inside)) {
                for link in &found.links {
                    tree.deny(link, &denied.option, true);
                }
            }
        }
    }
    Ok(())
}

/// The directories above a denied name up to the place that is bound writable: inside, and on the host.
fn directories_above(tree: &Tree<'_>, denied: &Denied) -> Vec<(PathBuf, PathBuf)> {
    let bound = &tree.outer(&denied.inside).at;
    let pairs = denied.inside.ancestors().zip(denied.host.ancestors()).skip(1);
    pairs.take_while(|(inside, _)| inside.starts_with(bound)).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// Does a link in `dir`, which leads to `target`, have to do with a denied name? One that leads to a directory that it lies in
/// itself, as to the root, has not.
fn is_way_to(target: &Path, dir: &Path, denied: &Path) -> bool {
    target.starts_with(denied) || (denied.starts_with(target) && !dir.starts_with(target))
}

//! Room, and file systems that are not like a local disk.

use std::collections::BTreeSet;
use std::path::Path;

use super::check::Check;
use super::place::{Place, STATE};
use crate::probe::{host, trial};

const ROOM: &str = "asked the file systems of the state directory, the project and the home directory for free space";
const KINDS: &str = "file systems";
const KIND: &str = "looked up which file systems these are";
/// Less is soon used up by what a session keeps in its /tmp.
const BYTES: u64 = 1 << 30;
/// Fewer are used up by one `npm install`.
const FILES: u64 = 10_000;

/// Where others can change files without this kernel knowing.
const SHARED: [&str; 12] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "lustre", "glusterfs", "fuse.sshfs", "drvfs", "virtiofs"];

pub(super) fn check(place: &Place) -> Vec<Check> {
    let name = "room";
    let (mut seen, mut checks) = (BTreeSet::new(), Vec::new());
    for (what, path) in place.paths() {
        // A state directory that could not be made has been told; what is missing elsewhere is nobody's disk.
        let Ok((space, device)) = trial::space(&path) else { continue };
        if !seen.insert(device) {
            continue;
        }
        let free = space.available >> 20;
        if space.available < BYTES {
            let cause = format!("{what} {} has {free} MiB left: runs fail when it is full", path.display());
            checks.push(Check::warning(name, ROOM, cause).cured_by(cure(what)));
        } else if space.files > 0 && space.files_available < FILES {
            let cause = format!("{what} {} has room for {} more files", path.display(), space.files_available);
            checks.push(Check::warning(name, ROOM, cause).cured_by(cure(what)));
        } else {
            checks.push(Check::ok(name, ROOM, format!("{what} {} has {} GiB left", path.display(), free >> 10)));
        }
    }
    checks
}

fn cure(what: &str) -> String {
    match what {
        STATE => "stockade gc, stockade ps (which session holds how much), or STOCKADE_STATE on another disk",
        _ => "free some",
    }
    .into()
}

pub(super) fn file_systems(place: &Place) -> Vec<Check> {
    let found: Vec<_> =
        place.paths().into_iter().filter_map(|(what, path)| Some((what, host::filesystem(&path)?, path))).collect();
    let odd: Vec<Check> = found.iter().filter_map(|(what, kind, path)| odd(what, kind, path)).collect();
    if !odd.is_empty() || found.is_empty() {
        return odd;
    }
    let kinds: BTreeSet<&str> = found.iter().map(|(_, kind, _)| kind.as_str()).collect();
    vec![Check::ok(KINDS, KIND, kinds.into_iter().collect::<Vec<_>>().join(", "))]
}

/// What is to be said of a file system that is not like a local disk.
fn odd(what: &str, kind: &str, path: &Path) -> Option<Check> {
    let so = if SHARED.contains(&kind) {
        "what others change there is not noticed, so a hidden name that they replace is seen"
    } else if kind.starts_with("fuse") {
        "who did not mount it may not see it (without allow_other), and layers of overlays cannot lie there"
    } else {
        return None;
    };
    let cure = match what {
        STATE => "set STOCKADE_STATE to a directory on a local disk",
        _ => "hide whole directories there, whose own names do not change; `a run here` says whether it can be used",
    };
    let cause = format!("{what} {} is on {kind}: {so}", path.display());
    Some(Check::warning(KINDS, KIND, cause).cured_by(cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_and_fuse_are_odd_and_a_disk_is_not() {
        let cure = |what: &str, kind: &str| odd(what, kind, Path::new("/x")).and_then(|check| check.cure);
        assert!(cure(STATE, "nfs4").is_some_and(|cure| cure.contains("STOCKADE_STATE")));
        assert!(cure("the home directory", "fuse.sshfs").is_some());
        assert!(cure("the home directory", "fuseblk").is_some());
        assert_eq!(cure(STATE, "ext4"), None);
    }
}

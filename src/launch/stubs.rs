//! Places to attach things to: mount points and links below file systems of ours, never on the host.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::mounts::{Done, attaching};
use super::{Failure, Step};
use crate::plan::Kind;
use crate::sys::Errno;
use crate::sys::fs::{self, OFlags};

/// A path as seen from the root's descriptor.
pub(super) fn relative(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(rest) if rest != Path::new("") => rest,
        _ => Path::new("."),
    }
}

/// The existing place that something is attached to.
pub(super) fn target(root: &OwnedFd, path: &Path) -> Done<OwnedFd> {
    fs::open_beneath(root, relative(path), OFlags::PATH).map_err(attaching(path))
}

/// A mount point below a file system of ours, with the directories above it. What is there already must be of its kind.
pub(super) fn stub(root: &OwnedFd, path: &Path, kind: Kind) -> Done<()> {
    let (dir, name) = parent(root, path)?;
    let made = match kind {
        Kind::Directory => fs::mkdir_at(&dir, name, 0o700),
        Kind::File => fs::create_at(&dir, name, 0o600).map(drop),
    };
    match made {
        Err(error) if error.is(Errno::EXIST) => check_kind(&dir, path, name, kind),
        made => made.map_err(attaching(path)),
    }
}

fn check_kind(dir: &OwnedFd, path: &Path, name: &Path, kind: Kind) -> Done<()> {
    let stat = fs::lstat_at(dir, name).map_err(attaching(path))?;
    let fits = match kind {
        Kind::Directory => stat.is_dir(),
        Kind::File => !stat.is_dir() && !stat.is_link(),
    };
    if fits { Ok(()) } else { Err(taken(path)) }
}

fn taken(path: &Path) -> Failure {
    Failure::because(Step::Attach, "the session's private directory holds something else at this name")
        .about(path.display())
        .hinting("remove it in the session, or end the session")
}

/// The (made) parent directory of a path and its last component.
fn parent<'a>(root: &OwnedFd, path: &'a Path) -> Done<(OwnedFd, &'a Path)> {
    let relative = relative(path);
    let name = relative.file_name().map_or(relative, Path::new);
    let mut dir = fs::open_beneath(root, Path::new("."), OFlags::PATH).map_err(attaching(path))?;
    for part in relative.parent().into_iter().flat_map(Path::components) {
        let part: &Path = part.as_ref();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let opened = match fs::open_beneath(&dir, part, flags) {
            Err(error) if error.is(Errno::NOENT) => {
                fs::mkdir_at(&dir, part, 0o700)
                    .or_else(|error| if error.is(Errno::EXIST) { Ok(()) } else { Err(error) })
                    .map_err(attaching(path))?;
                fs::open_beneath(&dir, part, flags)
            }
            opened => opened,
        };
        dir = match opened {
            Err(error) if error.is(Errno::LOOP) || error.is(Errno::NOTDIR) => return Err(taken(path)),
            opened => opened.map_err(attaching(path))?,
        };
    }
    Ok((dir, name))
}

pub(super) fn link(root: &OwnedFd, path: &Path, target: &Path) -> Done<()> {
    let (dir, name) = parent(root, path)?;
    match fs::symlink_at(target, &dir, name) {
        Err(error) if error.is(Errno::EXIST) => match fs::readlink_at(&dir, name) {
            Ok(there) if there == target => Ok(()),
            _ => Err(taken(path)),
        },
        made => made.map_err(attaching(path)),
    }
}

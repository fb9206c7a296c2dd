//! Several layers become one, which shows the same. Files are linked, not copied: nothing writes to a layer any more.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Result;
use super::error::at;
use super::layer::{self, There, Unlocked, look};
use crate::sys::fs::CWD;
use crate::sys::layer as sys_layer;
use crate::sys::{self, attr};

/// Merge the layers `from`, the newest first, into the new directory `to`.
pub(super) fn merge(from: &[PathBuf], to: &Path) -> Result<()> {
    let mut parts = Vec::new();
    for path in from {
        parts.extend(look(path)?.map(|there| (path.clone(), there)));
    }
    directory(&parts, to, false)
}

/// A directory of several layers, the newest first; `opaque`: nothing of the layers below these is to be seen in it.
fn directory(parts: &[(PathBuf, There)], to: &Path, opaque: bool) -> Result<()> {
    let Some((first, newest)) = parts.first() else { return Ok(()) };
    let _unlocked: Vec<_> = parts.iter().map(|(path, there)| Unlocked::new(path, &there.meta)).collect();
    fs::create_dir(to).map_err(at("make", to))?;
    for name in names(parts)? {
        entry(parts, &name, &to.join(&name))?;
    }
    let made = look(to)?.ok_or_else(|| super::Error::Raced(to.to_owned()))?;
    dress(&made, newest, opaque).map_err(at("set the attributes of", first))
}

fn names(parts: &[(PathBuf, There)]) -> Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for (path, _) in parts {
        names.extend(layer::names(path)?);
    }
    Ok(names)
}

fn entry(parts: &[(PathBuf, There)], name: &OsString, to: &Path) -> Result<()> {
    let mut found: Vec<(PathBuf, There)> = Vec::new();
    let mut opaque = false;
    for (dir, _) in parts {
        let path = dir.join(name);
        let Some(there) = look(&path)? else { continue };
        if !there.meta.is_dir() {
            if found.is_empty() {
                return take(&path, &there, to);
            }
            // A directory over something else shows nothing of what is below that.
            opaque = true;
            break;
        }
        opaque = layer::is_opaque(&there);
        found.push((path, there));
        if opaque {
            break;
        }
    }
    directory(&found, to, opaque)
}

fn take(path: &Path, there: &There, to: &Path) -> Result<()> {
    if there.meta.is_whiteout() {
        return sys_layer::whiteout(CWD, to).map_err(at("make", to));
    }
    sys_layer::hard_link(CWD, path, CWD, to).map_err(at("link", path))
}

fn dress(made: &There, like: &There, opaque: bool) -> sys::Result<()> {
    let mut xattrs = sys_layer::xattrs(&like.fd)?;
    xattrs.retain(|(name, _)| {
        let name = name.to_bytes();
        name.starts_with(b"user.") && name != b"user.overlay.opaque" || name.starts_with(b"system.posix_acl_")
    });
    for (name, value) in &xattrs {
        sys_layer::set_xattr(&made.fd, name, value)?;
    }
    if opaque {
        sys_layer::set_xattr(&made.fd, &c"user.overlay.opaque".to_owned(), b"y")?;
    }
    if (made.meta.uid, made.meta.gid) != (like.meta.uid, like.meta.gid) {
        attr::chown(&made.fd, like.meta.uid, like.meta.gid)?;
    }
    attr::chmod(&made.fd, like.meta.mode & 0o7777)?;
    let (seconds, nanos) = like.meta.modified;
    let time = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
    attr::set_time_of_place(&made.fd, time)
}

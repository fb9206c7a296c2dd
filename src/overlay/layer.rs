//! Reading a layer. Nothing writes to it any more, and no sandbox can reach it.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Result;
use super::error::at;
use crate::sys::fs::CWD;
use crate::sys::layer::{self, Meta};

const OPAQUE: &std::ffi::CStr = c"user.overlay.opaque";
const ORIGIN: &std::ffi::CStr = c"user.overlay.origin";

/// Something that is there.
pub(super) struct There {
    pub(super) fd: OwnedFd,
    pub(super) meta: Meta,
}

/// What lies at a path; no link is followed.
pub(super) fn look(path: &Path) -> Result<Option<There>> {
    let Some(fd) = layer::look(CWD, path).map_err(at("look at", path))? else { return Ok(None) };
    let meta = layer::meta(&fd).map_err(at("look at", path))?;
    Ok(Some(There { fd, meta }))
}

/// The names in a directory, sorted.
pub(super) fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(dir).map_err(at("read", dir))?;
    let names: std::io::Result<Vec<OsString>> = entries.map(|entry| Ok(entry?.file_name())).collect();
    let mut names = names.map_err(at("read", dir))?;
    names.sort();
    Ok(names)
}

/// How many entries a tree has, up to about `limit`.
pub(super) fn count(dir: &Path, limit: usize) -> Result<usize> {
    let Some(there) = look(dir)?.filter(|there| there.meta.is_dir()) else { return Ok(0) };
    let _unlocked = Unlocked::new(dir, &there.meta);
    let mut found = 0;
    for entry in fs::read_dir(dir).map_err(at("read", dir))? {
        let entry = entry.map_err(at("read", dir))?;
        found += 1;
        if found < limit && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found += count(&entry.path(), limit - found)?;
        }
        if found >= limit {
            break;
        }
    }
    Ok(found)
}

/// Does the directory hide what the layers below have in it?
pub(super) fn is_opaque(dir: &There) -> bool {
    attribute(dir, OPAQUE).is_some_and(|value| value == b"y")
}

/// Was it copied up from a layer below? In a user namespace the kernel notes that, but not from what.
pub(super) fn has_origin(there: &There) -> bool {
    attribute(there, ORIGIN).is_some()
}

fn attribute(there: &There, name: &std::ffi::CStr) -> Option<Vec<u8>> {
    layer::xattr(&there.fd, &name.to_owned()).ok().flatten()
}

/// The extended attributes that are the file's own: not those of overlays, and nothing that only root may give.
pub(super) fn xattrs(there: &There) -> Vec<(CString, Vec<u8>)> {
    let mut all = layer::xattrs(&there.fd).unwrap_or_default();
    all.retain(|(name, _)| {
        let name = name.to_bytes();
        name.starts_with(b"system.posix_acl_") || name.starts_with(b"user.") && !name.starts_with(b"user.overlay.")
    });
    all
}

/// A file or directory of ours whose mode forbids us to read it, made readable for a while.
pub(super) struct Unlocked(Option<(PathBuf, u32)>);

impl Unlocked {
    pub(super) fn new(path: &Path, meta: &Meta) -> Self {
        let wanted = if meta.is_dir() { 0o700 } else { 0o400 };
        let set = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        if meta.mode & wanted == wanted || set(meta.mode & 0o7777 | wanted).is_err() {
            return Self(None);
        }
        Self(Some((path.to_owned(), meta.mode & 0o7777)))
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        if let Some((path, mode)) = self.0.take() {
            // It was ours to open, so it is ours to close; if not, it stays readable for us, who own it.
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        }
    }
}

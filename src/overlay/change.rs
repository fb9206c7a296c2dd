//! What a layer changes in the directory that it was laid over, and where the host has changed the same meanwhile.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::at;
use super::layer::{self, There, Unlocked};
use super::{Result, layer::look};
use crate::sys::fs::FileType;
use crate::sys::layer::{Meta, Time};

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Added,
    /// Other content.
    Changed,
    /// Something of another type is there.
    Replaced,
    Removed,
    /// Other permissions, times or extended attributes.
    Attributes,
}

/// Why a change cannot be applied without losing what the host did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// Changed on the host since the run began.
    Changed(PathBuf),
    /// Removed on the host since the run began.
    Gone,
    /// A file system is mounted there.
    Mount(PathBuf),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(path) => write!(f, "{path:?} was changed on the host since the run began"),
            Self::Gone => f.write_str("it was removed on the host since the run began"),
            Self::Mount(path) => write!(f, "a file system is mounted at {path:?}"),
        }
    }
}

/// One change.
#[derive(Debug, Clone)]
pub struct Change {
    /// On the host.
    pub path: PathBuf,
    /// In the layer; for what is removed `None`.
    pub upper: Option<PathBuf>,
    pub what: What,
    /// What the host has there.
    pub old: Option<Meta>,
    pub new: Option<Meta>,
    pub conflict: Option<Conflict>,
}

/// The changes of one layer. `since` is a time of the host's file system at which the run had not begun yet; `present` are
/// paths that the host had when the run was over.
pub(super) fn changes(upper: &Path, host: &Path, since: Time, present: &BTreeSet<PathBuf>) -> Result<Vec<Change>> {
    let mut walk = Walk { since, present, found: Vec::new(), origins: Vec::new() };
    if let Some(top) = look(upper)? {
        walk.directory(upper, &top, host, true)?;
    }
    walk.tell_renamed_from_gone();
    Ok(walk.found)
}

/// The paths in a layer that the host has now.
pub(super) fn present(upper: &Path, host: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    let Some(top) = look(upper)?.filter(|top| top.meta.is_dir()) else { return Ok(()) };
    let _unlocked = Unlocked::new(upper, &top.meta);
    for name in layer::names(upper)? {
        let (upper, path) = (upper.join(&name), host.join(&name));
        // What hides a name tells by itself that there was one.
        let is_whiteout = look(&upper)?.is_none_or(|there| there.meta.is_whiteout());
        if !is_whiteout && look(&path)?.is_some() {
            present(&upper, &path, found)?;
            found.insert(path);
        }
    }
    Ok(())
}

struct Walk<'a> {
    since: Time,
    present: &'a BTreeSet<PathBuf>,
    found: Vec<Change>,
    /// What the host does not have, though it was copied from there (indices in `found`).
    origins: Vec<usize>,
}

impl Walk<'_> {
    /// Compare a directory of the layer with the host's, which may be missing or something else (`there` is false).
    fn directory(&mut self, upper: &Path, top: &There, host: &Path, there: bool) -> Result<()> {
        let _unlocked = Unlocked::new(upper, &top.meta);
        let names = layer::names(upper)?;
        for name in &names {
            self.entry(&upper.join(name), &host.join(name), there)?;
        }
        if there && layer::is_opaque(top) {
            self.opaque(host, &names.into_iter().collect())?;
        }
        Ok(())
    }

    /// Of a directory that was emptied, or made anew, what the layer does not have is gone.
    fn opaque(&mut self, host: &Path, names: &BTreeSet<OsString>) -> Result<()> {
        for name in layer::names(host)?.into_iter().filter(|name| !names.contains(name)) {
            let path = host.join(name);
            if let Some(old) = look(&path)? {
                self.removed(&path, &old)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, upper: &Path, path: &Path, there: bool) -> Result<()> {
        let Some(new) = look(upper)? else { return Ok(()) };
        let old = if there { look(path)? } else { None };
        match old {
            Some(old) if new.meta.is_whiteout() => self.removed(path, &old),
            _ if new.meta.is_whiteout() => Ok(()),
            None => self.added(upper, path, &new),
            Some(old) if old.meta.file_type() != new.meta.file_type() => self.replaced(upper, path, &old, &new),
            Some(old) => self.compared(upper, path, &old, &new),
        }
    }

    fn removed(&mut self, path: &Path, old: &There) -> Result<()> {
        let conflict = self.touched(path, old, None)?;
        self.push(path, None, What::Removed, Some(old.meta), None, conflict);
        Ok(())
    }

    fn added(&mut self, upper: &Path, path: &Path, new: &There) -> Result<()> {
        let conflict = self.present.contains(path).then_some(Conflict::Gone);
        if conflict.is_none() && layer::has_origin(new) {
            self.origins.push(self.found.len());
        }
        self.push(path, Some(upper), What::Added, None, Some(new.meta), conflict);
        if new.meta.is_dir() { self.directory(upper, new, path, false) } else { Ok(()) }
    }

    /// What was copied from the host and was not there when the run was over, the run has renamed, or the host has removed
    /// meanwhile. Something that the run removed and that is as large and as old is where it was renamed from; of the
    /// others (renamed and changed) there must be no more than names that the run removed.
    fn tell_renamed_from_gone(&mut self) {
        let removed = |change: &&Change| matches!(change.what, What::Removed | What::Replaced);
        let mut removed: Vec<Meta> = self.found.iter().filter(removed).filter_map(|change| change.old).collect();
        let mut unknown = Vec::new();
        for index in std::mem::take(&mut self.origins) {
            let Some(new) = self.found[index].new else { continue };
            let same = |old: &Meta| (old.size, old.modified) == (new.size, new.modified);
            match removed.iter().position(same) {
                Some(found) => drop(removed.swap_remove(found)),
                None => unknown.push(index),
            }
        }
        if unknown.len() > removed.len() {
            for index in unknown {
                self.found[index].conflict = Some(Conflict::Gone);
            }
        }
    }

    fn replaced(&mut self, upper: &Path, path: &Path, old: &There, new: &There) -> Result<()> {
        let conflict = self.touched(path, old, None)?;
        self.push(path, Some(upper), What::Replaced, Some(old.meta), Some(new.meta), conflict);
        if new.meta.is_dir() { self.directory(upper, new, path, false) } else { Ok(()) }
    }

    fn compared(&mut self, upper: &Path, path: &Path, old: &There, new: &There) -> Result<()> {
        if new.meta.is_dir() {
            if !same_attributes(old, new) {
                let conflict = self.directory_changed(path, &old.meta);
                self.push(path, Some(upper), What::Attributes, Some(old.meta), Some(new.meta), conflict);
            }
            return self.directory(upper, new, path, true);
        }
        let what = if !same_content(upper, path, old, new)? {
            What::Changed
        } else if !same_attributes(old, new) || old.meta.modified != new.meta.modified {
            What::Attributes
        } else {
            return Ok(());
        };
        let conflict = self.touched(path, old, None)?;
        self.push(path, Some(upper), what, Some(old.meta), Some(new.meta), conflict);
        Ok(())
    }

    fn push(
        &mut self,
        path: &Path,
        upper: Option<&Path>,
        what: What,
        old: Option<Meta>,
        new: Option<Meta>,
        conflict: Option<Conflict>,
    ) {
        let (path, upper) = (path.to_owned(), upper.map(Path::to_owned));
        self.found.push(Change { path, upper, what, old, new, conflict });
    }

    /// The time of change of a directory is that of its entries too. Where those are older it was the directory itself.
    fn directory_changed(&self, path: &Path, old: &Meta) -> Option<Conflict> {
        let itself = old.changed >= self.since && old.modified < self.since;
        itself.then(|| Conflict::Changed(path.to_owned()))
    }

    /// Has the host changed this, or anything below it, since the run began? Nobody can set the time of change, and who
    /// puts another file in the place changes that file's.
    fn touched(&self, path: &Path, there: &There, mount: Option<u64>) -> Result<Option<Conflict>> {
        if mount.is_some_and(|mount| mount != there.meta.mount) {
            return Ok(Some(Conflict::Mount(path.to_owned())));
        }
        if there.meta.changed >= self.since {
            return Ok(Some(Conflict::Changed(path.to_owned())));
        }
        if !there.meta.is_dir() {
            return Ok(None);
        }
        for name in layer::names(path)? {
            let path = path.join(name);
            if let Some(below) = look(&path)?
                && let Some(conflict) = self.touched(&path, &below, Some(there.meta.mount))?
            {
                return Ok(Some(conflict));
            }
        }
        Ok(None)
    }
}

/// The content of a regular file of at most `limit` bytes, if it is a text. No link is followed.
#[must_use]
pub fn text(path: &Path, limit: u64) -> Option<String> {
    let there = look(path).ok()??;
    if there.meta.file_type() != FileType::RegularFile || there.meta.size > limit {
        return None;
    }
    let mut text = String::new();
    crate::sys::layer::read(&there.fd).ok()?.take(limit).read_to_string(&mut text).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Bits that a set-id program has are never taken over.
pub(super) fn mode(meta: &Meta) -> u32 {
    meta.mode & if meta.is_dir() { 0o3777 } else { 0o1777 }
}

fn same_attributes(old: &There, new: &There) -> bool {
    let is_link = new.meta.file_type() == FileType::Symlink;
    (is_link || mode(&old.meta) == mode(&new.meta)) && layer::xattrs(old) == layer::xattrs(new)
}

fn same_content(upper: &Path, path: &Path, old: &There, new: &There) -> Result<bool> {
    match new.meta.file_type() {
        FileType::Symlink => {
            let target = |path: &Path| std::fs::read_link(path).map_err(at("read", path));
            Ok(target(upper)? == target(path)?)
        }
        FileType::RegularFile if old.meta.size != new.meta.size => Ok(false),
        FileType::RegularFile => {
            let _unlocked = Unlocked::new(upper, &new.meta);
            let same_time = old.meta.modified == new.meta.modified;
            let new = crate::sys::layer::read(&new.fd).map_err(at("read", upper))?;
            match crate::sys::layer::read(&old.fd) {
                // Of what its mode forbids us to read, its size and time must tell.
                Err(error) if error.is(crate::sys::Errno::ACCESS) => Ok(same_time),
                old => equal(old.map_err(at("read", path))?, new).map_err(at("read", path)),
            }
        }
        _ => Ok(true),
    }
}

fn equal(one: File, other: File) -> std::io::Result<bool> {
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let (a, b) = (fill(&mut one, &mut left)?, fill(&mut other, &mut right)?);
        if a != b || left[..a] != right[..b] {
            return Ok(false);
        }
        if a == 0 {
            return Ok(true);
        }
    }
}

fn fill(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match from.read(&mut buffer[length..])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

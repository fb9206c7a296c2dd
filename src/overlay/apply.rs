//! Does on the host what a layer says: every file is written beside its place and then renamed, so that whoever looks sees
//! the old one or the new one, also when we are killed.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::change::{Change, What, mode};
use super::error::at;
use super::layer::{self, There, Unlocked, look};
use super::{Error, Result};
use crate::sys::fs::{self as sys_fs, CWD, FileId, FileType, RenameFlags};
use crate::sys::layer::{self as sys_layer, Meta};
use crate::sys::{self, Errno, attr};

/// What was done.
#[derive(Debug, Default)]
pub struct Applied {
    pub changes: usize,
    /// What cannot be taken over: sockets.
    pub skipped: Vec<PathBuf>,
}

/// Apply changes in their order. `token` makes the names of what is half done; what an earlier, killed attempt with the
/// same token left in a directory is removed there.
///
/// # Errors
/// What the kernel says; [`Error::Raced`] when something is not as it was compared.
pub fn apply(changes: &[Change], token: &str) -> Result<Applied> {
    let temp = PathBuf::from(format!(".stockade-{token}"));
    let mut applying = Applying { temp, links: HashMap::new(), done: Applied::default() };
    for change in changes {
        applying.apply(change)?;
    }
    // Last and from the inside out: what is put into a directory changes its time, and its mode may forbid it.
    for change in changes.iter().rev() {
        applying.finish_directory(change)?;
    }
    Ok(applying.done)
}

struct Applying {
    temp: PathBuf,
    /// Where the files with more names than one were put first.
    links: HashMap<FileId, PathBuf>,
    done: Applied,
}

/// The directory on the host in which a name is changed.
struct Place<'a> {
    dir: OwnedFd,
    name: &'a Path,
    path: &'a Path,
}

impl Applying {
    fn apply(&mut self, change: &Change) -> Result<()> {
        let place = self.place(&change.path)?;
        unchanged(&place, change)?;
        match (change.what, change.new, &change.upper) {
            (What::Removed, ..) => self.remove(&place, change.old)?,
            (What::Attributes, Some(new), Some(upper)) if !new.is_dir() => attributes(&place, upper, &new)?,
            (What::Attributes, ..) => {}
            (_, Some(new), Some(upper)) => {
                if !self.make(&place, upper, &new)? {
                    self.done.skipped.push(change.path.clone());
                    return Ok(());
                }
                self.put(&place, change.old)?;
            }
            _ => {}
        }
        self.done.changes += 1;
        Ok(())
    }

    fn place<'a>(&self, path: &'a Path) -> Result<Place<'a>> {
        let (parent, name) = (path.parent().unwrap_or(path), path.file_name().map_or(path, Path::new));
        let flags = sys_fs::OFlags::PATH | sys_fs::OFlags::DIRECTORY;
        let resolve = sys_fs::ResolveFlags::NO_SYMLINKS;
        let dir = sys_fs::openat2(CWD, parent, flags, sys_fs::Mode::empty(), resolve).map_err(at("open", parent))?;
        let place = Place { dir, name, path };
        if look_in(&place, &self.temp)?.is_some() {
            self.clear(&place)?;
        }
        Ok(place)
    }

    /// Remove what lies under the temporary name.
    fn clear(&self, place: &Place<'_>) -> Result<()> {
        let Some(there) = look_in(place, &self.temp)? else { return Ok(()) };
        if there.meta.is_dir() {
            // The standard library removes by descriptor and follows no links; its way in is ours to give.
            let way = Path::new("/proc/self/fd").join(place.dir.as_raw_fd().to_string()).join(&self.temp);
            return fs::remove_dir_all(way).map_err(at("remove", place.path));
        }
        sys_fs::unlink_at(&place.dir, &self.temp).map_err(at("remove", place.path))
    }

    /// Make what is new under the temporary name; false for what cannot be made.
    fn make(&mut self, place: &Place<'_>, upper: &Path, new: &Meta) -> Result<bool> {
        let failed = at::<sys::Error>("write", place.path);
        match new.file_type() {
            FileType::Directory => sys_fs::mkdir_at(&place.dir, &self.temp, 0o700).map_err(failed)?,
            FileType::RegularFile => return self.file(place, upper, new).map(|()| true),
            FileType::Symlink => {
                let target = fs::read_link(upper).map_err(at("read", upper))?;
                sys_fs::symlink_at(&target, &place.dir, &self.temp).map_err(failed)?;
            }
            FileType::Fifo => sys_layer::fifo(&place.dir, &self.temp).map_err(failed)?,
            _ => return Ok(false),
        }
        if !new.is_dir() {
            self.dress(place, upper, new)?;
        }
        Ok(true)
    }

    fn file(&mut self, place: &Place<'_>, upper: &Path, new: &Meta) -> Result<()> {
        if new.nlink > 1 {
            if let Some(first) = self.links.get(&new.file) {
                return sys_layer::hard_link(CWD, first, &place.dir, &self.temp).map_err(at("link", place.path));
            }
            self.links.insert(new.file, place.path.to_owned());
        }
        let _unlocked = Unlocked::new(upper, new);
        let from = look(upper)?.ok_or_else(|| Error::Raced(upper.to_owned()))?;
        let from = sys_layer::read(&from.fd).map_err(at("read", upper))?;
        let to = sys_fs::create_at(&place.dir, &self.temp, 0o600).map_err(at("write", place.path))?;
        sys_layer::copy(&from, &to.into(), new.size).map_err(at("write", place.path))?;
        self.dress(place, upper, new)
    }

    /// Owner, mode, attributes and times of what lies under the temporary name.
    fn dress(&self, place: &Place<'_>, upper: &Path, new: &Meta) -> Result<()> {
        let made = look_in(place, &self.temp)?.ok_or_else(|| Error::Raced(place.path.to_owned()))?;
        dress(&made, upper, new).map_err(at("set the attributes of", place.path))
    }

    /// Put what was made into its place, and remove what was there.
    fn put(&self, place: &Place<'_>, old: Option<Meta>) -> Result<()> {
        let failed = at::<sys::Error>("put into its place", place.path);
        let new_is_dir = look_in(place, &self.temp)?.is_some_and(|new| new.meta.is_dir());
        let flags = match old {
            Some(old) if old.is_dir() || new_is_dir => RenameFlags::EXCHANGE,
            Some(_) => RenameFlags::empty(),
            None => RenameFlags::NOREPLACE,
        };
        match sys_fs::rename_at(&place.dir, &self.temp, &place.dir, place.name, flags) {
            Err(error) if error.is(Errno::EXIST) => return Err(Error::Raced(place.path.to_owned())),
            // A file system without these flags (rename(2)): nobody is known to be in the way.
            Err(error) if error.is(Errno::INVAL) && flags == RenameFlags::NOREPLACE => {
                let plain = RenameFlags::empty();
                sys_fs::rename_at(&place.dir, &self.temp, &place.dir, place.name, plain).map_err(failed)?;
            }
            renamed => renamed.map_err(failed)?,
        }
        // What was there before; or the second name of a file that already had its place (rename(2) leaves both).
        self.clear(place)
    }

    fn remove(&self, place: &Place<'_>, old: Option<Meta>) -> Result<()> {
        let failed = at::<sys::Error>("remove", place.path);
        if old.is_some_and(|old| old.is_dir()) {
            // At once for who looks, however long it takes.
            let flags = RenameFlags::empty();
            sys_fs::rename_at(&place.dir, place.name, &place.dir, &self.temp, flags).map_err(failed)?;
            return self.clear(place);
        }
        sys_fs::unlink_at(&place.dir, place.name).map_err(failed)
    }

    fn finish_directory(&self, change: &Change) -> Result<()> {
        let (Some(new), Some(upper)) = (change.new.filter(Meta::is_dir), &change.upper) else { return Ok(()) };
        let place = self.place(&change.path)?;
        attributes(&place, upper, &new)
    }
}

/// Is the place as it was when it was compared?
fn unchanged(place: &Place<'_>, change: &Change) -> Result<()> {
    let now = look_in(place, place.name)?.map(|there| there.meta);
    let same = match (now, change.old) {
        (None, None) => true,
        // What is put into a directory changes its time.
        (Some(now), Some(old)) if now.is_dir() && old.is_dir() => now.file == old.file,
        // Not the time of change: of two names of one file the removal of the first changes it.
        (Some(now), Some(old)) => {
            let state = |meta: &Meta| (meta.file, meta.mode, meta.size, meta.modified);
            state(&now) == state(&old)
        }
        _ => false,
    };
    if same { Ok(()) } else { Err(Error::Raced(place.path.to_owned())) }
}

fn look_in(place: &Place<'_>, name: &Path) -> Result<Option<There>> {
    let failed = || at::<sys::Error>("look at", place.path);
    let Some(fd) = sys_layer::look(place.dir.as_fd(), name).map_err(failed())? else { return Ok(None) };
    let meta = sys_layer::meta(&fd).map_err(failed())?;
    Ok(Some(There { fd, meta }))
}

fn attributes(place: &Place<'_>, upper: &Path, new: &Meta) -> Result<()> {
    let there = look_in(place, place.name)?.ok_or_else(|| Error::Raced(place.path.to_owned()))?;
    dress(&there, upper, new).map_err(at("set the attributes of", place.path))
}

fn dress(there: &There, upper: &Path, new: &Meta) -> sys::Result<()> {
    if (there.meta.uid, there.meta.gid) != (new.uid, new.gid) {
        // Only root may give files away; the person who applies then is the owner, as of everything else he writes.
        let _ = attr::chown(&there.fd, new.uid, new.gid);
    }
    if let Ok(Some(from)) = look(upper) {
        for (name, value) in layer::xattrs(&from) {
            sys_layer::set_xattr(&there.fd, &name, &value)?;
        }
    }
    if new.file_type() != FileType::Symlink {
        attr::chmod(&there.fd, mode(new))?;
    }
    attr::set_time_of_place(&there.fd, time(new))
}

fn time(meta: &Meta) -> SystemTime {
    let (seconds, nanos) = meta.modified;
    SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos)
}

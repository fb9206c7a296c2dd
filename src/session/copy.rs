//! Copy files into a session's private directories and out of them.
//!
//! What a session holds was put there by its commands, and a part of the host may have been too (a project). So no link is
//! followed on either side: each step opens one name below an open directory, a link is copied as a link, what is no file,
//! directory or link is left out.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::store::Store;
use super::{Error, Id, Result};
use crate::sys::{self, Errno, fs};
use fs::{FileType, OFlags, ResolveFlags};

/// How deep a tree is copied: every level holds descriptors.
const DEPTH: u32 = 200;

/// A name in an open directory.
struct Place {
    dir: OwnedFd,
    name: PathBuf,
    /// As it is told.
    path: PathBuf,
}

impl Store {
    /// Copy what the session has at `inside` to `to` on the host, into it if that is a directory. Gives what was left out.
    ///
    /// # Errors
    /// [`Error::NotPrivate`], [`Error::ThroughLink`], and what the kernel says.
    pub fn copy_out(&self, id: &Id, inside: &Path, to: &Path) -> Result<Vec<PathBuf>> {
        let from = self.in_session(id, inside)?;
        let to = into(on_host(to)?, &from.path)?;
        copy(&from, &to, DEPTH)
    }

    /// Copy `from` on the host to `inside` in the session, into it if that is a directory. Gives what was left out.
    ///
    /// # Errors
    /// As [`Store::copy_out`].
    pub fn copy_in(&self, id: &Id, from: &Path, inside: &Path) -> Result<Vec<PathBuf>> {
        let from = on_host(from)?;
        let to = into(self.in_session(id, inside)?, &from.path)?;
        copy(&from, &to, DEPTH)
    }

    fn in_session(&self, id: &Id, inside: &Path) -> Result<Place> {
        let (private, rest) = self.private_at(id, inside)?;
        let whole = if rest.as_os_str().is_empty() { private.clone() } else { private.join(rest) };
        let (parent, name) = split(&whole)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let dir = fs::open_beneath(&self.machine, parent, flags).map_err(|error| refuse(error, inside))?;
        Ok(Place { dir, name, path: inside.to_owned() })
    }
}

fn split(path: &Path) -> Result<(&Path, PathBuf)> {
    let name = path.file_name().ok_or_else(|| Error::NoName(path.to_owned()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((parent.unwrap_or(Path::new(".")), name.into()))
}

/// A place on the host. `.` and `/` have no name of their own in what holds them.
fn on_host(path: &Path) -> Result<Place> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let (parent, name) =
        split(path).or_else(|error| if path.is_dir() { Ok((path, ".".into())) } else { Err(error) })?;
    let dir = fs::openat2(fs::CWD, parent, flags, fs::Mode::empty(), ResolveFlags::NO_SYMLINKS);
    Ok(Place { dir: dir.map_err(|error| refuse(error, parent))?, name, path: path.to_owned() })
}

/// An existing directory as destination takes the source under its own name.
fn into(to: Place, from: &Path) -> Result<Place> {
    match fs::lstat_at(&to.dir, &to.name) {
        Ok(stat) if stat.is_link() => Err(Error::ThroughLink { link: to.path.clone(), path: to.path }),
        Ok(stat) if stat.is_dir() => {
            let name: PathBuf = from.file_name().ok_or_else(|| Error::NoName(from.to_owned()))?.into();
            let dir = open_dir(&to)?;
            Ok(Place { dir, path: to.path.join(&name), name })
        }
        _ => Ok(to),
    }
}

fn refuse(error: sys::Error, path: &Path) -> Error {
    if error.is(Errno::LOOP) {
        let link = path.ancestors().filter(|dir| dir.is_symlink()).last().unwrap_or(path);
        return Error::ThroughLink { path: path.to_owned(), link: link.to_owned() };
    }
    Error::call("copy", path, error)
}

fn open_dir(place: &Place) -> Result<OwnedFd> {
    // `.` is no step down, so only the links are forbidden.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    fs::open_beneath(&place.dir, &place.name, flags).map_err(|error| refuse(error, &place.path))
}

fn copy(from: &Place, to: &Place, depth: u32) -> Result<Vec<PathBuf>> {
    let call = |error| Error::call("copy", &from.path, error);
    let stat = fs::lstat_at(&from.dir, &from.name).map_err(call)?;
    match stat.file_type() {
        FileType::RegularFile => copy_file(from, to).map(|()| Vec::new()),
        FileType::Directory => copy_dir(from, to, depth),
        FileType::Symlink => {
            let target = fs::readlink_at(&from.dir, &from.name).map_err(call)?;
            replace(to, || fs::symlink_at(&target, &to.dir, &to.name)).map(|()| Vec::new())
        }
        _ => Ok(vec![from.path.clone()]),
    }
}

/// Make something new, in the place of what is there and is no directory.
fn replace<T>(to: &Place, mut new: impl FnMut() -> sys::Result<T>) -> Result<T> {
    let call = |error| Error::call("copy to", &to.path, error);
    loop {
        match new() {
            Err(error) if error.is(Errno::EXIST) => match fs::unlink_at(&to.dir, &to.name) {
                Err(error) if error.is(Errno::ISDIR) => return Err(Error::InPlace(to.path.clone())),
                Err(error) if !error.is(Errno::NOENT) => return Err(call(error)),
                _ => {}
            },
            made => return made.map_err(call),
        }
    }
}

fn copy_file(from: &Place, to: &Place) -> Result<()> {
    // NONBLOCK: a fifo that is put there meanwhile must not make us wait.
    let opened = fs::open_beneath(&from.dir, &from.name, OFlags::RDONLY | OFlags::NONBLOCK);
    let source = opened.map_err(|error| refuse(error, &from.path))?;
    let stat = fs::fstat(&source).map_err(|error| Error::call("copy", &from.path, error))?;
    if !stat.is_file() {
        return Err(Error::Copy { path: from.path.clone(), source: io::ErrorKind::InvalidInput.into() });
    }
    let target = replace(to, || fs::create_at(&to.dir, &to.name, 0o600))?;
    let mut target = File::from(target);
    io::copy(&mut File::from(source), &mut target).map_err(|source| Error::Copy { path: from.path.clone(), source })?;
    // Never a setuid bit.
    fs::fchmod(&target, stat.mode & 0o777).map_err(|error| Error::call("copy to", &to.path, error))
}

fn copy_dir(from: &Place, to: &Place, depth: u32) -> Result<Vec<PathBuf>> {
    if depth == 0 {
        return Err(Error::Deep(from.path.clone()));
    }
    let source = open_dir(from)?;
    match fs::mkdir_at(&to.dir, &to.name, 0o700) {
        Err(error) if !error.is(Errno::EXIST) => return Err(Error::call("copy to", &to.path, error)),
        _ => {}
    }
    let target = open_dir(to)?;
    let call = |error| Error::call("copy", &from.path, error);
    let mode = fs::fstat(&source).map_err(call)?.mode;
    let mut left_out = Vec::new();
    for entry in fs::entries(&source).map_err(call)? {
        let place = |dir: &OwnedFd, path: &Path| -> Result<Place> {
            let dir = dir.as_fd().try_clone_to_owned();
            let dir = dir.map_err(|source| Error::Copy { path: path.to_owned(), source })?;
            Ok(Place { dir, name: entry.name.clone().into(), path: path.join(&entry.name) })
        };
        left_out.extend(copy(&place(&source, &from.path)?, &place(&target, &to.path)?, depth - 1)?);
    }
    fs::fchmod(&target, mode & 0o777).map_err(|error| Error::call("copy to", &to.path, error))?;
    Ok(left_out)
}

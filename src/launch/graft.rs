//! New directories are mounted writable, as those are that a run finds: what a program makes in them costs no question.
//!
//! The broker makes a directory on the host. Before it answers, the setup process, which alone may mount, mounts that
//! directory over itself. Everything it needs is in sight inside: a copy of the read-only mount, from which the flag is
//! taken that the launch set.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::filter::guarded_mounts;
use super::watch::Free;
use crate::guard::{Happened, Tell};
use crate::sys::fs::{self, FileId};
use crate::sys::mount::{self, Attributes, RDONLY};
use crate::sys::{self, socket};

/// At most this many directories of one run; the broker serves the others.
const MOST: usize = 256;
/// A directory that has another path now.
const MOVED: &[u8] = b"m";
/// Anything: whoever waits for it goes on.
const HEARD: &[u8] = b".";

/// For the broker: tells the setup process, and waits until it has done its part. One that has gone is not waited for.
pub(super) fn teller(socket: OwnedFd) -> Tell {
    Box::new(move |happened| {
        let (message, maker) = match happened {
            Happened::New { path, file, maker } => (encode(path, *file), maker.as_ref()),
            Happened::Moved => (MOVED.to_vec(), None),
        };
        let fds: Vec<_> = maker.map(AsFd::as_fd).into_iter().collect();
        if socket::send(&socket, &message, &fds).is_ok() {
            let _ = socket::receive(&socket);
        }
    })
}

fn encode(path: &Path, file: FileId) -> Vec<u8> {
    let FileId { dev: (major, minor), ino } = file;
    [&major.to_ne_bytes()[..], &minor.to_ne_bytes(), &ino.to_ne_bytes(), path.as_os_str().as_bytes()].concat()
}

fn decode(message: &[u8]) -> Option<(&Path, FileId)> {
    let (major, rest) = message.split_first_chunk()?;
    let (minor, rest) = rest.split_first_chunk()?;
    let (ino, path) = rest.split_first_chunk()?;
    let dev = (u32::from_ne_bytes(*major), u32::from_ne_bytes(*minor));
    Some((Path::new(std::ffi::OsStr::from_bytes(path)), FileId { dev, ino: u64::from_ne_bytes(*ino) }))
}

/// What the broker told.
pub(super) enum Told {
    /// Of a directory that is new, and the mount namespace of its maker if that need not be ours.
    New { path: PathBuf, file: FileId, maker: Option<OwnedFd> },
    /// Of a directory that was moved.
    Moved,
    /// Nothing: it is gone.
    Nothing,
}

/// The setup process's side.
pub(super) struct Grafts<'a> {
    socket: &'a OwnedFd,
    /// The directories in which names are guarded.
    dirs: &'a [PathBuf],
    /// Our own mount namespace, where makers may have others.
    home: Option<&'a OwnedFd>,
    /// The mounts that the launch made read-only where names are guarded; looked up when first needed.
    guarded: Option<HashSet<u64>>,
    left: usize,
    /// The broker waits until mounts are where they belong.
    owes: bool,
}

impl<'a> Grafts<'a> {
    pub(super) fn new(socket: &'a OwnedFd, dirs: &'a [PathBuf], home: Option<&'a OwnedFd>) -> Self {
        Self { socket, dirs, home, guarded: None, left: MOST, owes: false }
    }

    /// Receive one message. The broker waits for [`Grafts::settled`].
    pub(super) fn hear(&mut self) -> Told {
        let Ok(Some(received)) = socket::receive(self.socket) else { return Told::Nothing };
        self.owes = true;
        match decode(&received.bytes) {
            Some((path, file)) => Told::New { path: path.to_owned(), file, maker: received.fds.into_iter().next() },
            None => Told::Moved,
        }
    }

    /// Mounts are where they belong: the broker may go on.
    pub(super) fn settled(&mut self) {
        if std::mem::take(&mut self.owes) {
            // Without it nobody waits.
            let _ = socket::send(self.socket, HEARD, &[]);
        }
    }

    /// Mount a new directory writable; one that cannot be is served by the broker. So is what is made in an inner
    /// namespace: a mount would be that one's own, and nothing that was set here, `nodev` say, locked in there.
    pub(super) fn graft(&mut self, path: &Path, file: FileId, maker: Option<&OwnedFd>) -> Option<Free> {
        if self.left == 0 || !self.is_home(maker) {
            return None;
        }
        let free = self.mount(path, Some(file))?;
        self.left -= 1;
        Some(free)
    }

    /// Mount a directory that was there before, with what is mounted in it. It counts for nothing.
    pub(super) fn graft_existing(&mut self, path: &Path) -> Option<Free> {
        self.mount(path, None)
    }

    fn mount(&mut self, path: &Path, expected: Option<FileId>) -> Option<Free> {
        let place = fs::open_place(path).ok()?;
        let there = fs::fstat(&place).ok()?;
        // Not that very directory, or one that is mounted already, or nothing of ours.
        if !there.is_dir() || expected.is_some_and(|file| file != there.file) || !self.is_guarded(there.mount) {
            return None;
        }
        let tree = writable(&place).ok()?;
        mount::attach(&tree, &place).ok()?;
        Some(Free { path: path.to_owned(), file: there.file, tree, root: None, needless: false })
    }

    fn is_home(&self, maker: Option<&OwnedFd>) -> bool {
        let file = |namespace: &OwnedFd| fs::fstat(namespace).map(|stat| stat.file).ok();
        maker.zip(self.home).is_none_or(|(maker, home)| file(maker) == file(home))
    }

    fn is_guarded(&mut self, mount: u64) -> bool {
        let look = || guarded_mounts(self.dirs).unwrap_or_default().into_iter().collect();
        self.guarded.get_or_insert_with(look).contains(&mount)
    }
}

/// A copy of a place that is read-only by our own doing, without that.
fn writable(place: &OwnedFd) -> sys::Result<OwnedFd> {
    let tree = mount::clone_tree(place, Path::new(""))?;
    let writable = Attributes { clear: RDONLY, ..Attributes::default() };
    mount::set_attributes(&tree, Path::new(""), true, writable)?;
    Ok(tree)
}

impl AsFd for Grafts<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_went() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/a/\xff\n"));
        let file = FileId { dev: (8, 1), ino: u64::MAX };
        assert_eq!(decode(&encode(path, file)), Some((path, file)));
        assert_eq!(decode(MOVED), None);
        assert_ne!(encode(Path::new(""), file), MOVED);
    }
}

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
use crate::plan::Plan;
use crate::sys::fs::{self, FileId};
use crate::sys::mount::{self, Attributes, RDONLY};
use crate::sys::socket;

/// At most this many directories of one run; the broker serves the others.
const MOST: usize = 256;
/// A directory that has another path now.
const MOVED: &[u8] = b"m";
/// Anything: whoever waits for it goes on.
const HEARD: &[u8] = b".";

/// For the broker: tells the setup process, and waits until it has done its part. One that has gone is not waited for.
pub(super) fn teller(socket: OwnedFd) -> Tell {
    Box::new(move |happened| {
        let message = match happened {
            Happened::New { path, file } => encode(path, *file),
            Happened::Moved => MOVED.to_vec(),
        };
        if socket::send(&socket, &message, &[]).is_ok() {
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
    /// Of a directory that is new.
    New { path: PathBuf, file: FileId },
    /// Of a directory that was moved.
    Moved,
    /// Nothing: it is gone.
    Nothing,
}

/// The setup process's side.
pub(super) struct Grafts<'a> {
    socket: &'a OwnedFd,
    plan: &'a Plan,
    /// The mounts that the launch made read-only where names are guarded; looked up when first needed.
    guarded: Option<HashSet<u64>>,
    left: usize,
    /// The broker waits until mounts are where they belong.
    owes: bool,
}

impl<'a> Grafts<'a> {
    pub(super) fn new(socket: &'a OwnedFd, plan: &'a Plan) -> Self {
        Self { socket, plan, guarded: None, left: MOST, owes: false }
    }

    /// Receive one message. The broker waits for [`Grafts::settled`].
    pub(super) fn hear(&mut self) -> Told {
        let Ok(Some(received)) = socket::receive(self.socket) else { return Told::Nothing };
        self.owes = true;
        match decode(&received.bytes) {
            Some((path, file)) => Told::New { path: path.to_owned(), file },
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

    /// Mount a directory writable; one that cannot be is served by the broker.
    pub(super) fn graft(&mut self, path: &Path, file: FileId) -> Option<Free> {
        let place = fs::open_place(path).ok()?;
        let there = fs::fstat(&place).ok()?;
        // Not that very directory, or one that is mounted already, or nothing of ours.
        if there.file != file || !self.is_guarded(there.mount) || self.left == 0 {
            return None;
        }
        let tree = mount::clone_tree(&place, Path::new("")).ok()?;
        let writable = Attributes { clear: RDONLY, ..Attributes::default() };
        mount::set_attributes(&tree, Path::new(""), false, writable).ok()?;
        mount::attach(&tree, &place).ok()?;
        self.left -= 1;
        Some(Free { path: path.to_owned(), file, tree, root: None, needless: false })
    }

    fn is_guarded(&mut self, mount: u64) -> bool {
        let look = || guarded_mounts(self.plan).unwrap_or_default().into_iter().collect();
        self.guarded.get_or_insert_with(look).contains(&mount)
    }
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

//! `inotify(7)`: be told when names in a directory change.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use super::{Errno, Error, Result};

/// An inotify instance.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// `inotify_init1(2)`. `EMFILE`: the user's instances (`fs.inotify.max_user_instances`) are used up.
    pub fn new() -> Result<Self> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map(Self)
            .map_err(|errno| Error::new("inotify_init1", format_args!("IN_CLOEXEC|IN_NONBLOCK"), errno))
    }

    /// Be told when a name appears in or vanishes from the directory, and when it is itself moved or removed. Adding a
    /// directory twice is the same as once.
    pub fn names_in(&self, dir: &Path) -> Result<()> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        self.add(dir, flags)
    }

    /// Be told when a name appears in or vanishes from an open directory.
    pub fn entries_of(&self, dir: impl AsFd) -> Result<()> {
        use std::os::fd::AsRawFd;
        let path = Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string());
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        self.add(&path, flags)
    }

    /// Be told when the directory is itself moved.
    pub fn moves_of(&self, dir: &Path) -> Result<()> {
        self.add(dir, WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR)
    }

    fn add(&self, path: &Path, flags: WatchFlags) -> Result<()> {
        inotify::add_watch(&self.0, path, flags | WatchFlags::MASK_ADD)
            .map(drop)
            .map_err(|errno| Error::new("inotify_add_watch", format_args!("{path:?}, {flags:?}"), errno))
    }

    /// Take all pending events; what happened is looked up anew by the caller anyway.
    pub fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {}
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

//! Delete a tree that somebody else filled.
//!
//! Every step is relative to an open directory and names one component, so a link is removed and never followed. Depth
//! costs no descriptors: what lies too deep is moved up to the root first, which also keeps the work iterative.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::vec;

use crate::sys::{self, Errno, attr, fs, host};
use fs::{Entry, FileType, OFlags, RenameFlags, ResolveFlags, Stat};

/// How deep descriptors are held open before a directory is moved up.
const DEPTH: usize = 32;
/// How often a tree is looked at again in which something could not be removed: its last process may need a moment.
const TRIES: u32 = 6;

/// Something that could not be removed.
#[derive(Debug)]
pub struct Left {
    pub path: PathBuf,
    pub cause: Cause,
}

/// Why something could not be removed.
#[derive(Debug)]
pub enum Cause {
    /// A file system is mounted there: what it shows is not ours.
    Mount,
    /// The time given was over.
    Time,
    /// The kernel said no.
    Call(sys::Error),
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.path)?;
        match &self.cause {
            Cause::Mount => f.write_str("a file system is mounted there"),
            Cause::Time => f.write_str("no time left"),
            Cause::Call(error) => write!(f, "{error}: {}", error.errno()),
        }
    }
}

/// Remove everything below the directory `root` except the entry `keep`; gives what is still there. Nothing else may
/// clear the same tree at the same time.
pub(super) fn clear(root: BorrowedFd<'_>, keep: &OsStr, until: Option<Instant>) -> Vec<Left> {
    let mut tries = 0;
    loop {
        let mut clearing = match Clearing::new(root, until) {
            Ok(clearing) => clearing,
            Err(error) => return vec![Left { path: PathBuf::new(), cause: Cause::Call(error) }],
        };
        match clearing.pass(keep) {
            Pass::Empty => return Vec::new(),
            Pass::Again => {}
            Pass::Stuck if tries < TRIES && !clearing.late() && clearing.worth_waiting() => {
                std::thread::sleep(Duration::from_millis(1 << tries));
                tries += 1;
            }
            Pass::Stuck => return clearing.left,
        }
    }
}

/// Would going on at `dir` cross a mount, where the tree is on the mount of `root`? The device does not tell: a bind
/// mount of the same file system has the same one, and a btrfs subvolume, which is ours to remove, another.
fn crosses(root: &Stat, dir: &Stat) -> bool {
    root.mount != dir.mount
}

enum Pass {
    /// Nothing is left.
    Empty,
    /// Directories were moved up to the root: go on.
    Again,
    /// Something could not be removed.
    Stuck,
}

struct Clearing<'a> {
    root: BorrowedFd<'a>,
    stat: Stat,
    until: Option<Instant>,
    moved: bool,
    left: Vec<Left>,
}

/// A directory on the way down.
struct Frame {
    name: OsString,
    dir: OwnedFd,
    entries: vec::IntoIter<Entry>,
}

impl<'a> Clearing<'a> {
    fn new(root: BorrowedFd<'a>, until: Option<Instant>) -> sys::Result<Self> {
        Ok(Self { root, stat: fs::fstat(root)?, until, moved: false, left: Vec::new() })
    }

    fn late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// A mount stays, and so does what the kernel forbids; a directory that got a new entry can be had the next time.
    fn worth_waiting(&self) -> bool {
        let busy = |errno| matches!(errno, Errno::NOTEMPTY | Errno::EXIST);
        self.left.iter().any(|left| matches!(&left.cause, Cause::Call(error) if busy(error.errno())))
    }

    /// Once through everything below the root.
    fn pass(&mut self, keep: &OsStr) -> Pass {
        let entries = match entries(self.root) {
            Ok(entries) => entries,
            Err(error) => {
                self.keep_back(&[], OsStr::new(""), Cause::Call(error));
                return Pass::Stuck;
            }
        };
        let mut found = false;
        for entry in entries.into_iter().filter(|entry| entry.name != keep) {
            found = true;
            if self.late() {
                self.keep_back(&[], &entry.name, Cause::Time);
                break;
            }
            self.remove(&entry);
        }
        match (found, self.moved, self.left.is_empty()) {
            (false, ..) => Pass::Empty,
            (true, false, false) => Pass::Stuck,
            (true, ..) if self.late() => Pass::Stuck,
            _ => Pass::Again,
        }
    }

    /// Remove one entry of the root and all below it.
    fn remove(&mut self, entry: &Entry) {
        let mut stack = Vec::new();
        self.step(&mut stack, entry);
        while let Some(frame) = stack.last_mut() {
            match frame.entries.next() {
                Some(entry) if !self.late() => self.step(&mut stack, &entry),
                _ => self.leave(&mut stack),
            }
        }
    }

    /// Remove a file, or go into a directory.
    fn step(&mut self, stack: &mut Vec<Frame>, entry: &Entry) {
        let parent = stack.last().map_or(self.root, |frame| frame.dir.as_fd());
        let done = match entry.file_type {
            FileType::Directory => self.enter(parent, stack.len(), &entry.name),
            // Some file systems do not tell: unlink of a directory says EISDIR (Linux) or EPERM (POSIX).
            FileType::Unknown => match unlink(parent, &entry.name) {
                Err(error) if error.is(Errno::ISDIR) || error.is(Errno::PERM) => {
                    self.enter(parent, stack.len(), &entry.name)
                }
                done => done.map(|()| None).map_err(mounted),
            },
            _ => unlink(parent, &entry.name).map(|()| None).map_err(mounted),
        };
        match done {
            Ok(Some(frame)) => stack.push(frame),
            Ok(None) => {}
            // Somebody else has removed it.
            Err(Cause::Call(error)) if error.is(Errno::NOENT) => {}
            Err(cause) => self.keep_back(stack, &entry.name, cause),
        }
    }

    /// Open a directory, or move it up where the way to it is too long.
    fn enter(&mut self, parent: BorrowedFd<'_>, depth: usize, name: &OsStr) -> Result<Option<Frame>, Cause> {
        let dir = open_dir(parent, name)?;
        if crosses(&self.stat, &fs::fstat(&dir).map_err(Cause::Call)?) {
            return Err(Cause::Mount);
        }
        if depth >= DEPTH {
            move_up(parent, name, &dir, self.root).map_err(mounted)?;
            self.moved = true;
            return Ok(None);
        }
        let entries = entries(dir.as_fd()).map_err(Cause::Call)?.into_iter();
        Ok(Some(Frame { name: name.to_owned(), dir, entries }))
    }

    /// Remove the directory that has been worked through.
    fn leave(&mut self, stack: &mut Vec<Frame>) {
        let Some(Frame { name, .. }) = stack.pop() else { return };
        let parent = stack.last().map_or(self.root, |frame| frame.dir.as_fd());
        if let Err(error) = writable(parent, || fs::rmdir_at(parent, Path::new(&name)))
            && !error.is(Errno::NOENT)
        {
            let cause = if self.late() { Cause::Time } else { mounted(error) };
            self.keep_back(stack, &name, cause);
        }
    }

    fn keep_back(&mut self, stack: &[Frame], name: &OsStr, cause: Cause) {
        let mut path: PathBuf = stack.iter().map(|frame| &frame.name).collect();
        path.push(name);
        // Directories above what could not be removed are not empty for that reason: say the reason once.
        let cause_below = self.left.iter().any(|left| left.path.starts_with(&path));
        if !cause_below && self.left.len() < 100 {
            self.left.push(Left { path, cause });
        }
    }
}

/// A mount point cannot be removed: `EBUSY`.
fn mounted(error: sys::Error) -> Cause {
    if error.is(Errno::BUSY) || error.is(Errno::XDEV) { Cause::Mount } else { Cause::Call(error) }
}

fn unlink(dir: BorrowedFd<'_>, name: &OsStr) -> sys::Result<()> {
    match writable(dir, || fs::unlink_at(dir, Path::new(name))) {
        Err(error) if error.is(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Do something in a directory; if that is forbidden, allow it (the directory is ours) and do it again.
fn writable(dir: BorrowedFd<'_>, act: impl Fn() -> sys::Result<()>) -> sys::Result<()> {
    match act() {
        Err(error) if error.is(Errno::ACCESS) && attr::chmod(dir, 0o700).is_ok() => act(),
        done => done,
    }
}

fn open_dir(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Cause> {
    let read = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match open_one(parent, name, read) {
        Err(error) if error.is(Errno::ACCESS) => {}
        opened => return opened.map_err(mounted),
    }
    let place = writable_place(parent, name).map_err(mounted)?;
    attr::chmod(&place, 0o700).map_err(Cause::Call)?;
    open_one(parent, name, read).map_err(mounted)
}

/// The directory itself, to change its mode; where even that is forbidden it is the parent's mode that forbids it.
fn writable_place(parent: BorrowedFd<'_>, name: &OsStr) -> sys::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match open_one(parent, name, flags) {
        Err(error) if error.is(Errno::ACCESS) && attr::chmod(parent, 0o700).is_ok() => open_one(parent, name, flags),
        opened => opened,
    }
}

fn open_one(parent: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> sys::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    fs::openat2(parent, Path::new(name), flags, fs::Mode::empty(), resolve)
}

/// Listing a directory opens it a second time, through itself, which needs the right to search it.
fn entries(dir: BorrowedFd<'_>) -> sys::Result<Vec<Entry>> {
    match fs::entries(dir) {
        Err(error) if error.is(Errno::ACCESS) && attr::chmod(dir, 0o700).is_ok() => fs::entries(dir),
        listed => listed,
    }
}

/// Move a directory to the root under a new name. Its own mode must allow that too, for its `..` changes.
fn move_up(parent: BorrowedFd<'_>, name: &OsStr, dir: &OwnedFd, root: BorrowedFd<'_>) -> sys::Result<()> {
    let new = format!(".deep-{}", host::random_name()?);
    let act = || fs::rename_at(parent, Path::new(name), root, Path::new(&new), RenameFlags::empty());
    writable(parent, || writable(dir.as_fd(), act))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self as std_fs, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn clear_dir(path: &Path) -> Vec<Left> {
        let root = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
        clear(root.as_fd(), OsStr::new("lease"), None)
    }

    fn names(path: &Path) -> Vec<OsString> {
        std_fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect()
    }

    #[test]
    fn links_are_removed_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std_fs::write(outside.path().join("f"), "x").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path(), root.path().join("dir")).unwrap();
        symlink(outside.path().join("f"), root.path().join("file")).unwrap();
        symlink("/nowhere", root.path().join("dangling")).unwrap();
        File::create(root.path().join("lease")).unwrap();
        assert!(clear_dir(root.path()).is_empty());
        assert_eq!(names(root.path()), ["lease"]);
        assert!(outside.path().join("f").exists());
    }

    #[test]
    fn closed_directories_are_removed() {
        let root = tempfile::tempdir().unwrap();
        for (n, mode) in [0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600].into_iter().enumerate() {
            let dir = root.path().join(n.to_string());
            std_fs::create_dir_all(dir.join("below/more")).unwrap();
            std_fs::write(dir.join("below/file"), "x").unwrap();
            std_fs::set_permissions(dir.join("below"), Permissions::from_mode(mode)).unwrap();
            std_fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        }
        let left = clear_dir(root.path());
        assert!(left.is_empty(), "{left:?}");
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn depth_does_not_matter() {
        let root = tempfile::tempdir().unwrap();
        let mut dir = fs::open(root.path(), OFlags::RDONLY).unwrap();
        for n in 0..10_000 {
            let name = Path::new("d");
            fs::mkdir_at(&dir, name, if n % 100 == 99 { 0o300 } else { 0o700 }).unwrap();
            let next = fs::openat2(&dir, name, OFlags::PATH, fs::Mode::empty(), ResolveFlags::empty()).unwrap();
            dir = next;
        }
        drop(dir);
        let left = clear_dir(root.path());
        assert!(left.is_empty(), "{left:?}");
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn a_writer_that_ends_soon_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("tmp");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let _ = std_fs::create_dir_all(dir.join(format!("{}/x", n % 50)));
                }
            });
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                stop.store(true, Ordering::Relaxed);
            });
            let left = clear_dir(root.path());
            assert!(left.is_empty(), "{left:?}");
        });
    }

    #[test]
    fn what_is_late_is_left_for_the_next_time() {
        let root = tempfile::tempdir().unwrap();
        std_fs::create_dir_all(root.path().join("a/b")).unwrap();
        let dir = fs::open(root.path(), OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
        let left = clear(dir.as_fd(), OsStr::new("lease"), Some(Instant::now()));
        assert!(matches!(left[..], [Left { cause: Cause::Time, .. }]), "{left:?}");
        assert!(clear_dir(root.path()).is_empty());
    }

    #[test]
    fn another_mount_is_another_mount_even_on_the_same_device() {
        let stat = fs::stat(Path::new("/")).unwrap();
        assert!(!crosses(&stat, &stat));
        assert!(crosses(&stat, &Stat { mount: stat.mount + 1, ..stat }));
        let subvolume = fs::FileId { dev: (9, 9), ..stat.file };
        assert!(!crosses(&stat, &Stat { file: subvolume, ..stat }));
    }
}

//! Which file a caller means: the directory as the caller sees it, and the one last name in it.
//!
//! The kernel walks to the directory; what it would do in the last step is done here by hand, because the last name is
//! what rules are about, and because it may be absent. When the kernel says no on the way, so does the caller's own call:
//! it is continued. Two answers are given here instead, `ENOENT` and `ENOTDIR`: by the time the kernel looks again
//! somebody may have made the directory, and would get "read-only file system" for it (npm makes the same directory from
//! many threads, and takes that for the end).

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::reply::{OrContinue, Reply, Step};
use crate::sys::Errno;
use crate::sys::act;
use crate::sys::caller::Caller;
use crate::sys::fs::{FileId, ResolveFlags, Stat};

/// What the kernel follows at most (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Where a relative path begins.
#[derive(Debug)]
pub(super) enum Base {
    Cwd,
    /// A descriptor of the caller.
    Fd(i32),
    /// A directory that a link was found in.
    Open(OwnedFd),
}

/// What is done with the last step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// It is the name, whatever it is.
    Name,
    /// A link in it is followed, and it may be `.` or `..`.
    Follow,
    /// As `Follow`, but it is opened for writing: with a slash behind it, here or in a link, the kernel refuses in ways
    /// of its own.
    Open,
    /// It is a directory that something happens in (`O_TMPFILE`).
    Directory,
    /// As `Name`, but of something that must exist: `.` and `..` stand for the directory.
    Existing,
}

/// A file, or the place for one.
#[derive(Debug)]
pub(super) struct Spot {
    /// The directory as the caller sees it; for `direct`, the file itself.
    seen: OwnedFd,
    /// What `seen` is.
    pub(super) stat: Stat,
    /// The caller named the file by a descriptor, or as a whole: it has no last step.
    direct: bool,
    name: Vec<u8>,
    /// The path ended in a slash.
    pub(super) slash: bool,
}

/// The supervisor's own view of a [`Spot`]'s directory.
#[derive(Debug)]
pub(super) struct HostSpot {
    pub(super) dir: OwnedFd,
    /// The last name, with the slash that the caller gave it: the kernel knows best what that means.
    pub(super) name: Vec<u8>,
    /// Which file the name must be, if the caller did not say it by name.
    pub(super) file: Option<FileId>,
}

impl Spot {
    pub(super) fn seen(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// What an open descriptor of the caller refers to.
    pub(super) fn of_descriptor(caller: Caller, fd: i32) -> Step<Self> {
        Self::of_file(caller.fd(fd).or_continue()?)
    }

    /// A file without a last step.
    pub(super) fn of_file(seen: OwnedFd) -> Step<Self> {
        let stat = act::stat(seen.as_fd()).or_continue()?;
        Ok(Self { seen, stat, direct: true, name: Vec::new(), slash: false })
    }

    fn in_dir(seen: OwnedFd, name: &[u8], slash: bool) -> Step<Self> {
        let stat = act::stat(seen.as_fd()).or_continue()?;
        Ok(Self { seen, stat, direct: false, name: name.to_vec(), slash })
    }

    /// The real path. For a removed file it ends in ` (deleted)`, and nothing of that name will be the file.
    pub(super) fn path(&self) -> Step<PathBuf> {
        let mut path = act::path_of(self.seen()).or_continue()?;
        if path.first() != Some(&b'/') {
            return Err(Reply::Continue);
        }
        if !self.direct {
            if path.len() > 1 {
                path.push(b'/');
            }
            path.extend_from_slice(&self.name);
        }
        Ok(PathBuf::from(OsStr::from_bytes(&path)))
    }

    /// What lies at the name now, in the caller's view.
    pub(super) fn existing(&self) -> Option<Stat> {
        if self.direct { Some(self.stat) } else { act::stat_at(self.seen(), &self.name).ok() }
    }

    /// Why nothing can be found at the name, if nothing can.
    pub(super) fn missing(&self) -> Option<Errno> {
        match act::stat_at(self.seen(), &self.name) {
            _ if self.direct => None,
            Ok(stat) => (self.slash && !stat.is_dir()).then_some(Errno::NOTDIR),
            Err(errno) => Some(errno),
        }
    }

    /// The same directory in the supervisor's own view. `path` is what [`Self::path`] gave, as the host names it.
    pub(super) fn on_host(&self, path: &Path) -> Step<HostSpot> {
        // The root has no name to act on.
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Reply::Continue) };
        let dir = act::open_place(parent).or_continue()?;
        let file = if self.direct {
            Some(self.stat.file)
        } else if act::stat(dir.as_fd()).or_continue()?.file == self.stat.file {
            None
        } else {
            return Err(Reply::Continue);
        };
        let mut name = name.as_bytes().to_vec();
        if self.slash {
            name.push(b'/');
        }
        Ok(HostSpot { dir, name, file })
    }

    /// The directory itself in the supervisor's own view, for what happens in it without a name.
    pub(super) fn directory_on_host(&self, path: &Path) -> Step<OwnedFd> {
        let dir = act::open_place(path).or_continue()?;
        let same = act::stat(dir.as_fd()).or_continue()?.file == self.stat.file;
        if same { Ok(dir) } else { Err(Reply::Continue) }
    }
}

impl HostSpot {
    /// The name without the slash.
    pub(super) fn bare_name(&self) -> &[u8] {
        self.name.strip_suffix(b"/").unwrap_or(&self.name)
    }
}

/// One path of one caller on its way to a [`Spot`].
pub(super) struct Resolver {
    caller: Caller,
    /// `openat2`'s own restrictions.
    restrict: ResolveFlags,
}

impl Resolver {
    pub(super) fn new(caller: Caller) -> Self {
        Self { caller, restrict: ResolveFlags::empty() }
    }

    /// For `openat2` with `RESOLVE_*` flags.
    pub(super) fn restricted(caller: Caller, restrict: ResolveFlags) -> Self {
        // Whether the caller wanted to wait for it or not: it will be cached by the time this is answered.
        Self { caller, restrict: restrict.difference(ResolveFlags::CACHED) }
    }

    pub(super) fn resolve(&self, mut base: Base, mut path: Vec<u8>, last: Last) -> Step<Spot> {
        for _ in 0..=MAX_LINKS {
            let (whole, slash) = without_slashes(&path);
            let follow = match last {
                Last::Open if slash => return Err(Reply::Continue),
                Last::Open | Last::Follow | Last::Directory => true,
                Last::Existing => slash,
                Last::Name => false,
            };
            if follow
                && self.restrict.is_empty()
                && let Some(fd) = self.descriptor(whole)?
            {
                return Spot::of_descriptor(self.caller, fd);
            }
            let (dir, name) = split(whole);
            if matches!(name, b"" | b"." | b"..") {
                // What makes or removes a name is refused there in ways of its own.
                return if last == Last::Name {
                    Err(Reply::Continue)
                } else {
                    Spot::of_file(self.open_dir(&base, &path)?)
                };
            }
            let parent = self.open_dir(&base, dir)?;
            match act::readlink(parent.as_fd(), name) {
                Ok(target) if follow => {
                    path = self.followed(&parent, target, slash)?;
                    base = Base::Open(parent);
                }
                _ if last == Last::Directory => return Spot::of_file(self.open_dir(&Base::Open(parent), name)?),
                _ => return Spot::in_dir(parent, name, slash),
            }
        }
        Err(Reply::Continue)
    }

    /// The path that a link in the last step turns the path into.
    fn followed(&self, parent: &OwnedFd, mut target: Vec<u8>, slash: bool) -> Step<Vec<u8>> {
        // A link on procfs leads to a file, not along its text; and openat2's restrictions are the kernel's to apply.
        if !self.restrict.is_empty() || act::is_proc(parent.as_fd()) {
            return Err(Reply::Continue);
        }
        if slash {
            target.push(b'/');
        }
        Ok(target)
    }

    /// The directory that `path` leads to, as the caller sees it; all of `path` is walked.
    fn open_dir(&self, base: &Base, path: &[u8]) -> Step<OwnedFd> {
        if !self.restrict.is_empty() {
            return self.open_restricted(base, path);
        }
        if path.first() == Some(&b'/') {
            return self.open_absolute(path);
        }
        let start = self.start(base)?;
        if path.is_empty() {
            return Ok(start);
        }
        match act::open_dir(start.as_fd(), path, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS) {
            Ok(dir) => Ok(dir),
            // An absolute link, or a `..` too many for the scope: from the root, then.
            Err(Errno::XDEV) => self.open_absolute(&self.absolute(&start, path)?),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(self.missing(&self.absolute(&start, path)?)),
            Err(_) => Err(Reply::Continue),
        }
    }

    fn open_restricted(&self, base: &Base, path: &[u8]) -> Step<OwnedFd> {
        let in_root = self.restrict.contains(ResolveFlags::IN_ROOT);
        if path.first() == Some(&b'/') && !in_root {
            if self.restrict.contains(ResolveFlags::BENEATH) {
                return Err(Reply::Continue);
            }
            let root = self.caller.root().or_continue()?;
            return act::open_dir(root.as_fd(), path, self.restrict | ResolveFlags::IN_ROOT).or_continue();
        }
        let start = self.start(base)?;
        let path = if path.is_empty() { b"." } else { path };
        // Without a scope of its own the path must not get out into the supervisor's.
        let scope = if in_root { ResolveFlags::IN_ROOT } else { ResolveFlags::BENEATH };
        act::open_dir(start.as_fd(), path, self.restrict | scope).or_continue()
    }

    fn open_absolute(&self, path: &[u8]) -> Step<OwnedFd> {
        let root = self.caller.root().or_continue()?;
        let translated = self.through_proc(path)?;
        let (root, path) = match &translated {
            Some((start, rest)) => {
                return self.open_dir(&Base::Open(start.try_clone().map_err(|_| Reply::Continue)?), rest);
            }
            None => (root, path),
        };
        match act::open_dir(root.as_fd(), path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS) {
            Ok(dir) => Ok(dir),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(self.missing(path)),
            Err(_) => Err(Reply::Continue),
        }
    }

    fn start(&self, base: &Base) -> Step<OwnedFd> {
        match base {
            Base::Cwd => self.caller.cwd().or_continue(),
            Base::Fd(fd) => self.caller.fd(*fd).or_continue(),
            Base::Open(dir) => dir.try_clone().map_err(|_| Reply::Continue),
        }
    }

    /// `path`, relative to `start`, from the caller's root.
    fn absolute(&self, start: &OwnedFd, path: &[u8]) -> Step<Vec<u8>> {
        let mut from = act::path_of(start.as_fd()).or_continue()?;
        let root = act::path_of(self.caller.root().or_continue()?.as_fd()).or_continue()?;
        if root != b"/" {
            // In a chroot the kernel's names are longer than the caller's.
            from = from
                .strip_prefix(&root[..])
                .filter(|rest| matches!(rest, [] | [b'/', ..]))
                .ok_or(Reply::Continue)?
                .to_vec();
        }
        from.push(b'/');
        from.extend_from_slice(path);
        Ok(from)
    }

    /// The answer to a path whose way is missing: the caller gets the kernel's own, if it means the same to the caller.
    ///
    /// It may not: `/proc/self` is somebody else here. So every step is looked at, and a dangling link is left alone.
    fn missing(&self, path: &[u8]) -> Reply {
        let Ok(root) = self.caller.root() else { return Reply::Continue };
        let Ok(mut last) = root.try_clone() else { return Reply::Continue };
        for (end, name) in prefixes(path) {
            let flags = crate::sys::fs::OFlags::PATH;
            match act::open(root.as_fd(), &path[..end], flags, 0, ResolveFlags::IN_ROOT) {
                Ok(next) if act::is_proc(next.as_fd()) => return Reply::Continue,
                Ok(next) => last = next,
                Err(errno @ (Errno::NOENT | Errno::NOTDIR)) => {
                    let dangles = act::readlink(last.as_fd(), name).is_ok();
                    return if dangles { Reply::Continue } else { Reply::Errno(errno) };
                }
                Err(_) => return Reply::Continue,
            }
        }
        // A last step that is no directory.
        match act::stat(last.as_fd()) {
            Ok(stat) if !stat.is_dir() => Reply::Errno(Errno::NOTDIR),
            // It is there by now; the kernel would say that the file system is read-only.
            Ok(_) => Reply::Errno(Errno::NOENT),
            Err(_) => Reply::Continue,
        }
    }

    /// The number in `/proc/self/fd/N`, `/dev/fd/N` and their like. glibc's `fchmodat` goes this way.
    fn descriptor(&self, path: &[u8]) -> Step<Option<i32>> {
        let rest = match path.strip_prefix(b"/dev/fd/") {
            Some(rest) => Some(rest),
            None => self.own_proc(path)?.and_then(|rest| rest.strip_prefix(b"fd/")),
        };
        Ok(rest.and_then(number))
    }

    /// A path that begins in a directory that procfs leads to: that directory, and the rest.
    fn through_proc(&self, path: &[u8]) -> Step<Option<(OwnedFd, Vec<u8>)>> {
        let after = match path.strip_prefix(b"/dev/fd/") {
            Some(rest) => [b"fd/", rest].concat(),
            None => match self.own_proc(path)? {
                Some(rest) => rest.to_vec(),
                None => return Ok(None),
            },
        };
        let (first, rest) = after.split_at(after.iter().position(|&byte| byte == b'/').unwrap_or(after.len()));
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let (start, rest) = match first {
            b"cwd" => (self.caller.cwd(), rest),
            b"root" => (self.caller.root(), rest),
            b"fd" => {
                let (fd, rest) = rest.split_at(rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len()));
                (self.caller.fd(number(fd).ok_or(Reply::Continue)?), rest.strip_prefix(b"/").unwrap_or(rest))
            }
            _ => return Err(Reply::Continue),
        };
        Ok(Some((start.or_continue()?, rest.to_vec())))
    }

    /// What follows `/proc/self/` and the other names of the caller itself.
    fn own_proc<'a>(&self, path: &'a [u8]) -> Step<Option<&'a [u8]>> {
        let Some(rest) = path.strip_prefix(b"/proc/") else { return Ok(None) };
        for own in [&b"self/"[..], b"thread-self/"] {
            if let Some(rest) = rest.strip_prefix(own) {
                return Ok(Some(rest));
            }
        }
        let Some(slash) = rest.iter().position(|&byte| byte == b'/') else { return Ok(None) };
        let (pid, rest) = (number(&rest[..slash]), &rest[slash + 1..]);
        let own = self.caller.status().or_continue()?.inner_tgid;
        Ok((pid == Some(own)).then_some(rest))
    }
}

/// A decimal number without signs and leading zeros.
fn number(text: &[u8]) -> Option<i32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text[0] != b'0');
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// A path without the slashes at its end, and whether there were any.
fn without_slashes(path: &[u8]) -> (&[u8], bool) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    (&path[..end], end < path.len())
}

/// A path's directory, with the slash, and its last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

/// The end of each name in a path, and the name.
fn prefixes(path: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut end = 0;
    path.split_inclusive(|&byte| byte == b'/').filter_map(move |part| {
        end += part.len();
        let name = part.strip_suffix(b"/").unwrap_or(part);
        (!name.is_empty()).then_some((end - (part.len() - name.len()), name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        assert_eq!(without_slashes(b"a/b//"), (&b"a/b"[..], true));
        assert_eq!(without_slashes(b"//"), (&b""[..], true));
        assert_eq!(split(b"a/b"), (&b"a/"[..], &b"b"[..]));
        assert_eq!(split(b"b"), (&b""[..], &b"b"[..]));
        assert_eq!(split(b"/b"), (&b"/"[..], &b"b"[..]));
        let ends: Vec<_> = prefixes(b"/a//bc/d").collect();
        assert_eq!(ends, [(2, &b"a"[..]), (6, b"bc"), (8, b"d")]);
    }

    #[test]
    fn numbers_are_plain() {
        assert_eq!((number(b"0"), number(b"12"), number(b"99999999999")), (Some(0), Some(12), None));
        assert_eq!((number(b""), number(b"+1"), number(b"01"), number(b"1x")), (None, None, None, None));
    }
}

//! One call as it was made: which, by whom, with what. Everything is read from the caller here, and once.

use std::net::SocketAddr;

use super::act::Act;
use super::attempt;
use super::calls::{Call, Follow, Op, Place, oflag};
use super::decide::Change;
use super::reply::{OrContinue, Reply, Step};
use super::resolve::{Base, Last, Resolver, Spot};
use crate::sys::Errno;
use crate::sys::caller::Caller;
use crate::sys::fs::{OFlags, ResolveFlags};
use crate::sys::notify::Notification;

/// `AT_FDCWD`
const AT_FDCWD: i32 = -100;

/// `AT_*` flags.
pub(super) mod at {
    pub(crate) const SYMLINK_NOFOLLOW: u32 = 0x100;
    pub(crate) const REMOVEDIR: u32 = 0x200;
    pub(crate) const EACCESS: u32 = 0x200;
    pub(crate) const SYMLINK_FOLLOW: u32 = 0x400;
    pub(crate) const EMPTY_PATH: u32 = 0x1000;
}

/// Extended attributes' limits (`limits.h`).
const XATTR_NAME_MAX: usize = 255;
const XATTR_SIZE_MAX: u64 = 65_536;

/// Bits that `access(2)` takes.
const ACCESS_MODES: u32 = 0o7;

/// A call that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) call: &'static Call,
    pub(super) caller: Caller,
    args: [u64; 6],
}

/// What an open asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    pub(super) flags: OFlags,
    pub(super) mode: u32,
    resolve: ResolveFlags,
}

impl Task {
    pub(super) fn new(call: &'static Call, notification: &Notification) -> Self {
        Self { id: notification.id, call, caller: Caller::new(notification.tid), args: notification.args }
    }

    /// An argument of which the kernel takes the low word.
    #[allow(clippy::cast_possible_truncation, reason = "the kernel drops the high word too")]
    pub(super) fn word(&self, arg: usize) -> u32 {
        self.args[arg] as u32
    }

    fn descriptor(&self, arg: usize) -> i32 {
        self.word(arg).cast_signed()
    }

    /// `AT_*` or `RENAME_*` flags; 0 for calls without.
    pub(super) fn flags(&self) -> u32 {
        self.call.flags.map_or(0, |arg| self.word(arg))
    }

    pub(super) fn mode(&self) -> u32 {
        self.call.mode.map_or(0, |arg| self.word(arg))
    }

    /// The n-th argument of the operation's own.
    fn data(&self, n: usize) -> u64 {
        self.args[self.call.data + n]
    }

    fn text(&self, address: u64) -> Step<Vec<u8>> {
        self.caller.read_string(address).or_continue()
    }

    /// Flags that the kernel does not know make the call fail before anything else: that is left to it.
    pub(super) fn check_flags(&self) -> Step<()> {
        let known = match self.call.op {
            Op::Unlink => at::REMOVEDIR,
            Op::Rename => 7,
            Op::Link => at::SYMLINK_FOLLOW | at::EMPTY_PATH,
            Op::Access => at::SYMLINK_NOFOLLOW | at::EMPTY_PATH | at::EACCESS,
            Op::Open | Op::OpenHow | Op::Creat => return Ok(()),
            _ => at::SYMLINK_NOFOLLOW | at::EMPTY_PATH,
        };
        if self.flags() & !known == 0 { Ok(()) } else { Err(Reply::Continue) }
    }

    fn follows(&self) -> bool {
        match self.call.follow {
            Follow::Never => false,
            Follow::Always => true,
            Follow::UnlessTold => self.flags() & at::SYMLINK_NOFOLLOW == 0,
            Follow::IfTold => self.flags() & at::SYMLINK_FOLLOW != 0,
        }
    }

    /// What the last step of the first path is to this call.
    fn last(&self) -> Last {
        match self.call.op {
            _ if self.follows() => Last::Follow,
            Op::Link
            | Op::Chmod
            | Op::Chown
            | Op::Utimens
            | Op::SetXattr
            | Op::SetXattrArgs
            | Op::RemoveXattr
            | Op::SetAttr
            | Op::Access => Last::Existing,
            _ => Last::Name,
        }
    }

    /// Where the first path leads.
    pub(super) fn first(&self) -> Step<Spot> {
        self.locate(self.call.place, self.last())
    }

    /// Where the second path leads; no call follows a link there.
    pub(super) fn second(&self) -> Step<Spot> {
        self.locate(self.call.second.ok_or(Reply::Continue)?, Last::Name)
    }

    fn locate(&self, place: Place, last: Last) -> Step<Spot> {
        let resolver = Resolver::new(self.caller);
        match place {
            Place::Path { path } => match self.text(self.args[path])? {
                // ENOENT, says the kernel.
                text if text.is_empty() => Err(Reply::Continue),
                text => resolver.resolve(Base::Cwd, text, last),
            },
            Place::At { dir, path } => self.locate_at(&resolver, self.descriptor(dir), self.args[path], last),
            Place::Descriptor { fd } => Spot::of_descriptor(self.caller, self.descriptor(fd)),
            Place::Address { address, len, .. } => {
                resolver.resolve(Base::Cwd, self.socket_path(address, len)?, Last::Name)
            }
        }
    }

    fn locate_at(&self, resolver: &Resolver, dir: i32, path: u64, last: Last) -> Step<Spot> {
        let empty_path = self.flags() & at::EMPTY_PATH != 0 && self.call.op != Op::Rename;
        // These two take a descriptor alone; the newer calls take no path for an empty one.
        let alone = empty_path || matches!(self.call.op, Op::Utimens | Op::Utimes);
        let text = if path == 0 && alone { Vec::new() } else { self.text(path)? };
        match (text.is_empty(), dir) {
            (true, _) if !empty_path && path != 0 => Err(Reply::Continue),
            (true, AT_FDCWD) if empty_path => Spot::of_file(self.caller.cwd().or_continue()?),
            (true, fd) => Spot::of_descriptor(self.caller, fd),
            (false, AT_FDCWD) => resolver.resolve(Base::Cwd, text, last),
            (false, fd) => resolver.resolve(Base::Fd(fd), text, last),
        }
    }

    /// Is the file named by its descriptor alone, in a call that takes no descriptor opened with `O_PATH`?
    pub(super) fn open_descriptor(&self) -> Option<i32> {
        match self.call.place {
            Place::Descriptor { fd } => Some(self.descriptor(fd)),
            Place::At { dir, path } if self.args[path] == 0 && self.flags() & at::EMPTY_PATH == 0 => {
                Some(self.descriptor(dir))
            }
            _ => None,
        }
    }

    /// The path in a `sockaddr_un`; abstract names and other families are none of ours.
    fn socket_path(&self, address: usize, len: usize) -> Step<Vec<u8>> {
        let len = usize::try_from(self.word(len)).unwrap_or(usize::MAX);
        let mut bytes = [0; 110];
        let bytes = bytes.get_mut(..len).ok_or(Reply::Continue)?;
        self.caller.read(self.args[address], bytes).or_continue()?;
        match bytes {
            // AF_UNIX
            [1, 0, path @ ..] if path.first().is_some_and(|&first| first != 0) => {
                Ok(path.split(|&byte| byte == 0).next().unwrap_or(path).to_vec())
            }
            _ => Err(Reply::Continue),
        }
    }

    /// The internet address that a call names.
    pub(super) fn destination(&self) -> Step<SocketAddr> {
        let Place::Address { address, len, .. } = self.call.place else { return Err(Reply::Continue) };
        let mut bytes = [0; 28];
        let len = usize::try_from(self.word(len)).unwrap_or(usize::MAX).min(bytes.len());
        self.caller.read(self.args[address], &mut bytes[..len]).or_continue()?;
        attempt::destination(&bytes[..len]).ok_or(Reply::Continue)
    }

    /// What an opening call asks for; those that change nothing are continued.
    pub(super) fn opening(&self) -> Step<Opening> {
        let opening = match self.call.op {
            Op::OpenHow => self.open_how()?,
            Op::Creat => Opening::new(oflag::CREAT | oflag::TRUNC | 1, self.mode(), 0),
            _ => Opening::new(self.flags(), self.mode(), 0),
        };
        let flags = opening.flags;
        let changes = flags.bits() & oflag::CHANGES != 0 && !flags.contains(OFlags::PATH);
        // Directories are never opened for writing, and no directory's descriptor is ever handed out.
        if changes && (!flags.contains(OFlags::DIRECTORY) || opening.is_nameless()) {
            Ok(opening)
        } else {
            Err(Reply::Continue)
        }
    }

    fn open_how(&self) -> Step<Opening> {
        const LEN: u64 = 24;
        // A longer one may mean something that is not known here.
        if self.data(1) != LEN {
            return Err(Reply::Continue);
        }
        let mut how = [0; 24];
        self.caller.read(self.data(0), &mut how).or_continue()?;
        let word = |n: usize| u64::from_ne_bytes(std::array::from_fn(|byte| how[8 * n + byte]));
        let narrow = |n: usize| u32::try_from(word(n)).map_err(|_| Reply::Continue);
        let opening = Opening::new(narrow(0)?, narrow(1)?, word(2));
        // What the filter refuses where it can see the mode.
        if opening.mode & 0o6000 != 0 { Err(Reply::Errno(Errno::PERM)) } else { Ok(opening) }
    }

    /// Where an opening call leads.
    pub(super) fn opened(&self, opening: &Opening) -> Step<Spot> {
        let (dir, path) = match self.call.place {
            Place::Path { path } => (AT_FDCWD, path),
            Place::At { dir, path } => (self.descriptor(dir), path),
            _ => return Err(Reply::Continue),
        };
        let text = self.text(self.args[path])?;
        // EISDIR, ENOTDIR or ENOENT, says the kernel.
        if text.is_empty() || (text.ends_with(b"/") && !opening.is_nameless()) {
            return Err(Reply::Continue);
        }
        let base = if dir == AT_FDCWD { Base::Cwd } else { Base::Fd(dir) };
        Resolver::restricted(self.caller, opening.resolve).resolve(base, text, opening.last())
    }

    /// What is to be done at the first path, with everything that the caller gives for it.
    pub(super) fn act(&self) -> Step<Act> {
        Ok(match self.call.op {
            Op::Mkdir => Act::Mkdir { mode: self.mode() },
            Op::Mknod => Act::Mknod { mode: self.mode() & 0o177_777, dev: self.word(self.call.data).into() },
            Op::Symlink => Act::Symlink { target: self.text(self.data(0))? },
            Op::Unlink => Act::Unlink { directory: self.flags() & at::REMOVEDIR != 0 },
            Op::Rmdir => Act::Unlink { directory: true },
            Op::Truncate => Act::Truncate { len: self.data(0).cast_signed() },
            Op::Chmod => Act::Chmod { mode: self.mode() & 0o7777 },
            Op::Chown => Act::Chown { uid: self.word(self.call.data), gid: self.word(self.call.data + 1) },
            Op::Utime | Op::Utimes | Op::Utimens => Act::SetTimes { times: self.times()? },
            Op::SetXattr => self.set_xattr(self.data(0), self.data(1), self.data(2), self.word(self.call.data + 3))?,
            Op::SetXattrArgs => self.set_xattr_args()?,
            Op::RemoveXattr => Act::RemoveXattr { name: self.xattr_name(self.data(0))? },
            Op::SetAttr => Act::SetAttr { attr: self.file_attr()? },
            Op::Access => self.access()?,
            Op::Bind => Act::Bind { socket: self.caller.take_fd(self.descriptor(0)).or_continue()? },
            Op::Open | Op::OpenHow | Op::Creat | Op::Link | Op::Rename | Op::Connect => return Err(Reply::Continue),
        })
    }

    fn access(&self) -> Step<Act> {
        let mode = self.mode();
        if mode & !ACCESS_MODES != 0 {
            return Err(Reply::Continue);
        }
        Ok(Act::Access { mode, effective: self.flags() & at::EACCESS != 0 })
    }

    fn times(&self) -> Step<Option<[(i64, i64); 2]>> {
        let address = self.data(0);
        if address == 0 {
            return Ok(None);
        }
        if self.call.op == Op::Utime {
            let [access, change] = self.longs::<2>(address)?;
            return Ok(Some([(access, 0), (change, 0)]));
        }
        let [a_sec, a_part, m_sec, m_part] = self.longs::<4>(address)?;
        if self.call.op == Op::Utimens {
            return Ok(Some([(a_sec, a_part), (m_sec, m_part)]));
        }
        let valid = [a_part, m_part].iter().all(|part| (0..1_000_000).contains(part));
        if valid { Ok(Some([(a_sec, a_part * 1000), (m_sec, m_part * 1000)])) } else { Err(Reply::Continue) }
    }

    fn longs<const N: usize>(&self, address: u64) -> Step<[i64; N]> {
        let mut bytes = [[0; 8]; N];
        self.caller.read(address, bytes.as_flattened_mut()).or_continue()?;
        Ok(bytes.map(i64::from_ne_bytes))
    }

    fn set_xattr(&self, name: u64, value: u64, size: u64, flags: u32) -> Step<Act> {
        // Newer kernels say so too, 6.1 looks at the mount first and would call it read-only.
        let size = usize::try_from(size).ok().filter(|_| size <= XATTR_SIZE_MAX).ok_or(Reply::Errno(Errno::TOOBIG))?;
        let mut bytes = vec![0; size];
        if size > 0 {
            self.caller.read(value, &mut bytes).or_continue()?;
        }
        Ok(Act::SetXattr { name: self.xattr_name(name)?, value: bytes, flags })
    }

    /// `struct xattr_args { u64 value; u32 size; u32 flags; }`
    fn set_xattr_args(&self) -> Step<Act> {
        if self.data(2) != 16 {
            return Err(Reply::Continue);
        }
        let [value, rest] = self.longs::<2>(self.data(1))?.map(i64::cast_unsigned);
        let flags = u32::try_from(rest >> 32).unwrap_or(u32::MAX);
        self.set_xattr(self.data(0), value, rest & 0xFFFF_FFFF, flags)
    }

    /// `ERANGE` for names that are none, as with [`Self::set_xattr`]'s size.
    fn xattr_name(&self, address: u64) -> Step<Vec<u8>> {
        let name = self.text(address)?;
        if (1..=XATTR_NAME_MAX).contains(&name.len()) { Ok(name) } else { Err(Reply::Errno(Errno::RANGE)) }
    }

    fn file_attr(&self) -> Step<Vec<u8>> {
        let len = usize::try_from(self.data(1)).ok().filter(|len| *len <= 4096).ok_or(Reply::Continue)?;
        let mut attr = vec![0; len];
        self.caller.read(self.data(0), &mut attr).or_continue()?;
        Ok(attr)
    }
}

impl Opening {
    fn new(flags: u32, mode: u32, resolve: u64) -> Self {
        Self {
            flags: OFlags::from_bits_retain(flags),
            mode: mode & 0o7777,
            resolve: ResolveFlags::from_bits_retain(resolve),
        }
    }

    /// `O_TMPFILE`: a file without a name, in the directory that the path is.
    pub(super) fn is_nameless(&self) -> bool {
        self.flags.contains(OFlags::TMPFILE)
    }

    /// What it means to the rules.
    pub(super) fn change(&self) -> Change {
        if self.is_nameless() { Change::Nameless } else { Change::Content }
    }

    pub(super) fn creates(&self) -> bool {
        self.flags.contains(OFlags::CREATE)
    }

    /// The name must not exist.
    pub(super) fn is_exclusive(&self) -> bool {
        self.flags.contains(OFlags::CREATE | OFlags::EXCL)
    }

    /// Is something written if the file exists?
    pub(super) fn writes(&self) -> bool {
        self.flags.bits() & (oflag::ACCMODE | oflag::TRUNC) != 0
    }

    /// Does it fail or change nothing, whatever the rules say, because the name is there, or because it is not?
    pub(super) fn is_idle(&self, exists: bool) -> bool {
        if exists { self.is_exclusive() || !(self.writes() || self.is_nameless()) } else { !self.creates() }
    }

    fn last(&self) -> Last {
        if self.is_nameless() {
            Last::Directory
        } else if self.flags.contains(OFlags::NOFOLLOW) || self.is_exclusive() {
            Last::Name
        } else {
            Last::Open
        }
    }
}

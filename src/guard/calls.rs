//! The system calls that change what a path names: what each is called, its number, and where its arguments are.
//!
//! Filter and broker both read this one table, so that nothing is notified that the broker does not know. Numbers are
//! written down for every architecture, whatever the host: a filter can be checked where it does not run. Sources:
//! `arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h` of Linux 6.18.
#![forbid(unsafe_code)]

use super::attempt::LENGTHS;

/// A processor architecture, by the numbers of its system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// The architecture this binary was built for.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Self = Self::X86_64;
    /// The architecture this binary was built for.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Self = Self::Aarch64;

    /// What `seccomp_data.arch` says for its native calls (`AUDIT_ARCH_*`).
    #[must_use]
    pub const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xC000_003E,
            Self::Aarch64 => 0xC000_00B7,
        }
    }
}

/// What a call does. Two calls with the same operation differ in where their arguments are only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Open,
    /// `open_how` lies in memory.
    OpenHow,
    /// `open` with `O_CREAT|O_WRONLY|O_TRUNC`.
    Creat,
    Mkdir,
    Mknod,
    Symlink,
    Link,
    Rename,
    Unlink,
    Rmdir,
    Truncate,
    Chmod,
    Chown,
    /// Times as `struct utimbuf` (seconds).
    Utime,
    /// Times as two `struct timeval` (microseconds).
    Utimes,
    /// Times as two `struct timespec` (nanoseconds, or `UTIME_NOW`, `UTIME_OMIT`).
    Utimens,
    SetXattr,
    /// Value, size and flags lie in memory (`struct xattr_args`).
    SetXattrArgs,
    RemoveXattr,
    SetAttr,
    Access,
    Bind,
    /// Only looked at: it is never carried out for the caller.
    Connect,
}

/// How a call says which file it means; the numbers are argument positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A path, relative to the working directory.
    Path { path: usize },
    /// A path, relative to a directory's descriptor.
    At { dir: usize, path: usize },
    /// An open descriptor.
    Descriptor { fd: usize },
    /// A socket's descriptor and a `sockaddr` with its length.
    Address { socket: usize, address: usize, len: usize },
}

/// Does a call follow a symbolic link in the last step?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    Never,
    Always,
    /// Unless `AT_SYMLINK_NOFOLLOW` is among its flags.
    UnlessTold,
    /// Only if `AT_SYMLINK_FOLLOW` is among its flags.
    IfTold,
}

/// Which of the calls with this number are handed to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    Always,
    /// Those where the argument has one of these bits.
    Bits {
        arg: usize,
        mask: u32,
    },
    /// Those where the argument is above this.
    Above {
        arg: usize,
        least: u32,
    },
    /// Those where the argument is one of these, in a run without a network.
    Offline {
        arg: usize,
        values: [u32; 3],
    },
}

/// One system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub name: &'static str,
    pub op: Op,
    pub x86_64: Option<u32>,
    pub aarch64: Option<u32>,
    pub place: Place,
    /// The new name, of calls with two.
    pub second: Option<Place>,
    pub follow: Follow,
    /// `AT_*`, `O_*` or `RENAME_*` flags.
    pub flags: Option<usize>,
    /// Permission bits, or the bits asked for by `access`.
    pub mode: Option<usize>,
    /// The first argument that belongs to the operation alone: a length, an owner, times, an attribute's name, the
    /// text of a link.
    pub data: usize,
    pub notify: Notify,
}

impl Call {
    /// Its number, where the architecture has it.
    #[must_use]
    pub fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }

    const fn new(name: &'static str, op: Op, numbers: (Option<u32>, Option<u32>)) -> Self {
        Self {
            name,
            op,
            x86_64: numbers.0,
            aarch64: numbers.1,
            place: Place::Path { path: 0 },
            second: None,
            follow: Follow::Never,
            flags: None,
            mode: None,
            data: 1,
            notify: Notify::Always,
        }
    }

    const fn at(mut self, dir: usize, path: usize) -> Self {
        self.place = Place::At { dir, path };
        self
    }

    const fn path(mut self, path: usize) -> Self {
        self.place = Place::Path { path };
        self
    }

    const fn fd(mut self) -> Self {
        self.place = Place::Descriptor { fd: 0 };
        self
    }

    const fn to(mut self, path: usize) -> Self {
        self.second = Some(Place::Path { path });
        self
    }

    const fn to_at(mut self, dir: usize, path: usize) -> Self {
        self.second = Some(Place::At { dir, path });
        self
    }

    const fn follow(mut self, follow: Follow) -> Self {
        self.follow = follow;
        self
    }

    const fn flags(mut self, arg: usize) -> Self {
        self.flags = Some(arg);
        self
    }

    const fn mode(mut self, arg: usize) -> Self {
        self.mode = Some(arg);
        self
    }

    const fn data(mut self, arg: usize) -> Self {
        self.data = arg;
        self
    }

    const fn bits(mut self, arg: usize, mask: u32) -> Self {
        self.notify = Notify::Bits { arg, mask };
        self
    }

    const fn address(mut self) -> Self {
        self.place = Place::Address { socket: 0, address: 1, len: 2 };
        // Two bytes are the family alone: the kernel picks an abstract name.
        self.notify = Notify::Above { arg: 2, least: 2 };
        self
    }

    const fn offline(mut self) -> Self {
        self = self.address();
        self.notify = Notify::Offline { arg: 2, values: LENGTHS };
        self
    }
}

/// `O_*` bits; those used here are the same on both architectures.
pub mod oflag {
    pub const ACCMODE: u32 = 0o3;
    pub const CREAT: u32 = 0o100;
    pub const TRUNC: u32 = 0o1000;
    /// `__O_TMPFILE` without the `O_DIRECTORY` that `O_TMPFILE` also has.
    pub const TMPFILE: u32 = 0o20_000_000;
    /// An open with one of these can change something.
    pub const CHANGES: u32 = ACCMODE | CREAT | TRUNC | TMPFILE;
}

/// `W_OK` of `access(2)`.
pub const W_OK: u32 = 2;

const fn both(x86_64: u32, aarch64: u32) -> (Option<u32>, Option<u32>) {
    (Some(x86_64), Some(aarch64))
}

/// A legacy call that newer architectures do not have.
const fn x86(number: u32) -> (Option<u32>, Option<u32>) {
    (Some(number), None)
}

/// A call from after the numbers were unified (Linux 5.1).
const fn same(number: u32) -> (Option<u32>, Option<u32>) {
    both(number, number)
}

/// Every call that is handed to the broker, the most frequent first (the filter asks in this order).
pub static CALLS: &[Call] = &[
    Call::new("openat", Op::Open, both(257, 56)).at(0, 1).flags(2).mode(3).bits(2, oflag::CHANGES),
    Call::new("open", Op::Open, x86(2)).flags(1).mode(2).bits(1, oflag::CHANGES),
    Call::new("access", Op::Access, x86(21)).mode(1).follow(Follow::Always).bits(1, W_OK),
    Call::new("faccessat", Op::Access, both(269, 48)).at(0, 1).mode(2).follow(Follow::Always).bits(2, W_OK),
    Call::new("faccessat2", Op::Access, same(439)).at(0, 1).mode(2).flags(3).follow(Follow::UnlessTold).bits(2, W_OK),
    Call::new("unlink", Op::Unlink, x86(87)),
    Call::new("unlinkat", Op::Unlink, both(263, 35)).at(0, 1).flags(2),
    Call::new("rename", Op::Rename, x86(82)).to(1),
    Call::new("renameat", Op::Rename, both(264, 38)).at(0, 1).to_at(2, 3),
    Call::new("renameat2", Op::Rename, both(316, 276)).at(0, 1).to_at(2, 3).flags(4),
    Call::new("mkdir", Op::Mkdir, x86(83)).mode(1),
    Call::new("mkdirat", Op::Mkdir, both(258, 34)).at(0, 1).mode(2),
    Call::new("rmdir", Op::Rmdir, x86(84)),
    Call::new("chmod", Op::Chmod, x86(90)).mode(1).follow(Follow::Always),
    Call::new("fchmod", Op::Chmod, both(91, 52)).fd().mode(1),
    Call::new("fchmodat", Op::Chmod, both(268, 53)).at(0, 1).mode(2).follow(Follow::Always),
    Call::new("fchmodat2", Op::Chmod, same(452)).at(0, 1).mode(2).flags(3).follow(Follow::UnlessTold),
    Call::new("utimensat", Op::Utimens, both(280, 88)).at(0, 1).data(2).flags(3).follow(Follow::UnlessTold),
    Call::new("utime", Op::Utime, x86(132)).follow(Follow::Always),
    Call::new("utimes", Op::Utimes, x86(235)).follow(Follow::Always),
    Call::new("futimesat", Op::Utimes, x86(261)).at(0, 1).data(2).follow(Follow::Always),
    Call::new("symlink", Op::Symlink, x86(88)).path(1).data(0),
    Call::new("symlinkat", Op::Symlink, both(266, 36)).at(1, 2).data(0),
    Call::new("link", Op::Link, x86(86)).to(1),
    Call::new("linkat", Op::Link, both(265, 37)).at(0, 1).to_at(2, 3).flags(4).follow(Follow::IfTold),
    Call::new("creat", Op::Creat, x86(85)).mode(1),
    Call::new("openat2", Op::OpenHow, same(437)).at(0, 1).data(2),
    Call::new("truncate", Op::Truncate, both(76, 45)).follow(Follow::Always),
    Call::new("mknod", Op::Mknod, x86(133)).mode(1).data(2),
    Call::new("mknodat", Op::Mknod, both(259, 33)).at(0, 1).mode(2).data(3),
    Call::new("chown", Op::Chown, x86(92)).follow(Follow::Always),
    Call::new("lchown", Op::Chown, x86(94)),
    Call::new("fchown", Op::Chown, both(93, 55)).fd(),
    Call::new("fchownat", Op::Chown, both(260, 54)).at(0, 1).data(2).flags(4).follow(Follow::UnlessTold),
    Call::new("setxattr", Op::SetXattr, both(188, 5)).follow(Follow::Always),
    Call::new("lsetxattr", Op::SetXattr, both(189, 6)),
    Call::new("fsetxattr", Op::SetXattr, both(190, 7)).fd(),
    Call::new("setxattrat", Op::SetXattrArgs, same(463)).at(0, 1).flags(2).data(3).follow(Follow::UnlessTold),
    Call::new("removexattr", Op::RemoveXattr, both(197, 14)).follow(Follow::Always),
    Call::new("lremovexattr", Op::RemoveXattr, both(198, 15)),
    Call::new("fremovexattr", Op::RemoveXattr, both(199, 16)).fd(),
    Call::new("removexattrat", Op::RemoveXattr, same(466)).at(0, 1).flags(2).data(3).follow(Follow::UnlessTold),
    Call::new("file_setattr", Op::SetAttr, same(469)).at(0, 1).data(2).flags(4).follow(Follow::UnlessTold),
    Call::new("bind", Op::Bind, both(49, 200)).address(),
    Call::new("connect", Op::Connect, both(42, 203)).offline(),
];

/// Calls by number, for the broker.
#[derive(Debug)]
pub struct Table(Vec<Option<&'static Call>>);

impl Table {
    /// The calls of an architecture.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        let mut by_number = Vec::new();
        for call in CALLS {
            if let Some(number) = call.number(arch).map(|number| number as usize) {
                by_number.resize(by_number.len().max(number + 1), None);
                by_number[number] = Some(call);
            }
        }
        Self(by_number)
    }

    /// The call with this number.
    #[must_use]
    pub fn get(&self, number: i32) -> Option<&'static Call> {
        usize::try_from(number).ok().and_then(|number| *self.0.get(number)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let mut numbers: Vec<_> = CALLS.iter().filter_map(|call| call.number(arch)).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all, "{arch:?}");
        }
    }

    #[test]
    fn new_architectures_have_no_call_of_their_own() {
        assert!(CALLS.iter().all(|call| call.x86_64.is_some()));
    }

    #[test]
    fn table_finds_what_is_listed() {
        let table = Table::new(Arch::X86_64);
        assert_eq!(table.get(257).map(|call| call.name), Some("openat"));
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(-1), None);
        assert_eq!(table.get(100_000), None);
    }
}

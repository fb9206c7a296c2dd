//! The fast path: a library that a command's dynamically linked programs are started with (`LD_PRELOAD`).
//!
//! The sandbox's filter cannot see paths, so every call that may change one is first put to the supervisor, also in
//! directories that can simply be written. It is asked in order to *grant*: without it the kernel refuses by itself, with
//! `EROFS`. So nothing is lost by trying first. The functions here make such calls from one instruction at a known address,
//! which the filter lets pass; where the kernel says `EROFS`, or `EXDEV` (for two names, which the supervisor can change on
//! the host's one mount), they make the call again the ordinary way. Nothing was done by then.
//!
//! Whoever forges that instruction gains nothing: what the filter refuses without asking it refuses here too.
//!
//! No libc of its own: of the program's it needs `__errno_location` only, which glibc and musl have. It allocates nothing,
//! opens nothing and works in signal handlers and after `vfork`. What it does not do: `open` and its like are no
//! cancellation points here (`pthreads(7)`).
#![no_std]

use core::arch::asm;
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

include!("page.rs");
const PAGE_SIZE: usize = 4096;
/// `syscall; ret`
const CODE: [u8; 3] = [0x0f, 0x05, 0xc3];

/// The page is there.
static READY: AtomicBool = AtomicBool::new(false);

mod number {
    pub const MMAP: i64 = 9;
    pub const MPROTECT: i64 = 10;
    pub const MUNMAP: i64 = 11;
    pub const TRUNCATE: i64 = 76;
    pub const FCHMOD: i64 = 91;
    pub const FCHOWN: i64 = 93;
    pub const SETXATTR: i64 = 188;
    pub const LSETXATTR: i64 = 189;
    pub const FSETXATTR: i64 = 190;
    pub const REMOVEXATTR: i64 = 197;
    pub const LREMOVEXATTR: i64 = 198;
    pub const FREMOVEXATTR: i64 = 199;
    pub const OPENAT: i64 = 257;
    pub const MKDIRAT: i64 = 258;
    pub const FCHOWNAT: i64 = 260;
    pub const NEWFSTATAT: i64 = 262;
    pub const UNLINKAT: i64 = 263;
    pub const LINKAT: i64 = 265;
    pub const SYMLINKAT: i64 = 266;
    pub const FCHMODAT: i64 = 268;
    pub const FACCESSAT: i64 = 269;
    pub const UTIMENSAT: i64 = 280;
    pub const RENAMEAT2: i64 = 316;
    pub const FCHMODAT2: i64 = 452;
}

const AT_FDCWD: c_int = -100;
const AT_SYMLINK_NOFOLLOW: c_int = 0x100;
const AT_REMOVEDIR: c_int = 0x200;
const O_WRONLY: c_int = 1;
const O_CREAT: c_int = 0o100;
const O_TRUNC: c_int = 0o1000;

const EINVAL: c_int = 22;
const EXDEV: i64 = 18;
const EROFS: i64 = 30;
const ENOSYS: i64 = 38;
const EOPNOTSUPP: c_int = 95;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Called by the loader (`DT_INIT`). Where the page cannot be had, every call goes the ordinary way.
#[unsafe(no_mangle)]
extern "C" fn stockade_preload_init() {
    // PROT_READ|PROT_WRITE; MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED_NOREPLACE (Linux 4.17). An older kernel, or an emulated one,
    // takes the address for a hint.
    let (read_write, flags) = (3, 0x02 | 0x20 | 0x10_0000);
    let page = unsafe { ordinary(number::MMAP, [PAGE as i64, PAGE_SIZE as i64, read_write, flags, -1, 0]) };
    if page != PAGE as i64 {
        if page > 0 {
            unsafe { ordinary(number::MUNMAP, [page, PAGE_SIZE as i64, 0, 0, 0, 0]) };
        }
        return;
    }
    unsafe { ptr::copy_nonoverlapping(CODE.as_ptr(), PAGE as *mut u8, CODE.len()) };
    let read_execute = 5;
    let done = unsafe { ordinary(number::MPROTECT, [PAGE as i64, PAGE_SIZE as i64, read_execute, 0, 0, 0]) };
    READY.store(done == 0, Ordering::Relaxed);
}

/// A system call; gives what the kernel does, an error as its negative number.
unsafe fn ordinary(number: i64, args: [i64; 6]) -> i64 {
    let result;
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same from the known address.
unsafe fn passed(number: i64, args: [i64; 6]) -> i64 {
    let result;
    unsafe {
        asm!(
            "call {page}",
            page = in(reg) PAGE,
            inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Try by ourselves, then ask. As libc gives it: -1 and `errno`.
unsafe fn call(number: i64, args: [i64; 6]) -> c_int {
    let mut result = -EROFS;
    if READY.load(Ordering::Relaxed) {
        result = unsafe { passed(number, args) };
    }
    if result == -EROFS || result == -EXDEV {
        result = unsafe { ordinary(number, args) };
    }
    unsafe { returned(result) }
}

unsafe fn returned(result: i64) -> c_int {
    if result < 0 {
        return unsafe { failed((-result) as c_int) };
    }
    result as c_int
}

unsafe fn failed(errno: c_int) -> c_int {
    unsafe { *__errno_location() = errno };
    -1
}

macro_rules! args {
    ($($arg:expr),*) => {{
        let given = [$($arg as i64),*];
        let mut args = [0; 6];
        let mut index = 0;
        while index < given.len() {
            args[index] = given[index];
            index += 1;
        }
        args
    }};
}

/// Functions that are one call.
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) = $number:ident($($value:expr),*);)*) => {
        $(#[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $kind),*) -> c_int {
            unsafe { call(number::$number, args![$($value),*]) }
        })*
    };
}

type Path = *const c_char;

// `open` is variadic: its mode comes in the register of a third argument (System V ABI), and the kernel looks at it only
// where a file is made.
calls! {
    open(path: Path, flags: c_int, mode: c_uint) = OPENAT(AT_FDCWD, path, flags, mode);
    open64(path: Path, flags: c_int, mode: c_uint) = OPENAT(AT_FDCWD, path, flags, mode);
    openat(dir: c_int, path: Path, flags: c_int, mode: c_uint) = OPENAT(dir, path, flags, mode);
    openat64(dir: c_int, path: Path, flags: c_int, mode: c_uint) = OPENAT(dir, path, flags, mode);
    __open_2(path: Path, flags: c_int) = OPENAT(AT_FDCWD, path, flags);
    __open64_2(path: Path, flags: c_int) = OPENAT(AT_FDCWD, path, flags);
    __openat_2(dir: c_int, path: Path, flags: c_int) = OPENAT(dir, path, flags);
    __openat64_2(dir: c_int, path: Path, flags: c_int) = OPENAT(dir, path, flags);
    creat(path: Path, mode: c_uint) = OPENAT(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
    creat64(path: Path, mode: c_uint) = OPENAT(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
    mkdir(path: Path, mode: c_uint) = MKDIRAT(AT_FDCWD, path, mode);
    mkdirat(dir: c_int, path: Path, mode: c_uint) = MKDIRAT(dir, path, mode);
    unlink(path: Path) = UNLINKAT(AT_FDCWD, path, 0);
    unlinkat(dir: c_int, path: Path, flags: c_int) = UNLINKAT(dir, path, flags);
    rmdir(path: Path) = UNLINKAT(AT_FDCWD, path, AT_REMOVEDIR);
    rename(old: Path, new: Path) = RENAMEAT2(AT_FDCWD, old, AT_FDCWD, new, 0);
    renameat(from: c_int, old: Path, to: c_int, new: Path) = RENAMEAT2(from, old, to, new, 0);
    renameat2(from: c_int, old: Path, to: c_int, new: Path, flags: c_uint) = RENAMEAT2(from, old, to, new, flags);
    link(old: Path, new: Path) = LINKAT(AT_FDCWD, old, AT_FDCWD, new, 0);
    linkat(from: c_int, old: Path, to: c_int, new: Path, flags: c_int) = LINKAT(from, old, to, new, flags);
    symlink(text: Path, new: Path) = SYMLINKAT(text, AT_FDCWD, new);
    symlinkat(text: Path, to: c_int, new: Path) = SYMLINKAT(text, to, new);
    chmod(path: Path, mode: c_uint) = FCHMODAT(AT_FDCWD, path, mode);
    chown(path: Path, uid: c_uint, gid: c_uint) = FCHOWNAT(AT_FDCWD, path, uid, gid, 0);
    lchown(path: Path, uid: c_uint, gid: c_uint) = FCHOWNAT(AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW);
    fchownat(dir: c_int, path: Path, uid: c_uint, gid: c_uint, flags: c_int) = FCHOWNAT(dir, path, uid, gid, flags);
    truncate(path: Path, length: c_long) = TRUNCATE(path, length);
    truncate64(path: Path, length: c_long) = TRUNCATE(path, length);
    access(path: Path, mode: c_int) = FACCESSAT(AT_FDCWD, path, mode);
    fchmod(fd: c_int, mode: c_uint) = FCHMOD(fd, mode);
    fchown(fd: c_int, uid: c_uint, gid: c_uint) = FCHOWN(fd, uid, gid);
    futimens(fd: c_int, times: *const [Time; 2]) = UTIMENSAT(fd, 0, times, 0);
    setxattr(path: Path, name: Path, value: *const c_void, size: usize, flags: c_int) = SETXATTR(path, name, value, size, flags);
    lsetxattr(path: Path, name: Path, value: *const c_void, size: usize, flags: c_int) = LSETXATTR(path, name, value, size, flags);
    fsetxattr(fd: c_int, name: Path, value: *const c_void, size: usize, flags: c_int) = FSETXATTR(fd, name, value, size, flags);
    removexattr(path: Path, name: Path) = REMOVEXATTR(path, name);
    lremovexattr(path: Path, name: Path) = LREMOVEXATTR(path, name);
    fremovexattr(fd: c_int, name: Path) = FREMOVEXATTR(fd, name);
}

/// Linux 6.6 has a call for flags. Before, a link has no mode of its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn fchmodat(dir: c_int, path: Path, mode: c_uint, flags: c_int) -> c_int {
    if flags == 0 {
        return unsafe { call(number::FCHMODAT, args![dir, path, mode]) };
    }
    let result = unsafe { ordinary(number::FCHMODAT2, args![dir, path, mode, flags]) };
    if result != -ENOSYS || flags != AT_SYMLINK_NOFOLLOW {
        return unsafe { returned(result) };
    }
    // `struct stat` is 144 bytes, and its mode lies at 24.
    let mut stat = [0u32; 36];
    let result = unsafe { ordinary(number::NEWFSTATAT, args![dir, path, stat.as_mut_ptr(), flags]) };
    match result {
        0 if stat[6] & 0o170_000 == 0o120_000 => unsafe { failed(EOPNOTSUPP) },
        0 => unsafe { call(number::FCHMODAT, args![dir, path, mode]) },
        _ => unsafe { returned(result) },
    }
}

/// Seconds, and nano- or microseconds.
type Time = [c_long; 2];

/// Without a path libc refuses what the kernel takes for the descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn utimensat(dir: c_int, path: Path, times: *const [Time; 2], flags: c_int) -> c_int {
    if path.is_null() {
        return unsafe { failed(EINVAL) };
    }
    unsafe { call(number::UTIMENSAT, args![dir, path, times, flags]) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimes(path: Path, times: *const [Time; 2]) -> c_int {
    unsafe { set_times(path, times, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lutimes(path: Path, times: *const [Time; 2]) -> c_int {
    unsafe { set_times(path, times, AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utime(path: Path, times: *const [c_long; 2]) -> c_int {
    if times.is_null() {
        return unsafe { utimes(path, ptr::null()) };
    }
    let [access, change] = unsafe { times.read() };
    unsafe { utimes(path, &raw const *&[[access, 0], [change, 0]]) }
}

unsafe fn set_times(path: Path, times: *const [Time; 2], flags: c_int) -> c_int {
    if times.is_null() {
        return unsafe { call(number::UTIMENSAT, args![AT_FDCWD, path, 0, flags]) };
    }
    let mut exact = unsafe { times.read() };
    for time in &mut exact {
        // Where a nanosecond has a meaning of its own (UTIME_NOW) it is above a second, as these would be.
        if !(0..1_000_000).contains(&time[1]) {
            return unsafe { failed(EINVAL) };
        }
        time[1] *= 1000;
    }
    let times: *const c_void = exact.as_ptr().cast();
    unsafe { call(number::UTIMENSAT, args![AT_FDCWD, path, times, flags]) }
}

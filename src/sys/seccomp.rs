//! `seccomp(2)`: put a filter on the calling thread.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::{Errno, Error, Result};

/// One instruction of classic BPF, laid out as the kernel's `sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction {
    pub code: u16,
    /// How many instructions are skipped when the condition holds.
    pub jt: u8,
    /// How many are skipped when it does not.
    pub jf: u8,
    pub k: u32,
}

/// The longest program that the kernel takes (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;

/// Filter this thread and what it makes from now on. The thread must have `no_new_privs`.
pub fn install(program: &[Instruction]) -> Result<()> {
    set_filter(program, 0).map(drop)
}

/// Like [`install`], and get the listener that is told of what the program answers `SECCOMP_RET_USER_NOTIF`.
///
/// `EBUSY`: a filter above this one has a listener already; the kernel allows one for each chain of filters. With
/// `WAIT_KILLABLE_RECV` (Linux 5.19) a caller whose request was received waits through signals, so that a call that was
/// carried out is never restarted and carried out again.
pub fn install_with_listener(program: &[Instruction]) -> Result<OwnedFd> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let raw = set_filter(program, flags)?;
    // SAFETY: with NEW_LISTENER a success is a new descriptor that nobody else knows; the kernel makes it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Does the kernel know user notification with all that is asked of it here (Linux 5.19)?
///
/// It looks at the flags before it looks for a program; without one it says `EFAULT`. Whether a filter above has a
/// listener already, only [`install_with_listener`] finds out.
#[must_use]
pub fn can_notify() -> bool {
    knows_flags(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

/// Does the kernel know user notification at all (Linux 5.0)?
#[must_use]
pub fn knows_listener() -> bool {
    knows_flags(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

/// A program that asks the listener about `getppid(2)` alone and allows everything else: for trying it out.
#[must_use]
pub fn ask_about_parent() -> [Instruction; 4] {
    let number = u32::try_from(libc::SYS_getppid).unwrap_or(u32::MAX);
    let line = |code, jf, k| Instruction { code, jt: 0, jf, k };
    [
        line(BPF_LOAD_WORD, 0, 0),
        line(BPF_JUMP_EQUAL, 1, number),
        line(BPF_RETURN, 0, libc::SECCOMP_RET_USER_NOTIF),
        line(BPF_RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

const BPF_LOAD_WORD: u16 = 0x20;
const BPF_JUMP_EQUAL: u16 = 0x15;
const BPF_RETURN: u16 = 0x06;

fn knows_flags(flags: libc::c_ulong) -> bool {
    let none = std::ptr::null::<libc::sock_fprog>();
    // SAFETY: a null program is refused, nothing is installed.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, none) };
    result == -1 && super::last_errno() == Errno::FAULT
}

fn set_filter(program: &[Instruction], flags: libc::c_ulong) -> Result<RawFd> {
    let failed = |errno| {
        let args = format_args!("SECCOMP_SET_MODE_FILTER, {flags:#x}, [{} instructions]", program.len());
        Error::new("seccomp", args, errno)
    };
    let len = u16::try_from(program.len()).map_err(|_| failed(Errno::INVAL))?;
    let prog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `Instruction` has the layout of `sock_filter`; the kernel only reads `len` of them, during the call.
    let got = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const prog) };
    match RawFd::try_from(got) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(failed(super::last_errno())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_installs_nothing() {
        let known = can_notify();
        assert_eq!(can_notify(), known);
        assert!(std::fs::read_to_string("/proc/thread-self/status").expect("status").contains("Seccomp_filters:"));
    }
}

//! Is a call, or a flag of one, known to this kernel? Each is made with arguments that cannot do anything.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

use super::{Errno, last_errno};

/// A call that kernels of the last ten years learnt at different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    PidfdSendSignal,
    OpenTree,
    MoveMount,
    Fsopen,
    Fsconfig,
    Fsmount,
    PidfdOpen,
    CloseRange,
    Openat2,
    PidfdGetfd,
    Faccessat2,
    MountSetattr,
    FileSetattr,
}

impl Call {
    fn number(self) -> libc::c_long {
        match self {
            Self::PidfdSendSignal => libc::SYS_pidfd_send_signal,
            Self::OpenTree => libc::SYS_open_tree,
            Self::MoveMount => libc::SYS_move_mount,
            Self::Fsopen => libc::SYS_fsopen,
            Self::Fsconfig => libc::SYS_fsconfig,
            Self::Fsmount => libc::SYS_fsmount,
            Self::PidfdOpen => libc::SYS_pidfd_open,
            Self::CloseRange => libc::SYS_close_range,
            Self::Openat2 => libc::SYS_openat2,
            Self::PidfdGetfd => libc::SYS_pidfd_getfd,
            Self::Faccessat2 => libc::SYS_faccessat2,
            Self::MountSetattr => libc::SYS_mount_setattr,
            // As in `act`: libc has no name for it yet.
            Self::FileSetattr => 469,
        }
    }
}

/// Does anybody answer the call? Whether it is permitted is another question: `EPERM` is an answer too.
#[must_use]
pub fn knows(call: Call) -> bool {
    // SAFETY: no descriptor is -1, no flags are all bits, no address is the last one: each of these calls is refused.
    let result = unsafe { libc::syscall(call.number(), -1_i64, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64) };
    result != -1 || last_errno() != Errno::NOSYS
}

/// `CLOSE_RANGE_CLOEXEC`, of a descriptor that cannot be.
#[must_use]
pub fn knows_close_range_cloexec() -> bool {
    // SAFETY: no descriptor has the highest number, so none is changed.
    unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}

/// `PIDFD_THREAD`, of the calling thread.
#[must_use]
pub fn knows_pidfd_thread() -> bool {
    let (thread, flags) =
        (rustix::thread::gettid(), rustix::process::PidfdFlags::from_bits_retain(libc::O_EXCL as u32));
    rustix::process::pidfd_open(thread, flags).is_ok()
}

/// `STATX_MNT_ID`, of the root directory.
#[must_use]
pub fn knows_mount_id() -> bool {
    let got = rustix::fs::statx(CWD, "/", AtFlags::empty(), StatxFlags::MNT_ID);
    got.is_ok_and(|x| x.stx_mask & StatxFlags::MNT_ID.bits() != 0)
}

/// Is something mounted at `path` (`STATX_ATTR_MOUNT_ROOT`, Linux 5.8)? `None`: the kernel does not tell.
///
/// The root of a process that is none was made by `chroot(2)`.
#[must_use]
pub fn is_mount_root(path: &Path) -> Option<bool> {
    let x = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS).ok()?;
    let told = x.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    told.then(|| x.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_test_machine_has() {
        assert!(knows(Call::Openat2) && knows(Call::MountSetattr) && knows(Call::CloseRange));
        assert!(knows_close_range_cloexec() && knows_mount_id());
        assert_eq!(is_mount_root(Path::new("/proc/self/fd")), Some(false));
    }
}

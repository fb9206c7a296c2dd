//! Whether the host lets the caller do something, whatever the policy says.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::may_enter;
use crate::plan::Caller;
use crate::sys::Errno;
use crate::sys::act;
use crate::sys::fs::{self, Stat};

/// What somebody wants to do at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Read,
    /// Change what is there; where nothing is, make it.
    Write,
    /// Give the name to something.
    Name,
}

/// `R_OK`, `W_OK` and `X_OK` of `access(2)`, which are the bits of a mode too.
const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

/// Do owner, mode and mount of what the host has there permit it to a command of the caller's? To what is absent nobody
/// is refused but by the last directory on the way.
#[must_use]
pub fn permits(caller: &Caller, path: &Path, wanted: Wanted) -> bool {
    let directory = || path.ancestors().skip(1).find_map(|dir| allowed(caller, dir, WRITE | SEARCH)).unwrap_or(true);
    match wanted {
        Wanted::Read => allowed(caller, path, READ).unwrap_or(true),
        Wanted::Write => allowed(caller, path, WRITE).unwrap_or_else(directory),
        Wanted::Name => directory(),
    }
}

/// `None`: there is nothing.
fn allowed(caller: &Caller, path: &Path, bits: u32) -> Option<bool> {
    if caller.can_map {
        return allowed_without_capabilities(caller, path, bits);
    }
    match act::access(fs::CWD, path.as_os_str().as_bytes(), bits, true) {
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        asked => Some(asked.is_ok()),
    }
}

/// The kernel would answer for root as it is here. Inside, root has no capability.
fn allowed_without_capabilities(caller: &Caller, path: &Path, bits: u32) -> Option<bool> {
    let stat = fs::lstat(path).ok()?;
    let closed = |dir: &Path| fs::lstat(dir).is_ok_and(|stat| !may_enter(&stat, caller));
    Some(!path.ancestors().skip(1).any(closed) && mode_for(&stat, caller) & bits == bits)
}

/// The three bits of a mode that count for the caller.
pub(super) fn mode_for(stat: &Stat, caller: &Caller) -> u32 {
    let shift = match stat {
        _ if stat.uid == caller.uid => 6,
        _ if stat.gid == caller.gid => 3,
        _ => 0,
    };
    (stat.mode >> shift) & 7
}

//! Installs the system call filter in pid 1, and with guarded directories hands its listener to the supervisor.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::message::{self, Report};
use super::setup::Setup;
use super::{Failure, Step};
use crate::guard::calls::Arch;
use crate::guard::filter::{FilterSpec, program};
use crate::policy::Network;
use crate::sys::{self, Errno, fs, seccomp};

fn at<T>(result: sys::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of(Step::InstallFilter, &error))
}

/// Install the filter. Pid 1 makes no notified call from then on: the supervisor could wait for it at that moment.
///
/// Nobody waits for the broker to listen. Until it does, calls that it is to be asked about wait in the kernel, and
/// should it never do, the listener is closed and they fail (`ENOSYS`).
pub(super) fn install(setup: &Setup<'_>) -> Result<(), Failure> {
    let guarded = !setup.plan.guarded.is_empty();
    // openat2 has its mode in memory, where it could become set-user-ID after it was looked at: always refused (ENOSYS), as
    // by a kernel that is too old for it; programs fall back to openat.
    let (preload, offline) = (setup.plan.preloads(), setup.plan.network.value == Network::None);
    let program = program(&FilterSpec { arch: Arch::HOST, guarded, strict: true, preload, offline });
    if !guarded {
        return at(seccomp::install(&program));
    }
    let mounts = guarded_mounts(&setup.plan.guarded)?;
    let listener = seccomp::install_with_listener(&program).map_err(|error| {
        let busy = error.is(Errno::BUSY);
        let failure = Failure::of(Step::InstallFilter, &error);
        if busy { failure.hinting("this runs inside a sandbox that uses seccomp notification itself") } else { failure }
    })?;
    at(message::send(&setup.control, &Report::Guarded { mounts }, &[listener.as_fd()]))
}

/// The mounts that show guarded directories. A writable path that does not exist yet counts by what is there of it.
pub(super) fn guarded_mounts(dirs: &[PathBuf]) -> Result<Vec<u64>, Failure> {
    let mut mounts = Vec::new();
    for path in dirs {
        let mount = at(mount_of(path))?;
        if !mounts.contains(&mount) {
            mounts.push(mount);
        }
    }
    Ok(mounts)
}

fn mount_of(path: &Path) -> sys::Result<u64> {
    match fs::lstat(path) {
        Ok(stat) => Ok(stat.mount),
        Err(error) => match path.parent() {
            Some(parent) if error.is(Errno::NOENT) || error.is(Errno::NOTDIR) => mount_of(parent),
            _ => Err(error),
        },
    }
}

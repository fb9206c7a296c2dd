//! A network namespace that the runs of a session share while one of them lives: a command reaches a server that a job of
//! the session started.
//!
//! The namespace belongs to a user namespace of its own, in which no process stays: every run makes its own user namespace
//! below that one, with limits of its own. To enter, the two are joined by way of a process of a living run. A root
//! caller needs no such user namespace: it may enter any network namespace.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::setup::{Setup, map_one};
use super::{Failure, Step};
use crate::plan::Identity;
use crate::session::Network;
use crate::sys::process::{self, UnshareFlags};
use crate::sys::{self, fs, namespace, socket};

fn at<T>(result: sys::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of(Step::EnterNetwork, &error))
}

/// Enter the session's network namespace, or make it. Gives false where this caller cannot share one.
pub(super) fn enter(setup: &Setup<'_>, mut network: Network) -> Result<bool, Failure> {
    at(network.lock())?;
    let joined = network.find(open).is_some_and(|found| join(setup, &found));
    if !joined && !make(setup)? {
        return Ok(false);
    }
    network.enter(!joined).map_err(|error| Failure::of(Step::EnterNetwork, &error))?;
    Ok(true)
}

/// The network namespace of a process.
fn open(pid: u32) -> Option<OwnedFd> {
    let path = format!("/proc/{pid}/ns/net");
    let found = fs::open(Path::new(&path), fs::OFlags::RDONLY).ok()?;
    let ours = fs::stat(Path::new("/proc/self/ns/net")).ok()?;
    // Never our own, which is the host's.
    (fs::fstat(&found).ok()?.file != ours.file).then_some(found)
}

/// One that cannot be entered is left: it is another caller's.
fn join(setup: &Setup<'_>, network: &OwnedFd) -> bool {
    let join_user = || match setup.plan.identity {
        Identity::One { .. } => namespace::owner(network).and_then(namespace::join_user),
        Identity::Same { .. } => Ok(()),
    };
    join_user().and_then(|()| namespace::join_network(network)).is_ok()
}

fn make(setup: &Setup<'_>) -> Result<bool, Failure> {
    match setup.plan.identity {
        Identity::One { uid, gid } => {
            at(process::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET))?;
            map_one(uid, gid)?;
        }
        Identity::Same { .. } => match process::unshare(UnshareFlags::NEWNET) {
            // It may map users but not make namespaces: its own user namespace will make one that nobody else can enter.
            Err(error) if error.is(sys::Errno::PERM) => return Ok(false),
            made => at(made)?,
        },
    }
    at(socket::loopback_up())?;
    Ok(true)
}

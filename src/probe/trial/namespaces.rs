//! The steps of a launch up to its mounts, one after the other.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{errno, in_child, number, overlay};
use crate::sys::mount::{self, Attributes, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::process::{self, Forked, UnshareFlags, WaitStatus};
use crate::sys::{Errno, Error, Result, fs, layer, socket};

/// One thing that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    UserNamespace,
    MapUser,
    MountNamespace,
    PrivateMounts,
    ReadOnly,
    NewFilesystem,
    CloneDetached,
    Attach,
    UserXattr,
    Whiteout,
    MemoryOverlay,
    IpcNamespace,
    UtsNamespace,
    NetworkNamespace,
    Loopback,
    PidNamespace,
    Proc,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespace => "make a user namespace",
            Self::MapUser => "map the user into it",
            Self::MountNamespace => "make a mount namespace",
            Self::PrivateMounts => "make its mounts private",
            Self::ReadOnly => "make its mounts read-only",
            Self::NewFilesystem => "make a file system in memory",
            Self::CloneDetached => "clone a mount that is attached nowhere",
            Self::Attach => "attach a mount",
            Self::UserXattr => "set an extended attribute in memory",
            Self::Whiteout => "make a whiteout",
            Self::MemoryOverlay => "make an overlay in memory",
            Self::IpcNamespace => "make an IPC namespace",
            Self::UtsNamespace => "make a UTS namespace",
            Self::NetworkNamespace => "make a network namespace",
            Self::Loopback => "bring its loopback up",
            Self::PidNamespace => "make a pid namespace with a process in it",
            Self::Proc => "mount a new /proc",
        })
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tried {
    pub attempt: Attempt,
    refused: Option<i32>,
    /// The call that was refused, with its arguments.
    pub call: String,
}

impl Tried {
    /// The kernel's answer, if that was no.
    #[must_use]
    pub fn refused(&self) -> Option<Errno> {
        self.refused.map(errno)
    }
}

/// Try everything in order, in namespaces that end with the trial. What cannot work after a refusal is not tried.
///
/// # Errors
/// When not even a process can be made.
pub fn namespaces() -> Result<Vec<Tried>> {
    Ok(in_child(|| {
        let mut trial = Trial::default();
        trial.all();
        trial.tried
    })?
    .unwrap_or_default())
}

#[derive(Default)]
pub(super) struct Trial {
    tried: Vec<Tried>,
}

impl Trial {
    /// Remember what came of it; gives the value of a success.
    fn attempt<T>(&mut self, attempt: Attempt, result: Result<T>) -> Option<T> {
        let refused = result.as_ref().err().map(number);
        let call = result.as_ref().err().map_or_else(String::new, ToString::to_string);
        self.tried.push(Tried { attempt, refused, call });
        result.ok()
    }

    fn all(&mut self) {
        if self.enter().is_none() {
            return;
        }
        let set = RDONLY | NOSUID | NODEV;
        let read_only =
            mount::set_attributes(fs::CWD, Path::new("/"), true, Attributes { set, ..Attributes::default() });
        self.attempt(Attempt::ReadOnly, read_only);
        self.memory();
        self.attempt(Attempt::IpcNamespace, process::unshare(UnshareFlags::NEWIPC));
        self.attempt(Attempt::UtsNamespace, process::unshare(UnshareFlags::NEWUTS));
        if self.attempt(Attempt::NetworkNamespace, process::unshare(UnshareFlags::NEWNET)).is_some() {
            self.attempt(Attempt::Loopback, socket::loopback_up());
        }
        self.processes();
    }

    /// A user and a mount namespace.
    pub(super) fn enter(&mut self) -> Option<()> {
        let (uid, gid) = process::user();
        self.attempt(Attempt::UserNamespace, process::unshare(UnshareFlags::NEWUSER))?;
        self.attempt(Attempt::MapUser, map(uid, gid))?;
        self.attempt(Attempt::MountNamespace, process::unshare(UnshareFlags::NEWNS))?;
        let private = Attributes { propagation: mount::PRIVATE, ..Attributes::default() };
        self.attempt(Attempt::PrivateMounts, mount::set_attributes(fs::CWD, Path::new("/"), true, private))
    }

    /// The answer of the last attempt, if it was a refusal.
    pub(super) fn last(mut self) -> Option<Tried> {
        self.tried.pop().filter(|tried| tried.refused.is_some())
    }

    fn memory(&mut self) {
        let Some(tmpfs) =
            self.attempt(Attempt::NewFilesystem, mount::new_filesystem("tmpfs", &[("mode", "0700")], NOSUID | NODEV))
        else {
            return;
        };
        self.attempt(Attempt::CloneDetached, mount::clone_tree(&tmpfs, Path::new("")));
        self.attempt(Attempt::UserXattr, set_xattr(&tmpfs));
        self.attempt(Attempt::Whiteout, layer::whiteout(&tmpfs, Path::new("whiteout")));
        let attached = fs::open_place(Path::new("/dev")).and_then(|dev| mount::attach(&tmpfs, dev));
        if self.attempt(Attempt::Attach, attached).is_some() {
            self.attempt(Attempt::MemoryOverlay, overlay::over_lower(&tmpfs));
        }
    }

    fn processes(&mut self) {
        let made = process::unshare(UnshareFlags::NEWPID).and_then(|()| process::fork());
        match self.attempt(Attempt::PidNamespace, made) {
            Some(Forked::Child) => process::exit_now(mount_proc().err().as_ref().map_or(0, number)),
            Some(Forked::Parent(child)) => {
                let ended = process::wait(Some(child), process::until_end());
                let status = ended.map(|ended| ended.and_then(|(_, status)| WaitStatus::exit_status(status)));
                let result = match status {
                    Ok(Some(0)) => Ok(()),
                    Ok(status) => {
                        let number = status.unwrap_or_else(|| Errno::CHILD.raw_os_error());
                        Err(Error::new("fsmount", format_args!("\"proc\""), errno(number)))
                    }
                    Err(error) => Err(error),
                };
                self.attempt(Attempt::Proc, result);
            }
            None => {}
        }
    }
}

/// One user, as an ordinary user's launch maps it: `setgroups` must be given up before (`user_namespaces(7)`).
fn map(uid: u32, gid: u32) -> Result<()> {
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{uid} {uid} 1\n"))?;
    write("/proc/self/gid_map", &format!("{gid} {gid} 1\n"))
}

fn write(path: &str, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Error::new("write", format_args!("{path:?}, {text:?}"), errno)
    })
}

fn set_xattr(tmpfs: &OwnedFd) -> Result<()> {
    let name = c"user.stockade".to_owned();
    fs::mkdir_at(tmpfs, Path::new("with"), 0o700)?;
    layer::set_xattr(fs::open_beneath(tmpfs, Path::new("with"), fs::OFlags::PATH)?, &name, b"1")
}

fn mount_proc() -> Result<()> {
    let proc = mount::new_filesystem("proc", &[], NOSUID | NODEV | NOEXEC)?;
    mount::attach(proc, fs::open_place(Path::new("/proc"))?)
}

//! The launch as a straight line of named steps: the same names are traced, reported and documented.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One step of a launch, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    PrepareStdio,
    OpenPrivate,
    Fork,
    EnterNetwork,
    Unshare,
    MapUsers,
    PrivatePropagation,
    CloneTrees,
    MakeReadOnly,
    Attach,
    Loopback,
    ForkInit,
    MountProc,
    LimitNamespaces,
    ChangeDirectory,
    Stdio,
    CloseDescriptors,
    DropPrivileges,
    CheckPromises,
    InstallFilter,
    ForkCommand,
    Exec,
    Supervise,
}

impl Step {
    /// All steps, in the order in which they happen.
    pub const ALL: [Self; 23] = [
        Self::PrepareStdio,
        Self::OpenPrivate,
        Self::Fork,
        Self::EnterNetwork,
        Self::Unshare,
        Self::MapUsers,
        Self::PrivatePropagation,
        Self::CloneTrees,
        Self::MakeReadOnly,
        Self::Attach,
        Self::Loopback,
        Self::ForkInit,
        Self::MountProc,
        Self::LimitNamespaces,
        Self::ChangeDirectory,
        Self::Stdio,
        Self::CloseDescriptors,
        Self::DropPrivileges,
        Self::CheckPromises,
        Self::InstallFilter,
        Self::ForkCommand,
        Self::Exec,
        Self::Supervise,
    ];

    /// What is being done, as it reads after "cannot".
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::PrepareStdio => "prepare standard input and output",
            Self::OpenPrivate => "open the session's private directories",
            Self::Fork => "fork the sandbox's process",
            Self::EnterNetwork => "enter the session's network namespace",
            Self::Unshare => "create user and other namespaces",
            Self::MapUsers => "map users into the user namespace",
            Self::PrivatePropagation => "make mounts private",
            Self::CloneTrees => "clone what stays writable",
            Self::MakeReadOnly => "make the host's tree read-only",
            Self::Attach => "attach mounts",
            Self::Loopback => "bring loopback up",
            Self::ForkInit => "fork pid 1 in a pid namespace",
            Self::MountProc => "mount /proc",
            Self::LimitNamespaces => "forbid further user namespaces",
            Self::ChangeDirectory => "enter the working directory",
            Self::Stdio => "set up standard input and output",
            Self::CloseDescriptors => "close descriptors",
            Self::DropPrivileges => "drop privileges",
            Self::CheckPromises => "check the directories that are named to the command",
            Self::InstallFilter => "install the system call filter",
            Self::ForkCommand => "fork the command",
            Self::Exec => "execute the command",
            Self::Supervise => "supervise the command",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

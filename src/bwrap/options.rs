//! What was typed: bubblewrap's options, in order, before anything is looked up on the host.

use std::ffi::OsString;
use std::path::PathBuf;

use super::capability::Capabilities;

/// The command line, read from left to right.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "bubblewrap's switches")]
pub(super) struct Options {
    /// What makes the tree, in order.
    pub(super) steps: Vec<Op>,
    pub(super) unshare: Unshare,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) hostname: Option<OsString>,
    pub(super) chdir: Option<PathBuf>,
    pub(super) argv0: Option<OsString>,
    pub(super) level_prefix: bool,
    pub(super) disable_userns: bool,
    pub(super) assert_userns_disabled: bool,
    pub(super) lock_files: Vec<PathBuf>,
    pub(super) userns: Option<i32>,
    pub(super) userns2: Option<i32>,
    pub(super) pidns: Option<i32>,
    pub(super) userns_block_fd: Option<i32>,
    pub(super) sync_fd: Option<i32>,
    pub(super) block_fd: Option<i32>,
    pub(super) info_fd: Option<i32>,
    pub(super) json_status_fd: Option<i32>,
    pub(super) seccomp: Option<i32>,
    pub(super) seccomps: Vec<i32>,
    pub(super) new_session: bool,
    pub(super) die_with_parent: bool,
    pub(super) as_pid_1: bool,
    pub(super) capabilities: Vec<(bool, Capabilities)>,
    /// Changed while options are read, in order; `None` is "not set".
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) command: Vec<OsString>,
    /// Said on the way, not fatal.
    pub(super) warnings: Vec<String>,
}

/// Namespaces that were asked for.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "bubblewrap's switches")]
pub(super) struct Unshare {
    pub(super) user: bool,
    pub(super) user_try: bool,
    pub(super) ipc: bool,
    pub(super) pid: bool,
    pub(super) net: bool,
    pub(super) uts: bool,
    pub(super) cgroup: bool,
    pub(super) cgroup_try: bool,
}

/// One option that makes a part of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Op {
    /// As it was typed, for messages and reports: `--ro-bind /dev/null /p/.mcp.json`.
    pub(super) option: String,
    pub(super) what: What,
    pub(super) to: PathBuf,
    /// `--perms`
    pub(super) perms: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Bind { source: From, access: Access, optional: bool },
    Tmpfs { size: Option<u64> },
    Proc,
    Dev,
    Mqueue,
    Dir,
    File { fd: i32 },
    Data { fd: i32, writable: bool },
    Symlink { target: PathBuf },
    Chmod { mode: u32 },
    RemountRo,
    Overlay { lower: Vec<PathBuf>, upper: Upper },
}

/// What is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From {
    Path(PathBuf),
    Descriptor(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Upper {
    Nothing,
    Memory,
    Host { upper: PathBuf, work: PathBuf },
}

/// A command line that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misuse {
    /// Help was asked for, or nothing was.
    #[error("usage")]
    Usage { asked: bool },
    #[error("version")]
    Version,
    #[error("{text}")]
    Message { text: String, level_prefix: bool },
}

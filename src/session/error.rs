//! What can go wrong with sessions, and the cure.

use std::path::{Path, PathBuf};

use super::{Holder, Id};
use crate::sys::{self, Errno, TOO_OLD};

/// Something about sessions or the state directory that did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("${variable} is {value:?}, which is not an absolute path")]
    Relative { variable: &'static str, value: PathBuf },
    #[error("no place for the state directory: neither $STOCKADE_STATE nor $XDG_STATE_HOME nor $HOME is set")]
    NoPlace,
    #[error("state directory {0:?} is not an absolute path")]
    NotAbsolute(PathBuf),
    #[error("state directory {0:?} is not a directory")]
    NotDirectory(PathBuf),
    #[error("state directory {0:?} is a symbolic link")]
    Link(PathBuf),
    #[error("state directory {path:?} is reached through {link:?}, a symbolic link of user {owner}")]
    ForeignLink { path: PathBuf, link: PathBuf, owner: u32 },
    #[error("state directory {path:?} belongs to user {owner}, not to user {us}")]
    ForeignOwner { path: PathBuf, owner: u32, us: u32 },
    #[error(
        "state directory {path:?} cannot be created in {parent:?}, which belongs to user {owner}, not to user {us}"
    )]
    ForeignParent { path: PathBuf, parent: PathBuf, owner: u32, us: u32 },
    #[error("state directory {path:?} is open to others (mode {mode:04o})")]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error("state directory {path:?} is not readable and writable for its owner (mode {mode:04o})")]
    ClosedToUs { path: PathBuf, mode: u32 },
    #[error("state directory {path:?} was written by a newer stockade (schema {found}, this one knows {known})")]
    Newer { path: PathBuf, found: u64, known: u64 },
    #[error("state directory {path:?} has an unreadable schema file ({text:?})")]
    BadSchema { path: PathBuf, text: String },
    #[error("state directory {path:?} holds something else ({entry:?}) and no schema file")]
    NotOurs { path: PathBuf, entry: PathBuf },
    #[error("{doing} {path:?}")]
    Call { doing: &'static str, path: PathBuf, source: sys::Error },
    #[error("read a fact about this host")]
    Host(#[source] sys::Error),
    #[error("session {0} does not exist")]
    NoSession(Id),
    #[error("{path:?}, where session {id} should be, is not a directory")]
    Odd { id: Id, path: PathBuf },
    #[error("session {id} is in use{}", in_use(.holders))]
    InUse { id: Id, holders: Vec<Holder> },
    #[error("session {id} is a child of {}, not of {wanted}", .actual.as_ref().map_or("none", Id::as_str))]
    OtherParent { id: Id, actual: Option<Id>, wanted: Id },
    #[error("the parents of session {0} never end")]
    ParentLoop(Id),
    #[error("session {0} was ended again and again while it was being opened")]
    Contended(Id),
    #[error("private directory {0:?} is not an absolute path without `..`")]
    BadPrivate(PathBuf),
    #[error("private directory {path:?} needs a name of {len} bytes in the state directory, at most 255 are possible")]
    LongPrivate { path: PathBuf, len: usize },
    #[error("copy {path:?}")]
    Copy { path: PathBuf, source: std::io::Error },
    #[error("copy {0:?}: a directory is in its place")]
    InPlace(PathBuf),
    #[error("copy to or from {path:?}: {link:?} is a symbolic link, which a session could have made")]
    ThroughLink { path: PathBuf, link: PathBuf },
    #[error("copy {0:?}: it lies too deep")]
    Deep(PathBuf),
    #[error("{0:?} names nothing that can be copied")]
    NoName(PathBuf),
    #[error("a job named {name:?} is running already: {id}")]
    JobName { name: String, id: String },
    #[error("there is no job {0:?}")]
    NoJob(String),
    #[error("sessions {} have a job {job:?} each", names(.sessions))]
    ManyJobs { job: String, sessions: Vec<Id> },
    #[error("job {0} is running")]
    JobRuns(String),
    #[error("{0} is no signal that can be sent")]
    Signal(i32),
    #[error("{path:?} is not in a private directory of session {id}{}", private(.has))]
    NotPrivate { id: Id, path: PathBuf, has: Vec<PathBuf> },
}

impl Error {
    pub(super) fn call(doing: &'static str, path: impl AsRef<Path>, source: sys::Error) -> Self {
        Self::Call { doing, path: path.as_ref().to_owned(), source }
    }

    /// What the reader can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Relative { variable, .. } => format!("set {variable} to an absolute path, or unset it"),
            Self::NoPlace | Self::NotAbsolute(_) => "set STOCKADE_STATE to an absolute path".into(),
            Self::NotDirectory(path) | Self::Link(path) => {
                format!("remove {}, or set STOCKADE_STATE to a directory of your own", path.display())
            }
            Self::ForeignLink { .. } | Self::ForeignOwner { .. } | Self::NotOurs { .. } => {
                "set STOCKADE_STATE to a directory of your own, which need not exist".into()
            }
            Self::ForeignParent { .. } => {
                "set HOME to your own home, or STOCKADE_STATE to a directory of your own".into()
            }
            Self::OpenToOthers { path, .. } | Self::ClosedToUs { path, .. } => format!("chmod 0700 {}", path.display()),
            Self::Newer { .. } => "use that version of stockade, or set STOCKADE_STATE to another directory".into(),
            Self::BadSchema { path, .. } => format!("remove {} if nothing in it is needed", path.display()),
            // Only this call's answer tells of the file system, not of the kernel.
            Self::Call { source, .. } if source.is(Errno::NOSYS) && source.call() != "flock" => TOO_OLD.into(),
            Self::Call { path, source, .. } => return call_hint(path, source.errno()),
            Self::Odd { path, .. } => format!("remove {}", path.display()),
            Self::InUse { .. } => "wait for these runs, or end the session with --kill".into(),
            Self::JobName { id, .. } | Self::JobRuns(id) => format!("end it first: stockade job kill {id}"),
            Self::ThroughLink { .. } => "name the place where it leads".into(),
            Self::NoJob(_) => "stockade job list names them".into(),
            Self::ManyJobs { .. } => "say which one with --session".into(),
            Self::NotPrivate { has, .. } if !has.is_empty() => "name a path below one of these".into(),
            _ => return None,
        })
    }
}

fn call_hint(path: &Path, errno: Errno) -> Option<String> {
    let path = path.display();
    Some(match errno {
        Errno::NOSPC => {
            format!("free space (df -h {path}) or inodes (df -i {path}), or set STOCKADE_STATE to another disk")
        }
        Errno::DQUOT => "your disk quota is used up: free space, or set STOCKADE_STATE to another disk".into(),
        Errno::ROFS => "the file system is read-only: set STOCKADE_STATE to a writable directory".into(),
        Errno::ACCESS | Errno::PERM => {
            format!("make {path} accessible, or set STOCKADE_STATE to a directory of your own")
        }
        Errno::MFILE | Errno::NFILE => "too many open files: raise the limit (ulimit -n)".into(),
        Errno::NAMETOOLONG => "set STOCKADE_STATE to a shorter path".into(),
        Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS => {
            "the file system cannot lock files: set STOCKADE_STATE to a local disk".into()
        }
        _ => return None,
    })
}

fn in_use(holders: &[Holder]) -> String {
    let runs: Vec<String> = holders.iter().map(Holder::to_string).collect();
    if runs.is_empty() { String::new() } else { format!(" by {}", runs.join(", ")) }
}

fn names(sessions: &[Id]) -> String {
    sessions.iter().map(Id::as_str).collect::<Vec<_>>().join(", ")
}

fn private(has: &[PathBuf]) -> String {
    let has: Vec<String> = has.iter().map(|path| path.display().to_string()).collect();
    if has.is_empty() { " (it has none yet)".into() } else { format!(" (it has {})", has.join(", ")) }
}

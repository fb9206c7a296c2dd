//! Every way a command can fail.

use std::path::PathBuf;

use crate::launch::{Failure, STATUS_FAILED};
use crate::{launch, overlay, plan, policy, probe, session};

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Policy(Box<policy::Error>),
    #[error("cannot look at this host")]
    Probe(#[from] probe::Error),
    #[error("cannot enforce the policy here")]
    Plan(#[from] plan::Error),
    #[error("{0}")]
    Session(Box<session::Error>),
    #[error("{0}")]
    Launch(Box<Failure>),
    #[error("the session id {text:?} ({origin}) cannot be used")]
    Id { text: String, origin: String, source: session::IdError },
    #[error("job {0} is lost: it died with its supervisor, and nobody knows how")]
    JobLost(String),
    #[error("job {job} failed: {why}")]
    JobFailed { job: String, why: String },
    #[error("{0:?} is no signal")]
    NoSignal(String),
    #[error("one of the two has to be SESSION:/path, the other a path on the host")]
    CopyWhat,
    #[error("--try asks when the command has ended, which a job (--detach) cannot")]
    TryDetached,
    #[error("there is no process {0} (--owner)")]
    NoOwner(u32),
    #[error("--owner needs a session: name one with --session")]
    OwnerOfNothing,
    #[error("the working directory {} does not exist any more", path.display())]
    NoCwd { path: PathBuf, source: std::io::Error },
    #[error("cannot enter {} (--chdir)", path.display())]
    Chdir { path: PathBuf, source: std::io::Error },
    #[error("more than one question")]
    OneQuestion,
    #[error("this is a sandbox of stockade's ($STOCKADE is set), whose policy is known outside")]
    Inside { session: Option<String> },
    #[error("nothing runs in session {0}")]
    NothingRuns(session::Id),
    #[error("the policy of {run} cannot be told: {why}")]
    RunUntold { run: String, why: String },
    #[error("it runs as another user (--user)")]
    OtherUser,
    #[error("--running needs a session: name one with --session")]
    RunningWhere,
    #[error("the runs of a session have their rules already")]
    RulesOfRunning,
    #[error("{} leads nowhere: {} does not exist, and `..` comes after it", path.display(), missing.display())]
    NoWay { path: PathBuf, missing: PathBuf },
    #[error("the path is empty")]
    EmptyPath,
    #[error("--setenv {0:?} is not NAME=VALUE")]
    Variable(String),
    #[error(transparent)]
    User(#[from] launch::UserError),
    #[error("the home directory is not known")]
    NoHome,
    #[error("{what} cannot be preserved: descriptor {fd} is {is}")]
    Preserve { what: &'static str, fd: u32, is: &'static str },
    #[error("descriptor {fd} cannot be passed on or written to")]
    NoDescriptor { fd: u32, source: std::io::Error },
    #[error("descriptor {fd} takes no events (--events)")]
    NoEvents { fd: i32, source: std::io::Error },
    #[error("descriptor {0} cannot be both for {1} and for {2}")]
    TwoUses(i32, &'static str, &'static str),
    #[error("cannot write the report {} (--report)", path.display())]
    Report { path: PathBuf, source: std::io::Error },
    #[error("cannot read {} (--logs)", path.display())]
    Transcript { path: PathBuf, source: std::io::Error },
    #[error("{} exists already and is left alone", path.display())]
    ConfigExists { path: PathBuf },
    #[error("cannot write the configuration {}", path.display())]
    Config { path: PathBuf, source: std::io::Error },
    #[error("cannot read the settings {}", path.display())]
    Settings { path: PathBuf, source: std::io::Error },
    #[error("{} are no settings of {tool}", path.display())]
    Import { path: PathBuf, tool: &'static str, source: crate::import::Error },
    #[error("{count} of the settings in {} cannot be kept, and no policy was made", path.display())]
    NotKept { path: PathBuf, count: usize },
    #[error("{} exists already and is left alone", path.display())]
    PolicyExists { path: PathBuf },
    #[error("cannot write {}", path.display())]
    Page { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Overlay(Box<overlay::Error>),
    #[error("cannot write")]
    Output(#[from] std::io::Error),
}

impl From<policy::Error> for Error {
    fn from(error: policy::Error) -> Self {
        Self::Policy(Box::new(error))
    }
}

impl From<session::Error> for Error {
    fn from(error: session::Error) -> Self {
        Self::Session(Box::new(error))
    }
}

impl From<overlay::Error> for Error {
    fn from(error: overlay::Error) -> Self {
        Self::Overlay(Box::new(error))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Launch(Box::new(failure))
    }
}

impl Error {
    /// What the process exits with.
    pub(super) fn status(&self) -> u8 {
        match self {
            Self::Launch(failure) => failure.status,
            _ => STATUS_FAILED,
        }
    }

    /// The line with the caret, for what is wrong in a file.
    pub(super) fn excerpt(&self) -> Option<&str> {
        match self {
            Self::Policy(error) => error.excerpt(),
            _ => None,
        }
    }

    /// What the user can do.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Overlay(error) => error.hint(),
            Self::Launch(failure) => failure.hint.clone(),
            Self::NoCwd { .. } => Some("change to a directory that exists, or choose one with --chdir".into()),
            Self::NoEvents { .. } => {
                Some("it has to be open for writing: a file, a socket, or a pipe that belongs to this user".into())
            }
            Self::NoHome => Some("set HOME".into()),
            Self::NotKept { .. } => Some("change them, or make a policy of the rest with --partial".into()),
            Self::PolicyExists { .. } => Some("name another file, or replace it with --force".into()),
            Self::ConfigExists { .. } => Some("edit it; `stockade init --stdout` prints what it could hold".into()),
            Self::Config { .. } => Some("set XDG_CONFIG_HOME, or keep what `stockade init --stdout` prints".into()),
            Self::Inside { session } => {
                let session = session.as_deref().unwrap_or("ID");
                Some(format!("ask there: stockade why --session {session} --running PATH"))
            }
            Self::NothingRuns(_) | Self::RunUntold { .. } => {
                Some("without --running the answer is about a run that starts now".into())
            }
            Self::RulesOfRunning => Some("leave out the rules, or leave out --running".into()),
            Self::NoWay { .. } => Some("write the path without `..`".into()),
            Self::OneQuestion => {
                Some("ask --read, --write, --create or --rename-to; without one, all are answered".into())
            }
            _ => None,
        }
    }

    /// The chain of causes below the first line.
    pub(super) fn causes(&self) -> Vec<String> {
        match self {
            Self::Launch(failure) => failure.causes.clone(),
            Self::Policy(error) => below(&**error),
            Self::Session(error) => below(&**error),
            Self::Overlay(error) => below(&**error),
            error => below(error),
        }
    }
}

fn below(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
    let mut chain = crate::launch::chain(error);
    chain.remove(0);
    chain
}

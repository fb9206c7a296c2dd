//! Why a policy cannot be carried out on this host.

use std::fmt;
use std::path::PathBuf;

use super::build::literal;
use crate::policy::{Access, Limit, Origin, Rule};
use crate::sys::Errno;

/// A plan that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rule that cannot be enforced here: an error, never a skip.
    #[error("{rule}: {problem}")]
    Rule { rule: Box<Named>, problem: Problem },
    #[error("limit {limit} ({origin}): {why}")]
    Limit { limit: Limit, origin: Origin, why: &'static str },
    #[error("the working directory {} is not visible inside", .0.display())]
    HiddenCwd(PathBuf),
    /// The rules for `.git` speak of a repository in a work tree.
    #[error("{} is a bare repository, and what is protected in a `.git` can be changed in it (git, {origin})", dir.display())]
    BareRepository { dir: PathBuf, origin: Origin },
}

/// A rule as its author knows it.
#[derive(Debug)]
pub struct Named {
    pub access: Access,
    pub path: PathBuf,
    pub origin: Origin,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.access, self.path.display(), self.origin)
    }
}

/// What is wrong with a rule on this host.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("the path does not exist")]
    Absent,
    #[error("cannot look at the path: {0}")]
    Unknown(Errno),
    #[error("it is not a directory")]
    NotDirectory,
    #[error(
        "the path does not exist, and {} cannot be shown with it added, because of {}",
        dir.display(),
        other.display()
    )]
    Crowded { dir: PathBuf, other: PathBuf },
    #[error("follows the symbolic link {}, which lies in a place that {writable} makes writable", link.display())]
    PlantedLink { link: PathBuf, writable: Origin },
    #[error("an overlay is of a directory, and this is none: name the directory that holds it")]
    OverlayFile,
    #[error("nothing of it can be an overlay: it is {0}")]
    NoLower(String),
    #[error("a stricter rule inside a writable place needs seccomp user notification, which is not available here")]
    NoNotification,
    #[error("{} compares names without regard to case, so a rule cannot hold there by its name", .0.display())]
    FoldsCase(PathBuf),
    #[error("nothing below /proc can be ruled, it is made anew for each run")]
    Proc,
    #[error("more hard links than one lead to this protected file")]
    HardLink,
}

impl Error {
    pub(super) fn of(rule: &Rule, problem: Problem) -> Self {
        let named = Named { access: rule.access, path: literal(rule).to_owned(), origin: rule.origin.clone() };
        Self::Rule { rule: Box::new(named), problem }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let (rule, problem) = match self {
            Self::Limit { .. } => return None,
            Self::BareRepository { .. } => {
                let text = "work in a work tree of it (`git worktree add`), or allow all of it with --git open";
                return Some(text.into());
            }
            Self::HiddenCwd(_) => return Some("name it in a rule, or choose another with --chdir".into()),
            Self::Rule { rule, problem } => (rule, problem),
        };
        Some(match problem {
            Problem::Absent | Problem::Crowded { .. } => format!(
                "create {} first, or write {{ path = \"…\", optional = true }} if the {} rule may be left out",
                rule.path.display(),
                rule.access
            ),
            Problem::PlantedLink { link, .. } => format!(
                "a command in an earlier run could have made {}; name the place where it leads instead",
                link.display()
            ),
            Problem::NoNotification => "it needs Linux 5.19, and no sandbox around this one that uses it itself; \
                `stockade doctor` tells which it is; without writable places (--read '$PROJECT' or --overlay '$PROJECT') a run works"
                .into(),
            Problem::HardLink => "remove the other links, or leave out --strict".into(),
            _ => return None,
        })
    }
}

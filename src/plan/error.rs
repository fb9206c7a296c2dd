//! Why a policy cannot be carried out on this host.

use std::path::PathBuf;

use crate::policy::{Access, Origin};
use crate::sys::Errno;

/// A rule that cannot be enforced here: an error, never a skip.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{access} {} ({origin}): the path does not exist", path.display())]
    Absent { access: Access, path: PathBuf, origin: Origin },
    #[error("{access} {} ({origin}): cannot look it up", path.display())]
    Unknown { access: Access, path: PathBuf, origin: Origin, source: Errno },
    #[error("{access} {} ({origin}): it is not a directory", path.display())]
    NotDirectory { access: Access, path: PathBuf, origin: Origin },
    #[error(
        "{access} {} ({origin}): follows the symbolic link {}, which lies in a place that {} makes writable",
        path.display(), link.display(), writable
    )]
    PlantedLink { access: Access, path: PathBuf, origin: Origin, link: PathBuf, writable: Origin },
    #[error("{access} {} ({origin}): overlays are not available yet", path.display())]
    Overlay { access: Access, path: PathBuf, origin: Origin },
    #[error(
        "{access} {} ({origin}): a stricter rule inside a writable place needs seccomp user notification, which is not available here",
        path.display()
    )]
    NoNotification { access: Access, path: PathBuf, origin: Origin },
    #[error("{access} {} ({origin}): nothing below /proc can be ruled, it is made anew for each run", path.display())]
    Proc { access: Access, path: PathBuf, origin: Origin },
    #[error("the working directory {} is not visible inside", .0.display())]
    HiddenCwd(PathBuf),
    #[error("{} ({origin}): more hard links than one lead to this protected file", path.display())]
    HardLink { path: PathBuf, origin: Origin },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Absent { access, path, .. } => Some(format!(
                "create {} first, or write {{ path = \"…\", optional = true }} if the {access} rule may be left out",
                path.display()
            )),
            Self::PlantedLink { link, .. } => Some(format!(
                "a command in an earlier run could have made {}; name the place where it leads instead",
                link.display()
            )),
            Self::HiddenCwd(_) => Some("name it in a rule, or choose another with --chdir".into()),
            Self::HardLink { .. } => Some("remove the other links, or leave out --strict".into()),
            _ => None,
        }
    }
}

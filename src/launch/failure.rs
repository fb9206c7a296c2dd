//! Why a run could not be, in a form that crosses from one process to another.

use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Step;
use crate::sys::{Errno, TOO_OLD};

/// A failed launch: the step, what it was for, the chain of causes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    pub step: Step,
    /// The rule or path it was done for.
    pub subject: Option<String>,
    /// From the failed call down to the system's reason.
    pub causes: Vec<String>,
    pub hint: Option<String>,
    /// What `stockade run` exits with.
    pub status: u8,
}

/// Stockade itself failed.
pub const STATUS_FAILED: u8 = 125;
/// The command cannot be executed.
pub const STATUS_NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const STATUS_NOT_FOUND: u8 = 127;

impl Failure {
    /// The failure of a step with nothing more to say than the error.
    #[must_use]
    pub fn of(step: Step, error: &(dyn StdError + 'static)) -> Self {
        let hint = errno_of(error).and_then(|errno| hint(step, errno)).map(str::to_owned);
        Self { step, subject: None, causes: chain(error), hint, status: STATUS_FAILED }
    }

    /// The failure of a step with a cause in words.
    #[must_use]
    pub fn because(step: Step, cause: impl Into<String>) -> Self {
        Self { step, subject: None, causes: vec![cause.into()], hint: None, status: STATUS_FAILED }
    }

    /// Say what it was done for.
    #[must_use]
    pub fn about(mut self, subject: impl fmt::Display) -> Self {
        self.subject = Some(subject.to_string());
        self
    }

    /// Say what to do about it.
    #[must_use]
    pub fn hinting(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Some(subject) => write!(f, "cannot {}: {subject}", self.step),
            None => write!(f, "cannot {}", self.step),
        }
    }
}

impl StdError for Failure {}

/// The texts of an error and its sources.
#[must_use]
pub fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
    sources(error).map(ToString::to_string).collect()
}

fn sources<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

fn errno_of(error: &(dyn StdError + 'static)) -> Option<Errno> {
    sources(error).find_map(|error| error.downcast_ref::<Errno>().copied())
}

/// The cure, where the step and the kernel's answer tell it.
fn hint(step: Step, errno: Errno) -> Option<&'static str> {
    match (step, errno) {
        (Step::Unshare | Step::EnterNetwork, Errno::NOSPC) => Some(
            "no further namespace of some kind is allowed here: raise user.max_user_namespaces, user.max_mnt_namespaces, \
             user.max_pid_namespaces or user.max_net_namespaces with sysctl (of network namespaces none is needed with \
             --network host), or this already runs inside a sandbox that forbids them",
        ),
        (Step::Unshare | Step::EnterNetwork, Errno::PERM | Errno::ACCESS) => Some(
            "unprivileged user namespaces are forbidden here: see `stockade doctor` (kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns, a container's seccomp profile, or a chroot)",
        ),
        (Step::MapUsers, Errno::PERM | Errno::ACCESS) => Some(
            "the host restricts user namespaces, most often AppArmor: see `stockade doctor` \
             (kernel.apparmor_restrict_unprivileged_userns)",
        ),
        (Step::MountProc, Errno::PERM) => Some(
            "parts of /proc are masked here (a container), so the kernel refuses a new one; `--proc host` shows the \
             outer /proc instead",
        ),
        (Step::Fork | Step::ForkInit | Step::ForkCommand, Errno::AGAIN) => {
            Some("the limit of processes is reached: see `ulimit -u` and the pids limit of the cgroup")
        }
        (Step::OpenPrivate | Step::Attach, Errno::NOSPC) => Some("the file system of the state directory is full"),
        (_, Errno::NOSYS) => Some(TOO_OLD),
        _ => None,
    }
}

//! Namespaces of others, which the caller has open.

use std::os::fd::{AsFd, OwnedFd};

use super::{Done, Failure, Report, because, failed, namespaces_refused};
use crate::launch::message;
use crate::plan::ordered::Ordered;
use crate::sys::process::{self, Forked, Pid, UnshareFlags};
use crate::sys::{Errno, namespace};

/// What the caller has open.
pub(super) struct Opened {
    users: Option<OwnedFd>,
    later_users: Option<OwnedFd>,
    pid: Option<OwnedFd>,
}

impl Opened {
    /// Before anything of ours is opened, which could get a number that the caller says and has not open.
    pub(super) fn take(plan: &Ordered) -> Done<Self> {
        let joined = plan.joined;
        let take = |number: Option<i32>, text| number.map(process::take_descriptor).transpose().map_err(failed(text));
        let users = take(joined.users, USERS)?;
        let later_users = match &users {
            // One number for both.
            Some(users) if joined.users == joined.later_users => {
                Some(users.try_clone().map_err(|error| Failure(format!("{LATER_USERS}: {error}")))?)
            }
            _ => take(joined.later_users, LATER_USERS)?,
        };
        Ok(Self { users, later_users, pid: take(joined.pid, PID)? })
    }

    /// Enter the user namespace, and have what is forked from now on in the pid namespace.
    pub(super) fn enter(&self) -> Done<()> {
        if let Some(users) = &self.users {
            namespace::join_user(users).map_err(|error| match error.errno() {
                Errno::INVAL => Failure(
                    "Joining the specified user namespace failed, it might not be a descendant of the current user \
                     namespace."
                        .into(),
                ),
                errno => because(USERS, errno),
            })?;
            process::set_dumpable().map_err(failed(USERS))?;
        }
        self.pid.as_ref().map_or(Ok(()), namespace::join_pid).map_err(failed(PID))
    }

    /// Once everything is set up.
    pub(super) fn enter_later(&self) -> Done<()> {
        self.later_users.as_ref().map_or(Ok(()), namespace::join_user).map_err(failed(LATER_USERS))
    }
}

const USERS: &str = "Joining specified user namespace failed";
const LATER_USERS: &str = "Setting userns2 failed";
const PID: &str = "Setting pidns failed";

/// As `fork_into`, in the namespaces that were entered. Only who is in a pid namespace can make one below it: then somebody
/// in between forks, who ends at once, and the child says itself which one it is, by `control`.
pub(super) fn fork_into(plan: &Ordered, flags: UnshareFlags, control: (&OwnedFd, &OwnedFd)) -> Done<Forked> {
    if plan.joined.pid.is_none() || !plan.namespaces.pid {
        return process::fork_into(flags).map_err(|error| namespaces_refused(&error));
    }
    process::adopt_descendants().map_err(failed("prctl"))?;
    let between = match process::fork().map_err(failed("Can't fork"))? {
        Forked::Child => match process::fork_into(flags) {
            Ok(Forked::Child) => {
                message::send(control.1, &Report::Here, &[]).map_err(failed("send to the monitor"))?;
                return Ok(Forked::Child);
            }
            Ok(Forked::Parent(_)) => process::exit_now(0),
            Err(error) => {
                // Without a monitor nobody is left to be told.
                let _ = message::send(control.1, &Report::Failed(namespaces_refused(&error)), &[]);
                process::exit_now(1)
            }
        },
        Forked::Parent(between) => between,
    };
    process::wait(Some(between), process::until_end()).map_err(failed("wait"))?;
    child_of(control.0).map(Forked::Parent)
}

fn child_of(control: impl AsFd) -> Done<Pid> {
    match message::receive::<Report>(control).map_err(failed("receive from the sandbox"))? {
        Some(message::Received { message: Report::Here, sender: Some(child), .. }) => Ok(child),
        Some(message::Received { message: Report::Failed(failure), .. }) => Err(failure),
        _ => Err(Failure("the sandbox's first process is gone".into())),
    }
}

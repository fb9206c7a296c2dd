//! Carries out a plan whose steps have an order, with the processes that bubblewrap has:
//!
//! ```text
//! monitor ── the sandbox's first process: makes the tree, then is pid 1 and reaps, or is the command
//!    ├────── watcher, if names are guarded: mounts what the kernel alone serves; lives as long as the first process
//!    └────── broker, if names are guarded: lives as long as a process of the sandbox
//! ```
//!
//! The monitor ends with the command and gives its status at once; what the command left running goes on, and so does the
//! broker that serves it.

mod broker;
mod child;
mod held;
mod identity;
mod joined;
mod mounts;
mod overlay;
mod status;
mod watcher;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::plan::ordered::{Ids, Ordered};
use crate::sys::process::{self, Forked, Pid, UnshareFlags};
use crate::sys::signal::Mask;
use crate::sys::{self, Errno, attr, socket};

use super::Status;
use super::message;
pub use held::{Hold, run_held};
use joined::Opened;

/// Why a sandbox could not be, in bubblewrap's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct Failure(pub String);

type Done<T> = Result<T, Failure>;

/// `text: the system's reason`
fn because(text: impl std::fmt::Display, errno: Errno) -> Failure {
    Failure(format!("{text}: {}", reason(errno)))
}

/// What `strerror(3)` says.
fn reason(errno: Errno) -> String {
    let text = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn failed(text: &str) -> impl Fn(sys::Error) -> Failure + '_ {
    move |error| because(text, error.errno())
}

/// The failure of a part that other launches share.
fn told(failure: &super::Failure) -> Failure {
    Failure(if failure.causes.is_empty() {
        failure.to_string()
    } else {
        format!("{failure}: {}", failure.causes.join(": "))
    })
}

/// From the sandbox's first process to the monitor.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// Which process it is: the kernel tells its number.
    Here,
    /// The second user namespace is there, and nobody is mapped into it.
    MapAgain,
    /// The filter is installed; the listener comes along.
    Guarded,
    /// It cannot be.
    Failed(Failure),
    /// The command ended; its reaper stays as long as there is something to reap.
    Ended(u8),
}

/// From the monitor to the sandbox's first process.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Users are mapped.
    Go,
}

/// The effective capabilities of the caller, bit by bit.
#[must_use]
pub fn capabilities() -> u64 {
    process::capabilities()
}

/// Everything that a descriptor of the caller gives; it is closed.
///
/// # Errors
/// What the system says.
pub fn read_descriptor(number: i32) -> std::io::Result<Vec<u8>> {
    let taken = process::take_descriptor(number);
    let mut file = File::from(taken.map_err(|error| std::io::Error::from(error.errno()))?);
    let mut data = Vec::new();
    file.read_to_end(&mut data)?;
    Ok(data)
}

/// Where is told what was denied.
#[derive(Debug)]
pub struct Log {
    pub file: File,
    /// What is guarded too.
    pub guarded: bool,
    /// Before each line.
    pub prefix: &'static str,
    /// What is denied after the command has ended too.
    pub until_end: bool,
}

/// Run the command; gives its status as a shell gives it. The process must have one thread.
///
/// # Errors
/// What kept the command from being executed.
pub fn run(plan: &Ordered, logs: Vec<Log>) -> Result<u8, Failure> {
    run_masked(plan, logs, None).map(|(code, _)| code)
}

/// Gives the sandbox's first process too. `mask` is the command's signal mask, where it is not our own.
fn run_masked(plan: &Ordered, mut logs: Vec<Log>, mask: Option<Mask>) -> Result<(u8, Pid), Failure> {
    let joined = Opened::take(plan)?;
    if plan.process.die_with_parent {
        process::die_with_parent().map_err(failed("prctl"))?;
    }
    if let Some(guard) = &plan.guard {
        logs.iter_mut().filter(|log| log.guarded).try_for_each(|log| broker::log_guarded(log, guard))?;
    }
    let info = status::Descriptors::take(plan)?;
    let (ours, theirs) = socket::pair().map_err(failed("socketpair"))?;
    let hands = watcher::is_wanted(plan).then(socket::pair).transpose().map_err(failed("socketpair"))?.unzip();
    let monitor = process::pidfd(process::own_pid()).map_err(failed("pidfd_open"))?;
    joined.enter()?;
    match joined::fork_into(plan, namespaces(plan), (&ours, &theirs))? {
        Forked::Child => {
            drop(ours);
            drop(info);
            drop((logs, hands.0));
            child::run(plan, &theirs, &monitor, &child::Extra { joined, hands: hands.1, mask })
        }
        Forked::Parent(child) => {
            drop((theirs, monitor, hands.1));
            let monitor = Monitor { plan, child, control: ours, info, logs, users: None, reports: None, watched: None };
            monitor.run(hands.0).map(|code| (code, child))
        }
    }
}

fn namespaces(plan: &Ordered) -> UnshareFlags {
    let asked = plan.namespaces;
    let wanted = [
        (plan.joined.users.is_none(), UnshareFlags::NEWUSER),
        (true, UnshareFlags::NEWNS),
        (asked.pid, UnshareFlags::NEWPID),
        (asked.network, UnshareFlags::NEWNET),
        (asked.ipc, UnshareFlags::NEWIPC),
        (asked.uts, UnshareFlags::NEWUTS),
        (asked.cgroup, UnshareFlags::NEWCGROUP),
    ];
    wanted.into_iter().filter(|(wanted, _)| *wanted).fold(UnshareFlags::empty(), |all, (_, flag)| all | flag)
}

fn namespaces_refused(error: &sys::Error) -> Failure {
    match error.errno() {
        Errno::PERM => Failure(
            "No permissions to create a new namespace, likely because the kernel does not allow non-privileged user \
             namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."
                .into(),
        ),
        Errno::NOSPC => Failure(
            "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)".into(),
        ),
        Errno::INVAL => {
            Failure("Creating new namespace failed, likely because the kernel does not support user namespaces.".into())
        }
        errno => because("Creating new namespace failed", errno),
    }
}

struct Monitor<'a> {
    plan: &'a Ordered,
    child: Pid,
    control: OwnedFd,
    info: status::Descriptors,
    logs: Vec<Log>,
    /// The first user namespace, from which a second one is mapped.
    users: Option<OwnedFd>,
    /// Where the watcher tells why the sandbox has to end.
    reports: Option<OwnedFd>,
    /// For the broker.
    watched: Option<watcher::Watched>,
}

impl Monitor<'_> {
    fn run(mut self, hands: Option<OwnedFd>) -> Result<u8, Failure> {
        let ended = self.start(hands).and_then(|()| self.follow());
        if ended.is_err() {
            // It waits for us, or has failed itself.
            let _ = process::kill(self.child, process::Signal::KILL);
        }
        ended
    }

    fn start(&mut self, hands: Option<OwnedFd>) -> Done<()> {
        if let Ids::Same { users, groups } = &self.plan.ids {
            identity::map_all(self.child, users, groups)?;
            self.users = Some(identity::namespace_of(self.child)?);
        }
        self.info.tell_started(self.child, self.plan)?;
        if let Some(fd) = self.plan.process.block_maps {
            let block = process::take_descriptor(fd).map_err(failed("userns-block-fd"))?;
            // One byte, or the end.
            attr::read_open(&block, 1).map_err(failed("read userns-block-fd"))?;
        }
        self.go()?;
        if let (Some(guard), Some(hands)) = (&self.plan.guard, hands) {
            let started = watcher::start(guard, self.child, hands)?;
            (self.reports, self.watched) = (Some(started.reports), Some(started.watched));
        }
        // What may be done for the sandbox from here on is done with the caller's identity alone.
        if self.plan.guard.is_none() && self.users.is_none() {
            process::drop_thread_capabilities().map_err(failed("capset"))
        } else {
            Ok(())
        }
    }

    fn go(&self) -> Done<()> {
        message::send(&self.control, &Order::Go, &[]).map_err(failed("send to the sandbox"))
    }

    fn follow(&mut self) -> Result<u8, Failure> {
        let mut broker = None;
        loop {
            let Some(message::Received { message, fds, .. }) = self.hear()? else { break };
            match message {
                Report::MapAgain => {
                    identity::map_all_from(self.users.take(), self.child, &self.plan.ids)?;
                    self.go()?;
                }
                Report::Guarded => {
                    let listener = fds.into_iter().next().ok_or_else(|| Failure("the listener was lost".into()))?;
                    let (logs, watched) = (std::mem::take(&mut self.logs), self.watched.take());
                    let guard = self.plan.guard.as_ref();
                    broker = guard.map(|guard| broker::start(guard, &self.plan.ids, listener, logs, watched));
                }
                Report::Here => {}
                Report::Failed(failure) => return Err(failure),
                Report::Ended(code) => return self.end(code, broker.transpose()?),
            }
        }
        let code = self.status_of_child()?;
        self.end(code, broker.transpose()?)
    }

    /// From the sandbox, or from its watcher, whose reason to end it comes before the end.
    fn hear(&mut self) -> Done<Option<message::Received<Report>>> {
        let failed = failed("receive from the sandbox");
        while let Some(reports) = &self.reports {
            let ready = socket::wait_readable(&[self.control.as_fd(), reports.as_fd()], None).map_err(&failed)?;
            if !ready[1] {
                break;
            }
            match message::receive::<Report>(reports).map_err(&failed)? {
                None => self.reports = None,
                report => return Ok(report),
            }
        }
        message::receive::<Report>(&self.control).map_err(&failed)
    }

    fn end(&mut self, code: u8, broker: Option<broker::Started>) -> Result<u8, Failure> {
        if let Some(broker) = broker {
            broker.write_log();
        }
        self.info.tell_ended(code)?;
        Ok(code)
    }

    /// Of a first process that became the command.
    fn status_of_child(&self) -> Done<u8> {
        let waited = process::wait(Some(self.child), process::until_end()).map_err(failed("wait for the sandbox"))?;
        Ok(waited.map_or(1, |(_, status)| Status::of(status).code()))
    }
}

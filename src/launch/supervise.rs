//! The supervisor's side of a running command: maps users, passes signals on, shares the terminal, learns the status.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::group::Group;
use super::limits::{Verdict, Watched};
use super::message::{self, Order, Report};
use super::stdio::{self, Pumps, Stdio};
use super::{Failure, OverlayReport, STATUS_FAILED, Step, Trace, graft, setup};
use crate::guard::{self, Broker, Denials, Watch};
use crate::plan::{Extent, Identity, Plan};
use crate::policy::{Limit, Limits, Network, Origin, Rules};
use crate::sys::process::{self, Pid, Signal, WaitStatus};
use crate::sys::signal::{self as signals, Received};
use crate::sys::{socket, terminal};

/// Signals that the supervisor takes from a descriptor: those that are passed on and the terminal's stop.
/// `SIGTTOU` is only blocked: without that, taking the terminal back would stop us.
pub(super) const SIGNALS: [i32; 10] = [
    Signal::TERM.as_raw(),
    Signal::INT.as_raw(),
    Signal::HUP.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
    Signal::CONT.as_raw(),
    Signal::WINCH.as_raw(),
    Signal::TSTP.as_raw(),
    Signal::TTOU.as_raw(),
];

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Exited(u8),
    Signaled(i32),
}

impl Status {
    /// As a shell gives it: the command's own status, or 128 and the signal's number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(STATUS_FAILED),
        }
    }

    /// The status of a process that has ended.
    pub(super) fn of(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exited(u8::try_from(code & 0xff).unwrap_or(STATUS_FAILED)),
            (None, Some(signal)) => Self::Signaled(signal),
            (None, None) => Self::Exited(STATUS_FAILED),
        }
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Ended {
    pub status: Status,
    /// What the policy denied the command.
    pub denials: Arc<Mutex<Denials>>,
    /// The limit for which the supervisor ended it.
    pub limit: Option<Limit>,
    /// What there is to say of the overlays.
    pub overlays: OverlayReport,
}

/// Is the terminal ours alone: all three standard files are it, and we are in its foreground? In a pipeline another member
/// may want it as well, so there the command gets it when it asks.
pub(super) fn owns_terminal() -> bool {
    let standard = [0, 1, 2].map(socket::standard);
    standard.iter().all(terminal::is_terminal)
        && terminal::foreground(standard[0]).is_ok_and(|group| group == terminal::own_group())
}

/// A pidfd of the process that started us.
pub(super) fn caller() -> Result<OwnedFd, Failure> {
    let gone =
        || Failure::because(Step::Fork, "--die-with-parent: the parent process is gone or in another pid namespace");
    let parent = process::parent().ok_or_else(gone)?;
    let pidfd = process::pidfd(parent).map_err(|error| Failure::of(Step::Fork, &error))?;
    // The number could have been used again between the two calls; ours would then be another parent.
    if process::parent() == Some(parent) { Ok(pidfd) } else { Err(gone()) }
}

/// A run that was started.
pub struct Running {
    child: Pid,
    control: OwnedFd,
    signals: OwnedFd,
    parent: Option<OwnedFd>,
    identity: Identity,
    names: Arc<Rules>,
    /// Who says that there is no network.
    offline: Option<Origin>,
    denials: Arc<Mutex<Denials>>,
    broker: Option<JoinHandle<Result<(), guard::Error>>>,
    /// To the process that can mount.
    graft: Option<OwnedFd>,
    pumps: Pumps,
    terminal: Option<OwnedFd>,
    overlays: OverlayReport,
    /// The user's stop was passed on, and no stop was reported yet.
    stop_asked: bool,
    /// The command's process group as numbered here.
    command: Option<Pid>,
    begin: Instant,
    trace: Option<Trace>,
    /// Called when the command runs.
    started: Option<Started>,
    /// Called with each new denial.
    watch: Option<Watch>,
    /// A run in nobody's foreground does not stop with its command.
    detached: bool,
    limits: Watched,
    group: Option<Group>,
}

/// Called with the command's process id as numbered here.
pub type Started = Box<dyn FnOnce(Option<u32>)>;

/// What the run came to.
enum Outcome {
    Status(Status),
    Failed(Failure),
}

impl Running {
    pub(super) fn new(
        plan: &Plan,
        child: Pid,
        (control, graft): (OwnedFd, Option<OwnedFd>),
        stdio: Stdio,
        parent: Option<OwnedFd>,
        begin: Instant,
        trace: Option<Trace>,
    ) -> Result<Self, Failure> {
        let signals = signals::descriptor(&SIGNALS[..9]).map_err(|error| Failure::of(Step::Supervise, &error))?;
        let pumps = stdio.into_pumps().map_err(|error| Failure::because(Step::PrepareStdio, error.to_string()))?;
        Ok(Self {
            child,
            control,
            signals,
            parent,
            identity: plan.identity.clone(),
            names: Arc::clone(&plan.names),
            offline: (plan.network.value == Network::None).then(|| plan.network.origin.clone()),
            denials: Arc::default(),
            broker: None,
            graft,
            pumps,
            terminal: terminal::controlling(),
            overlays: OverlayReport::default(),
            stop_asked: false,
            command: None,
            begin,
            trace,
            started: None,
            watch: None,
            detached: false,
            limits: Watched::new(&Limits::default(), Vec::new()),
            group: None,
        })
    }

    /// Look after these limits; `private` are the directories that count, `group` holds the memory.
    pub(super) fn limited(mut self, limits: &Limits, private: Vec<PathBuf>, group: Option<Group>) -> Self {
        self.limits = Watched::new(limits, private);
        self.group = group;
        self
    }

    /// Have this called as soon as the command runs.
    #[must_use]
    pub fn on_start(mut self, started: Started) -> Self {
        self.started = Some(started);
        self
    }

    /// Have this called with each new denial, while whoever was denied waits.
    #[must_use]
    pub fn on_denial(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// It is in nobody's foreground.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Wait for the command's end, and for the end of everything that it started.
    ///
    /// # Errors
    /// What kept the command from being started, or the sandbox from living as long as it.
    pub fn wait(mut self) -> Result<Ended, Failure> {
        let outcome = self.supervise();
        // Pid 1 has ended or ends now; its end is over only when no process of the namespace is left.
        let ended = process::wait(Some(self.child), process::until_end());
        self.hear_last();
        let _ = self.take_terminal();
        self.pumps.finish();
        if let Some(broker) = self.broker {
            // Nobody is left to be answered. What stopped it early was seen inside as calls that failed.
            let _ = broker.join();
        }
        ended.map_err(|error| Failure::of(Step::Supervise, &error))?;
        let memory = self.group.is_some_and(Group::end);
        match outcome {
            // A process that is not the command's may have been killed for it.
            Outcome::Failed(_) if memory => {
                let status = Status::Signaled(Signal::KILL.as_raw());
                let limit = Some(Limit::Memory);
                Ok(Ended { status, denials: self.denials, overlays: self.overlays, limit })
            }
            Outcome::Status(status) => {
                let memory = (memory && status != Status::Exited(0)).then_some(Limit::Memory);
                let limit = self.limits.passed().or(memory);
                Ok(Ended { status, denials: self.denials, overlays: self.overlays, limit })
            }
            Outcome::Failed(failure) => Err(failure),
        }
    }

    fn start_broker(&mut self, fds: Vec<OwnedFd>, mounts: Vec<u64>) -> Result<(), Failure> {
        let failed = |error: guard::Error| Failure::of(Step::InstallFilter, &error);
        let Some(listener) = fds.into_iter().next() else { return Err(lost()) };
        let setup = guard::Setup {
            rules: Arc::clone(&self.names),
            mounts: mounts.into_iter().collect(),
            denials: Arc::clone(&self.denials),
            regions: None,
            renumbered: None,
            tell: self.graft.take().map(graft::teller),
            offline: self.offline.clone(),
            watch: self.watch.take(),
        };
        let broker = Broker::new(listener, setup).map_err(failed)?;
        let thread = std::thread::Builder::new().name("broker".into()).spawn(move || broker.run());
        self.broker = Some(thread.map_err(|error| Failure::because(Step::InstallFilter, error.to_string()))?);
        Ok(())
    }

    fn supervise(&mut self) -> Outcome {
        loop {
            match self.turn() {
                Ok(None) => {}
                Ok(Some(outcome)) => return outcome,
                Err(failure) => {
                    self.kill();
                    return Outcome::Failed(failure);
                }
            }
        }
    }

    fn kill(&self) {
        // It may have ended already; then there is nothing to kill.
        let _ = process::kill(self.child, Signal::KILL);
    }

    fn turn(&mut self) -> Result<Option<Outcome>, Failure> {
        let ready = {
            let mut watched: Vec<BorrowedFd<'_>> = vec![self.control.as_fd(), self.signals.as_fd()];
            watched.extend(self.parent.as_ref().map(AsFd::as_fd));
            socket::wait_readable(&watched, self.limits.timeout())
                .map_err(|error| Failure::of(Step::Supervise, &error))?
        };
        match self.limits.check(self.child.as_raw_nonzero().get().cast_unsigned()) {
            Verdict::Nothing => {}
            Verdict::End => self.signal(Signal::TERM.as_raw(), true)?,
            Verdict::Kill => {
                self.kill();
                return Ok(Some(Outcome::Status(Status::Signaled(Signal::KILL.as_raw()))));
            }
        }
        if ready.get(2) == Some(&true) {
            self.kill();
            return Ok(Some(Outcome::Status(Status::Signaled(Signal::KILL.as_raw()))));
        }
        if ready[0] {
            return self.hear();
        }
        while let Some(received) = signals::read(&self.signals) {
            self.pass_on(received)?;
        }
        Ok(None)
    }

    fn hear(&mut self) -> Result<Option<Outcome>, Failure> {
        let received =
            message::receive::<Report>(&self.control).map_err(|error| Failure::of(Step::Supervise, &error))?;
        let Some(message::Received { message: report, fds, sender }) = received else {
            return Ok(Some(Outcome::Failed(lost())));
        };
        match report {
            Report::Step(step) => self.note(step),
            Report::MapUsers => self.map_users()?,
            Report::NeedInput => self.pumps.start_input(),
            Report::Guarded { mounts } => self.start_broker(fds, mounts)?,
            Report::Command => self.command = sender,
            Report::Started => self.start(),
            Report::Stopped(signal) => self.stopped(signal)?,
            Report::Overlays(overlays) => self.overlays = overlays,
            Report::Failed(failure) => return Ok(Some(Outcome::Failed(failure))),
            Report::Exited { status, offsets } => {
                for (number, offset) in offsets.into_iter().enumerate() {
                    if let Some(offset) = offset {
                        stdio::restore_offset(number, offset);
                    }
                }
                return Ok(Some(Outcome::Status(status)));
            }
        }
        Ok(None)
    }

    fn start(&mut self) {
        if let Some(started) = self.started.take() {
            started(self.command.map(|pid| pid.as_raw_nonzero().get().cast_unsigned()));
        }
    }

    /// What was said after the command's end.
    fn hear_last(&mut self) {
        let waits = |control: &OwnedFd| socket::wait_readable(&[control.as_fd()], Some(std::time::Duration::ZERO));
        while waits(&self.control).is_ok_and(|ready| ready[0]) {
            match message::receive::<Report>(&self.control) {
                Ok(Some(message::Received { message: Report::Overlays(overlays), .. })) => self.overlays = overlays,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn note(&mut self, step: Step) {
        if let Some(trace) = &mut self.trace {
            trace(step, self.begin.elapsed());
        }
    }

    fn map_users(&self) -> Result<(), Failure> {
        let Identity::Same { uids, gids } = &self.identity else { return Ok(()) };
        let pid = self.child.as_raw_nonzero();
        setup::write_map(&format!("/proc/{pid}/uid_map"), &identity_map(uids))?;
        setup::write_map(&format!("/proc/{pid}/gid_map"), &identity_map(gids))?;
        self.order(&Order::Mapped)
    }

    fn order(&self, order: &Order) -> Result<(), Failure> {
        message::send(&self.control, order, &[]).map_err(|error| Failure::of(Step::Supervise, &error))
    }

    fn signal(&self, signal: i32, group: bool) -> Result<(), Failure> {
        match message::send(&self.control, &Order::Signal { signal, group }, &[]) {
            // Pid 1 has just ended: its last report waits to be read.
            Err(error) if error.is(crate::sys::Errno::PIPE) || error.is(crate::sys::Errno::CONNRESET) => Ok(()),
            sent => sent.map_err(|error| Failure::of(Step::Supervise, &error)),
        }
    }

    fn pass_on(&mut self, received: Received) -> Result<(), Failure> {
        let Some(signal) = Signal::from_named_raw(received.signal) else { return Ok(()) };
        match signal {
            Signal::CONT => {
                self.stop_asked = false;
                self.give_terminal();
                self.signal(received.signal, true)
            }
            Signal::TSTP => {
                self.stop_asked = true;
                self.signal(received.signal, true)
            }
            // What a terminal sends goes to its whole foreground group, of which the command's group is to be a part.
            Signal::INT | Signal::QUIT | Signal::WINCH => self.signal(received.signal, true),
            _ => self.signal(received.signal, received.by_kernel),
        }
    }

    /// The command stopped. Wanting the terminal it gets it, if it is ours to give; else we stop too, as the shell that
    /// started us expects of its job.
    ///
    /// Only where there is such a shell, or somebody asked: without one nobody would make us go on, all calls that wait for the broker would
    /// wait for ever, and a command could stop whoever is in the group that its caller runs in.
    fn stopped(&mut self, signal: i32) -> Result<(), Failure> {
        if self.detached {
            return Ok(());
        }
        let wants_terminal = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()].contains(&signal);
        // A command that waits for the terminal when the user's stop reaches it has that stop only pending, and continuing it
        // would take it away (signal(7)): then this is the stop that was asked for.
        if wants_terminal && !std::mem::take(&mut self.stop_asked) && self.give_terminal() {
            return self.signal(Signal::CONT.as_raw(), true);
        }
        let asked = std::mem::take(&mut self.stop_asked);
        if !(self.take_terminal() || self.is_job() || asked) {
            return Ok(());
        }
        let failed = |error| Failure::of(Step::Supervise, &error);
        process::kill_group(terminal::own_group(), Signal::TSTP).map_err(failed)?;
        process::kill(process::own_pid(), Signal::STOP).map_err(failed)
    }

    /// Put the command into the foreground if we are there.
    fn give_terminal(&self) -> bool {
        let (Some(terminal), Some(command)) = (&self.terminal, self.command) else { return false };
        terminal::foreground(terminal).is_ok_and(|group| group == terminal::own_group())
            && terminal::set_foreground(terminal, command).is_ok()
    }

    /// Take the foreground back from the command. False: it did not have it.
    fn take_terminal(&self) -> bool {
        let (Some(terminal), Some(command)) = (&self.terminal, self.command) else { return false };
        let is_theirs = terminal::foreground(terminal).is_ok_and(|group| group == command);
        if is_theirs {
            // The terminal may have hung up meanwhile.
            let _ = terminal::set_foreground(terminal, terminal::own_group());
        }
        is_theirs
    }

    /// Are we a job of a shell on our terminal? It puts each of its jobs into a process group of its own.
    fn is_job(&self) -> bool {
        let group = process::parent().and_then(terminal::group_of);
        self.terminal.is_some() && group.is_some_and(|group| group != terminal::own_group())
    }
}

fn identity_map(extents: &[Extent]) -> String {
    let lines: Vec<_> =
        extents.iter().map(|extent| format!("{} {} {}\n", extent.first, extent.first, extent.count)).collect();
    lines.concat()
}

fn lost() -> Failure {
    Failure::because(Step::Supervise, "a process of the sandbox was killed before the command's status was known")
        .hinting("look for the kernel's out-of-memory killer (dmesg), or for who sent SIGKILL")
}

//! The sandbox's first process: makes the tree, gives up what it may not keep, and starts the command.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::joined::Opened;
use super::{Done, Failure, Order, Report, because, failed, identity, mounts, reason, watcher};
use crate::guard::calls::Arch;
use crate::guard::filter::{FilterSpec, program};
use crate::launch::{Status, init, message};
use crate::plan::ordered::{Ids, Ordered};
use crate::sys::process::{self, Forked, Pid, Signal, UnshareFlags};
use crate::sys::seccomp::{self, Instruction};
use crate::sys::signal::Mask;
use crate::sys::{Errno, attr, fs, host, lock, signal, socket};

/// What it has besides.
pub(super) struct Extra {
    pub(super) joined: Opened,
    /// The way to the watcher.
    pub(super) hands: Option<OwnedFd>,
    /// The command's signal mask, where it is not our own.
    pub(super) mask: Option<Mask>,
}

/// The whole life of the process. Never returns.
pub(super) fn run(plan: &Ordered, control: &OwnedFd, monitor: &OwnedFd, extra: &Extra) -> ! {
    if let Ok(directory) = prepare(plan, control, monitor, extra) {
        start(plan, control, &directory);
    }
    process::exit_now(1)
}

fn prepare(plan: &Ordered, control: &OwnedFd, monitor: &OwnedFd, extra: &Extra) -> Done<PathBuf> {
    prepare_all(plan, control, monitor, extra).inspect_err(|failure| tell(control, failure.clone()))
}

fn tell(control: &OwnedFd, failure: Failure) {
    // Without a monitor nobody is left to be told.
    let _ = message::send(control, &Report::Failed(failure), &[]);
}

fn prepare_all(plan: &Ordered, control: &OwnedFd, monitor: &OwnedFd, extra: &Extra) -> Done<PathBuf> {
    if let Some(mask) = extra.mask {
        signal::restore(mask).map_err(failed("sigprocmask"))?;
    }
    // A keeper lives as long as the sandbox: one that is killed takes it along.
    if plan.process.die_with_parent || extra.mask.is_some() {
        process::die_with_parent().map_err(failed("prctl"))?;
        if socket::wait_readable(&[monitor.as_fd()], Some(Duration::ZERO)).map_err(failed("poll"))?[0] {
            return Err(Failure("the parent process is gone".into()));
        }
    }
    wait_for_maps(control)?;
    let (user, group) = plan.joined.as_user;
    for (id, set, what) in [(user, process::set_user as fn(_) -> _, "uid"), (group, process::set_group, "gid")] {
        id.map_or(Ok(()), set).map_err(|error| {
            because(format_args!("unable to switch to {what} {}", id.unwrap_or_default()), error.errno())
        })?;
    }
    let proc = fs::open_place(Path::new("/proc")).map_err(failed("Can't open /proc"))?;
    if let Ids::One { user, group } = plan.ids {
        identity::map_one(&proc, user, group)?;
    }
    if plan.namespaces.network {
        socket::loopback_up().map_err(failed("loopback: Failed RTM_NEWADDR"))?;
    }
    if let Some(name) = &plan.hostname {
        host::set_name(name).map_err(failed(&format!("Can't set hostname to {}", name.display())))?;
    }
    let mask = process::set_umask(0);
    mounts::build(plan, &proc)?;
    process::set_umask(mask);
    if let Some(hands) = &extra.hands {
        watcher::hand_over(hands, &proc)?;
    }
    limit(plan, &proc, control, &extra.joined)?;
    let directory = enter_directory(plan)?;
    guard(plan, control)?;
    if plan.process.new_session {
        process::new_session().map_err(failed("setsid"))?;
    }
    if let Some(fd) = plan.process.block {
        let block = process::take_descriptor(fd).map_err(failed("block-fd"))?;
        // One byte, or the end.
        attr::read_open(&block, 1).map_err(failed("read block-fd"))?;
    }
    Ok(directory)
}

fn wait_for_maps(control: &OwnedFd) -> Done<()> {
    match message::receive(control) {
        Ok(Some(message::Received { message: Order::Go, .. })) => Ok(()),
        _ => Err(Failure("the monitor is gone".into())),
    }
}

/// Users and capabilities become what they are to stay.
fn limit(plan: &Ordered, proc: &OwnedFd, control: &OwnedFd, joined: &Opened) -> Done<()> {
    joined.enter_later()?;
    if plan.namespaces.no_more_users {
        identity::forbid_namespaces(proc)?;
    }
    // Who keeps capabilities could change the mounts of the namespace that they were made in.
    let ours = plan.ids != Ids::Given && plan.joined.later_users.is_none();
    if (plan.capabilities != 0 && ours) || plan.namespaces.no_more_users {
        identity::enter_second(plan, proc, || {
            message::send(control, &Report::MapAgain, &[]).map_err(failed("send to the monitor"))?;
            wait_for_maps(control)
        })?;
    }
    if plan.namespaces.assert_no_more_users && process::unshare(UnshareFlags::NEWUSER).is_ok() {
        return Err(Failure("creation of new user namespaces was not disabled as requested".into()));
    }
    process::set_no_new_privs().map_err(failed("prctl(PR_SET_NO_NEW_PRIVS) failed"))?;
    process::keep_capabilities(plan.capabilities).map_err(failed("capset"))?;
    // Until the command is executed: /proc/PID/exe and /proc/PID/fd of pid 1 are doors to the host's mounts for every process
    // of the same user.
    process::set_undumpable().map_err(failed("prctl"))
}

/// Gives where the command starts.
fn enter_directory(plan: &Ordered) -> Done<PathBuf> {
    let enter = |dir: &Path| std::env::set_current_dir(dir);
    if let Some(dir) = &plan.command.directory {
        enter(dir).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            because(format_args!("Can't chdir to {}", dir.display()), errno)
        })?;
        return Ok(dir.clone());
    }
    let root = PathBuf::from("/");
    let dir = plan.command.otherwise.iter().find(|dir| enter(dir).is_ok()).cloned();
    dir.map_or_else(|| enter(&root).map(|()| root.clone()).map_err(|error| Failure(format!("chdir /: {error}"))), Ok)
}

/// From here on this process makes no call that the broker is asked about.
fn guard(plan: &Ordered, control: &OwnedFd) -> Done<()> {
    if plan.guard.is_none() {
        return Ok(());
    }
    // What a set-user-ID file could do is bubblewrap's to allow, and a sandbox inside needs openat2.
    let spec = FilterSpec { arch: Arch::HOST, guarded: true, strict: false, preload: false, offline: false };
    let program = program(&spec);
    let listener = seccomp::install_with_listener(&program).map_err(|error| {
        let why = if error.is(Errno::BUSY) {
            "names cannot be guarded here: this runs inside of a sandbox that uses seccomp notification itself".into()
        } else {
            format!("names cannot be guarded here: seccomp: {}", reason(error.errno()))
        };
        Failure(why)
    })?;
    message::send(control, &Report::Guarded, &[listener.as_fd()]).map_err(failed("send the listener"))
}

/// Become the command, or pid 1 above it. Returns when neither could be, and that was told.
fn start(plan: &Ordered, control: &OwnedFd, directory: &Path) {
    let wants = &plan.process;
    let reaps = plan.namespaces.pid || !wants.locks.is_empty() || wants.sync.is_some();
    if !reaps || wants.as_pid_1 {
        return execute(plan, control, directory);
    }
    match process::fork() {
        Ok(Forked::Child) => {
            if wants.die_with_parent && process::die_with_parent().is_err() {
                return;
            }
            // Its end is for pid 1 alone to tell.
            if let Some(fd) = wants.sync {
                drop(process::take_descriptor(fd));
            }
            execute(plan, control, directory);
        }
        Ok(Forked::Parent(command)) => reap(plan, control, command),
        Err(error) => tell(control, because("Can't fork for pid 1", error.errno())),
    }
}

fn execute(plan: &Ordered, control: &OwnedFd, directory: &Path) {
    let failure = match ready(plan).and_then(|filters| install(&filters)) {
        Ok(()) => become_command(plan, directory),
        Err(failure) => failure,
    };
    tell(control, failure);
}

fn ready(plan: &Ordered) -> Done<Vec<Vec<Instruction>>> {
    let filters = plan.process.filters.iter().map(|fd| read_filter(*fd)).collect::<Done<_>>()?;
    signal::set_default(Signal::PIPE.as_raw()).map_err(failed("sigaction"))?;
    Ok(filters)
}

/// A program for `seccomp(2)` as the caller compiled it.
fn read_filter(fd: i32) -> Done<Vec<Instruction>> {
    let failed = failed("Can't read seccomp data");
    let file = process::take_descriptor(fd).map_err(&failed)?;
    let bytes = attr::read_open(&file, seccomp::MAX_INSTRUCTIONS * 8 + 1).map_err(&failed)?;
    let (lines, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Failure("Invalid seccomp data, must be multiple of 8".into()));
    }
    let line = |[a, b, jt, jf, k @ ..]: &[u8; 8]| Instruction {
        code: u16::from_ne_bytes([*a, *b]),
        jt: *jt,
        jf: *jf,
        k: u32::from_ne_bytes(*k),
    };
    Ok(lines.iter().map(line).collect())
}

/// The last thing before the command.
fn install(filters: &[Vec<Instruction>]) -> Done<()> {
    filters.iter().try_for_each(|filter| {
        seccomp::install(filter).map_err(|error| {
            // The words are those of bubblewrap, which asks by prctl.
            Failure(match error.errno() {
                Errno::INVAL => "Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported \
                                 EINVAL. (Hint: this requires a kernel configured with CONFIG_SECCOMP and \
                                 CONFIG_SECCOMP_FILTER.)"
                    .into(),
                errno => format!("prctl(PR_SET_SECCOMP): {}", reason(errno)),
            })
        })
    })
}

fn become_command(plan: &Ordered, directory: &Path) -> Failure {
    let command = &plan.command;
    let mut environment: Vec<(OsString, OsString)> =
        command.environment.iter().filter(|(name, _)| name != "PWD").cloned().collect();
    environment.push(("PWD".into(), directory.into()));
    let errno = init::exec(&command.program, &command.words, &environment);
    because(format_args!("execvp {}", command.program.display()), errno)
}

/// Pid 1: tells of the command's end, and stays until no process is left.
fn reap(plan: &Ordered, control: &OwnedFd, command: Pid) -> ! {
    let locks = plan.process.locks.iter().map(|path| take_lock(path)).collect::<Done<Vec<_>>>();
    let mut keep: Vec<i32> = vec![control.as_raw_fd()];
    keep.extend(plan.process.sync);
    keep.extend(locks.iter().flatten().map(AsRawFd::as_raw_fd));
    keep.sort_unstable();
    let closed = process::close_except(&keep);
    let failure = locks.as_ref().err().cloned();
    let failure = failure.or_else(|| closed.err().map(|error| because("pid 1", error.errno())));
    if let Some(failure) = failure {
        tell(control, failure);
        process::exit_now(1);
    }
    let mut code = 1;
    while let Ok(Some((pid, status))) = process::wait(None, process::until_end()) {
        if pid == command {
            code = Status::of(status).code();
            // A monitor that is gone wants to know nothing.
            let _ = message::send(control, &Report::Ended(code), &[]);
        }
    }
    process::exit_now(code.into())
}

/// Held as long as this process lives.
fn take_lock(path: &Path) -> Done<OwnedFd> {
    let text = format!("Unable to open lock file {}", path.display());
    let file = fs::open(path, fs::OFlags::RDONLY).map_err(failed(&text))?;
    lock::read_lock(&file).map_err(failed(&format!("Unable to lock file {}", path.display())))?;
    Ok(file)
}

//! Pid 1 of the sandbox: finishes the set-up from inside, gives up every privilege, starts the command, and reaps.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::message::{self, Order, Received, Report};
use super::setup::{Setup, keep_only};
use super::stdio::{self, Source};
use super::{Failure, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND, Status, Step, limits, proc};
use crate::plan::{Plan, ProcView};
use crate::sys::process::{self, Forked, Pid, Signal, WaitStatus};
use crate::sys::{self, Errno, fs, signal, socket, terminal};

/// The whole life of pid 1. Never returns.
pub(super) fn run(setup: &Setup<'_>, parent: &OwnedFd) -> ! {
    let failure = match prepare(setup, parent).and_then(|stdio| start(setup, stdio)) {
        Ok(run) => run.reap(),
        Err(failure) => failure,
    };
    // Without a supervisor nobody is left to be told.
    let _ = message::send(&setup.control, &Report::Failed(failure), &[]);
    process::exit_now(super::STATUS_FAILED.into())
}

fn at<T>(step: Step, result: sys::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of(step, &error))
}

/// The standard descriptors of the command; `None` where it keeps the caller's.
type Files = [Option<OwnedFd>; 3];

fn prepare(setup: &Setup<'_>, parent: &OwnedFd) -> Result<Files, Failure> {
    at(Step::ForkInit, process::die_with_parent())?;
    if at(Step::ForkInit, socket::wait_readable(&[parent.as_fd()], Some(std::time::Duration::ZERO)))?[0] {
        return Err(Failure::because(Step::ForkInit, "the parent process is gone"));
    }
    show_proc(setup)?;
    setup.trace(Step::ChangeDirectory);
    change_directory(&setup.plan.request.cwd)?;
    setup.trace(Step::Stdio);
    let files = open_files(setup)?;
    setup.trace(Step::CloseDescriptors);
    close_descriptors(setup, &files)?;
    setup.trace(Step::DropPrivileges);
    drop_privileges()?;
    setup.trace(Step::CheckPromises);
    check_promises(setup.plan)?;
    Ok(files)
}

fn show_proc(setup: &Setup<'_>) -> Result<(), Failure> {
    if setup.plan.request.proc == ProcView::Host {
        return Ok(());
    }
    setup.trace(Step::MountProc);
    let masks = proc::show()?;
    setup.trace(Step::LimitNamespaces);
    limit_namespaces(setup.plan)?;
    masks.as_ref().map_or(Ok(()), proc::restrict)
}

/// The limit counts in our own user namespace, so the number 0 forbids every further one (`namespaces(7)`).
pub(super) fn limit_namespaces(plan: &Plan) -> Result<(), Failure> {
    if plan.request.nested_userns {
        return Ok(());
    }
    let path = "/proc/sys/user/max_user_namespaces";
    std::fs::write(path, "0").map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Failure::of(Step::LimitNamespaces, &sys::Error::new("write", format_args!("{path:?}, \"0\""), errno))
    })
}

fn change_directory(cwd: &Path) -> Result<(), Failure> {
    std::env::set_current_dir(cwd).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Failure::of(Step::ChangeDirectory, &sys::Error::new("chdir", format_args!("{cwd:?}"), errno))
    })
}

fn open_files(setup: &Setup<'_>) -> Result<Files, Failure> {
    let mut files = [None, None, None];
    for (number, source) in setup.stdio.sources.iter().enumerate() {
        files[number] = match source {
            Source::Pass => None,
            Source::Device { path, device, access } => stdio::open_device(path, *device, *access),
            Source::Pipe(end) => Some(clone(end)?),
            Source::SameAsOutput => files[1].as_ref().map(clone).transpose()?,
            Source::Reopen { path, offset, file, otherwise } => Some(match stdio::open_inside(path, *offset, *file) {
                Some(opened) => opened,
                None => ask_for_input(setup, otherwise)?,
            }),
        };
    }
    Ok(files)
}

/// The file is not to be seen inside: it comes through a pipe.
fn ask_for_input(setup: &Setup<'_>, pipe: &OwnedFd) -> Result<OwnedFd, Failure> {
    at(Step::Stdio, message::send(&setup.control, &Report::NeedInput, &[]))?;
    clone(pipe)
}

fn clone(fd: &OwnedFd) -> Result<OwnedFd, Failure> {
    fd.try_clone().map_err(|error| Failure::because(Step::Stdio, error.to_string()))
}

/// Nothing of the host but the standard files and what is to be preserved stays open, above all not the lease.
fn close_descriptors(setup: &Setup<'_>, files: &Files) -> Result<(), Failure> {
    let mut keep: Vec<BorrowedFd<'_>> = vec![setup.control.as_fd()];
    keep.extend(files.iter().flatten().map(AsFd::as_fd));
    let inherited: Vec<i32> = (0..3 + setup.plan.request.preserve_fds.cast_signed()).collect();
    keep_only(&keep, &inherited)
}

fn drop_privileges() -> Result<(), Failure> {
    // Else /proc/1/exe and /proc/1/fd are doors to the host's mounts for every process of the same user.
    at(Step::DropPrivileges, process::set_undumpable())?;
    at(Step::DropPrivileges, process::set_no_new_privs())?;
    at(Step::DropPrivileges, process::drop_capabilities())
}

fn check_promises(plan: &Plan) -> Result<(), Failure> {
    for (path, variable) in &plan.promised {
        fs::check_writable(path).map_err(|error| {
            let rule = plan.names.judge(path).rule;
            Failure::of(Step::CheckPromises, &error)
                .about(format!(
                    "${variable} names {}, which is not writable: {} ({})",
                    path.display(),
                    rule.access,
                    rule.origin
                ))
                .hinting(format!("allow it with a private or write rule, or set {variable} under [environment] set"))
        })?;
    }
    Ok(())
}

/// The running command.
struct Run<'a> {
    control: &'a OwnedFd,
    command: Pid,
    signals: OwnedFd,
    /// Kept to learn where the command left its files.
    files: Files,
}

fn start<'a>(setup: &'a Setup<'_>, files: Files) -> Result<Run<'a>, Failure> {
    setup.trace(Step::InstallFilter);
    super::filter::install(setup)?;
    setup.trace(Step::ForkCommand);
    let signals = at(Step::ForkCommand, signal::descriptor(&[libc_sigchld()]))?;
    let (failed, report) = at(Step::ForkCommand, socket::pipe())?;
    let command = match at(Step::ForkCommand, process::fork())? {
        Forked::Child => execute(setup, &files, report),
        Forked::Parent(pid) => pid,
    };
    drop(report);
    check_exec(File::from(failed), setup.plan)?;
    setup.trace(Step::Supervise);
    at(Step::ForkCommand, message::send(&setup.control, &Report::Started, &[]))?;
    Ok(Run { control: &setup.control, command, signals, files })
}

fn libc_sigchld() -> i32 {
    Signal::CHILD.as_raw()
}

/// The pipe closes by itself when the command is executed; what it carries is why it could not be.
fn check_exec(mut failed: File, plan: &Plan) -> Result<(), Failure> {
    let mut text = String::new();
    failed.read_to_string(&mut text).map_err(|error| Failure::because(Step::Exec, error.to_string()))?;
    if text.is_empty() {
        return Ok(());
    }
    let errno = text.parse().map_or(Errno::IO, Errno::from_raw_os_error);
    let program = plan.request.argv[0].to_string_lossy();
    let mut failure = Failure::of(Step::Exec, &errno).about(&program);
    failure.status = if errno == Errno::NOENT { STATUS_NOT_FOUND } else { STATUS_NOT_EXECUTABLE };
    Err(failure)
}

/// In the forked child: a process group of its own (a signal to its group must not reach processes outside), the caller's
/// signal mask, its files, and the command.
fn execute(setup: &Setup<'_>, files: &Files, report: OwnedFd) -> ! {
    let errno = match ready(setup, files) {
        Ok(()) => {
            let Plan { request, environment, .. } = setup.plan;
            exec(&request.argv[0], &request.argv, environment)
        }
        Err(error) => error.errno(),
    };
    // If even this cannot be written the run ends with the status below.
    let _ = write!(File::from(report), "{}", errno.raw_os_error());
    process::exit_now(super::STATUS_FAILED.into())
}

fn ready(setup: &Setup<'_>, files: &Files) -> sys::Result<()> {
    process::lead_group()?;
    message::send(&setup.control, &Report::Command, &[])?;
    if setup.foreground {
        // All signals are still blocked, else SIGTTOU would stop us. Where it fails, the supervisor gives it on demand.
        let _ = terminal::set_foreground(socket::standard(0), process::own_pid());
    }
    for (number, file) in (0..).zip(files) {
        if let Some(file) = file {
            process::duplicate_to(file, number)?;
        }
    }
    limits::apply(&setup.plan.limits)?;
    signal::set_default(Signal::PIPE.as_raw())?;
    signal::restore(setup.mask)?;
    process::close_on_exec_from(3 + setup.plan.request.preserve_fds)
}

/// `execvpe(3)` in the command's own environment; gives the error of the best try.
pub(super) fn exec(program: &OsStr, argv: &[OsString], environment: &[(OsString, OsString)]) -> Errno {
    let text = |part: &OsStr| CString::new(part.as_bytes()).ok();
    let words: Vec<_> = argv.iter().filter_map(|word| text(word)).collect();
    let env: Vec<_> = environment.iter().filter_map(|(name, value)| variable(name, value)).collect();
    let mut errno = Errno::NOENT;
    for program in candidates(program, environment) {
        match process::exec(program.as_os_str(), &words, &env) {
            Errno::NOENT | Errno::NOTDIR => {}
            // No magic number: a shell script without a first line, as execvp takes it.
            Errno::NOEXEC => errno = exec_script(&program, &words, &env),
            other => errno = other,
        }
    }
    errno
}

fn exec_script(program: &Path, args: &[CString], env: &[CString]) -> Errno {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else { return Errno::INVAL };
    let shell = [c"/bin/sh".to_owned(), path];
    let args: Vec<_> = shell.into_iter().chain(args.iter().skip(1).cloned()).collect();
    match process::exec(OsStr::new("/bin/sh"), &args, env) {
        Errno::NOENT => Errno::NOEXEC,
        errno => errno,
    }
}

fn variable(name: &OsString, value: &OsString) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

fn candidates(program: &OsStr, environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let program = Path::new(program);
    if program.as_os_str().as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin")))
        .map(|dir| if dir.as_os_str().is_empty() { Path::new(".").join(program) } else { dir.join(program) })
        .collect()
}

impl Run<'_> {
    /// Reap everything, pass signals on, until the command has ended; then end, and the kernel ends all that is left.
    fn reap(mut self) -> Failure {
        loop {
            let ready = match socket::wait_readable(&[self.signals.as_fd(), self.control.as_fd()], None) {
                Ok(ready) => ready,
                Err(error) => return Failure::of(Step::Supervise, &error),
            };
            if ready[0] {
                while signal::read(&self.signals).is_some() {}
                self.reap_ended();
            }
            if ready[1] {
                self.obey();
            }
        }
    }

    fn reap_ended(&mut self) {
        while let Ok(Some((pid, status))) = process::wait(None, process::poll_children()) {
            if pid != self.command {
                continue;
            }
            match status.stopping_signal() {
                Some(signal) => self.tell(&Report::Stopped(signal)),
                None if status.continued() => {}
                None => self.end(status),
            }
        }
    }

    fn end(&mut self, status: WaitStatus) -> ! {
        let offsets = self.files.each_ref().map(|file| file.as_ref().and_then(|file| fs::offset(file).ok()));
        self.tell(&Report::Exited { status: Status::of(status), offsets });
        process::exit_now(0)
    }

    fn tell(&self, report: &Report) {
        if message::send(self.control, report, &[]).is_err() {
            // The supervisor is gone: so is the run.
            process::exit_now(super::STATUS_FAILED.into());
        }
    }

    fn obey(&self) {
        match message::receive::<Order>(self.control) {
            Ok(Some(Received { message: Order::Signal { signal, group }, .. })) => self.signal(signal, group),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => process::exit_now(super::STATUS_FAILED.into()),
        }
    }

    fn signal(&self, signal: i32, group: bool) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        // A command that has just ended needs no signal any more.
        let _ = if group { process::kill_group(self.command, signal) } else { process::kill(self.command, signal) };
    }
}

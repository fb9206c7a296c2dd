//! Processes: fork, namespaces, capabilities, waiting, signals to others.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{PidfdFlags, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Errno, Error, Fd, Result, last_errno};

pub use rustix::process::{Pid, Resource, Signal, WaitStatus};
pub use rustix::thread::UnshareFlags;

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    Child,
    Parent(Pid),
}

/// `fork(2)`. Call it only while the process has one thread: the child has only the calling one, and a lock that another
/// thread held (the allocator's, say) would stay locked in it for ever.
pub fn fork() -> Result<Forked> {
    // SAFETY: the callers fork before they start any thread, so the child's copy of the process is consistent.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        pid => {
            // `from_raw` asserts that a number is none of kill's special ones.
            let child = if pid > 0 { Pid::from_raw(pid) } else { None };
            child.map(Forked::Parent).ok_or_else(|| failed("fork", "", last_errno()))
        }
    }
}

/// `clone(2)` with namespaces and nothing else: a fork whose child is in new namespaces, and pid 1 of a new pid namespace.
/// The process must have one thread.
pub fn fork_into(flags: UnshareFlags) -> Result<Forked> {
    let all = libc::c_long::from(flags.bits().cast_signed()) | libc::c_long::from(libc::SIGCHLD);
    // SAFETY: without CLONE_VM and without a stack it is a fork; the callers have one thread. What libc keeps of the old
    // process id is used by nothing here.
    let pid = unsafe { libc::syscall(libc::SYS_clone, all, 0, 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => Ok(Forked::Child),
        Ok(pid) if pid > 0 => Pid::from_raw(pid).map(Forked::Parent).ok_or_else(|| failed("clone", "", Errno::INVAL)),
        _ => Err(Error::new("clone", format_args!("{flags:?}"), last_errno())),
    }
}

/// `_exit(2)`: no destructors, no buffers; the only way out of a forked child.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit does not return and touches nothing of ours.
    unsafe { libc::_exit(status) }
}

fn failed(call: &'static str, args: &str, errno: Errno) -> Error {
    Error::new(call, format_args!("{args}"), errno)
}

/// `unshare(2)`. Only for namespaces and `CLONE_FS`; the descriptor table stays shared.
pub fn unshare(flags: UnshareFlags) -> Result<()> {
    // SAFETY: none of the callers passes CLONE_FILES, so no descriptor that other code relies on changes its meaning.
    unsafe { rustix::thread::unshare_unsafe(flags) }
        .map_err(|errno| Error::new("unshare", format_args!("{flags:?}"), errno))
}

/// `prctl(PR_SET_PDEATHSIG, SIGKILL)`: die when the *thread* that forked us ends. Survives unshare and capset.
pub fn die_with_parent() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| failed("prctl", "PR_SET_PDEATHSIG, SIGKILL", errno))
}

/// `prctl(PR_SET_PDEATHSIG, 0)`: the end of the parent is nothing to us any more.
pub fn live_on() -> Result<()> {
    rustix::process::set_parent_process_death_signal(None)
        .map_err(|errno| failed("prctl", "PR_SET_PDEATHSIG, 0", errno))
}

/// `prctl(PR_SET_DUMPABLE, 0)`: `/proc/PID/{exe,fd,root,mem}` are closed to processes of the same user.
pub fn set_undumpable() -> Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|errno| failed("prctl", "PR_SET_DUMPABLE, 0", errno))
}

/// `prctl(PR_SET_DUMPABLE, 1)`: what entering a user namespace takes away (`user_namespaces(7)`).
pub fn set_dumpable() -> Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
        .map_err(|errno| failed("prctl", "PR_SET_DUMPABLE, 1", errno))
}

/// `prctl(PR_SET_CHILD_SUBREAPER, 1)`: descendants whose parents end become our children.
pub fn adopt_descendants() -> Result<()> {
    rustix::process::set_child_subreaper(Some(own_pid()))
        .map_err(|errno| failed("prctl", "PR_SET_CHILD_SUBREAPER, 1", errno))
}

/// `prctl(PR_SET_NO_NEW_PRIVS, 1)`
pub fn set_no_new_privs() -> Result<()> {
    rustix::thread::set_no_new_privs(true).map_err(|errno| failed("prctl", "PR_SET_NO_NEW_PRIVS, 1", errno))
}

/// Empty the bounding set and all of the calling thread's capability sets.
pub fn drop_capabilities() -> Result<()> {
    drop_bounding_set()?;
    drop_thread_capabilities()
}

/// Empty the calling thread's effective, permitted, inheritable and ambient sets (`capset(2)`).
pub fn drop_thread_capabilities() -> Result<()> {
    rustix::thread::clear_ambient_capability_set()
        .map_err(|errno| failed("prctl", "PR_CAP_AMBIENT_CLEAR_ALL", errno))?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(|errno| failed("capset", "none", errno))
}

/// The effective capabilities of this thread, bit by bit (`capabilities(7)`).
#[must_use]
pub fn capabilities() -> u64 {
    rustix::thread::capabilities(None).map_or(0, |sets| sets.effective.bits())
}

/// Have these capabilities, over exec too (inheritable and ambient), and no others.
pub fn keep_capabilities(keep: u64) -> Result<()> {
    drop_bounding_set_but(keep)?;
    rustix::thread::clear_ambient_capability_set()
        .map_err(|errno| failed("prctl", "PR_CAP_AMBIENT_CLEAR_ALL", errno))?;
    let keep = CapabilitySet::from_bits_retain(keep);
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: keep };
    rustix::thread::set_capabilities(None, sets).map_err(|errno| failed("capset", "some", errno))?;
    for one in keep.iter() {
        rustix::thread::configure_capability_in_ambient_set(one, true)
            .map_err(|errno| failed("prctl", "PR_CAP_AMBIENT_RAISE", errno))?;
    }
    Ok(())
}

fn drop_bounding_set() -> Result<()> {
    drop_bounding_set_but(0)
}

fn drop_bounding_set_but(keep: u64) -> Result<()> {
    for capability in (0..64).filter(|capability| keep & (1 << capability) == 0) {
        // SAFETY: PR_CAPBSET_DROP takes one number and changes only the calling thread's bounding set.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } == 0 {
            continue;
        }
        // EINVAL: the kernel knows no capability of that number, so none above it either.
        return match last_errno() {
            Errno::INVAL => Ok(()),
            errno => Err(Error::new("prctl", format_args!("PR_CAPBSET_DROP, {capability}"), errno)),
        };
    }
    Ok(())
}

/// May this thread map any user and group into a new user namespace?
#[must_use]
pub fn can_map_users() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// May this thread map user 0 of its own user namespace into a new one (`user_namespaces(7)`, Linux 5.12)?
#[must_use]
pub fn can_map_root() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETFCAP))
}

/// `pidfd_open(2)`: a descriptor that becomes readable when the process has ended.
pub fn pidfd(pid: Pid) -> Result<OwnedFd> {
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(|errno| Error::new("pidfd_open", format_args!("{pid:?}"), errno))
}

/// `kill(2)`
pub fn kill(pid: Pid, signal: Signal) -> Result<()> {
    rustix::process::kill_process(pid, signal)
        .map_err(|errno| Error::new("kill", format_args!("{pid:?}, {signal:?}"), errno))
}

/// `pidfd_send_signal(2)`: never to another process that has got the same number.
pub fn kill_by(pidfd: impl AsFd, signal: Signal) -> Result<()> {
    let pidfd = pidfd.as_fd();
    rustix::process::pidfd_send_signal(pidfd, signal)
        .map_err(|errno| Error::new("pidfd_send_signal", format_args!("{}, {signal:?}", Fd(pidfd)), errno))
}

/// `killpg(3)`
pub fn kill_group(group: Pid, signal: Signal) -> Result<()> {
    rustix::process::kill_process_group(group, signal)
        .map_err(|errno| Error::new("kill", format_args!("-{group:?}, {signal:?}"), errno))
}

/// `waitpid(2)`; `None` waits for any child. `Ok(None)`: nothing to report (with `WNOHANG`) or no child left.
pub fn wait(pid: Option<Pid>, options: WaitOptions) -> Result<Option<(Pid, WaitStatus)>> {
    loop {
        let waited = match pid {
            Some(pid) => rustix::process::waitpid(Some(pid), options),
            None => rustix::process::wait(options),
        };
        match waited {
            Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(None),
            Err(errno) => return Err(Error::new("waitpid", format_args!("{pid:?}, {options:?}"), errno)),
            Ok(found) => return Ok(found),
        }
    }
}

/// `waitpid` options: also report stopped and continued children, never block.
#[must_use]
pub fn poll_children() -> WaitOptions {
    WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED
}

/// `waitpid` options: block until the child has ended.
#[must_use]
pub fn until_end() -> WaitOptions {
    WaitOptions::empty()
}

/// `setpgid(0, 0)`: a process group of our own.
pub fn lead_group() -> Result<()> {
    rustix::process::setpgid(None, None).map_err(|errno| failed("setpgid", "0, 0", errno))
}

/// `setsid(2)`: a session and a process group of our own, without a terminal.
pub fn new_session() -> Result<()> {
    rustix::process::setsid().map(drop).map_err(|errno| failed("setsid", "", errno))
}

/// Close what the caller left open for whomever it starts: every descriptor from `first` on that is not close-on-exec.
/// Ours all are.
pub fn close_inherited(first: RawFd) -> Result<()> {
    let names = super::fs::entries(super::fs::open(Path::new("/proc/self/fd"), super::fs::OFlags::RDONLY)?)?;
    for number in names.iter().filter_map(|entry| entry.name.to_str()?.parse::<RawFd>().ok()) {
        // SAFETY: only asks for a flag of the number, open or not.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if number >= first && flags != -1 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: it was there before we were, so nothing in this process owns it.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Limit this process and what it starts from now on (`setrlimit(2)`), never to more than it has.
pub fn limit(resource: Resource, value: u64) -> Result<()> {
    let had = rustix::process::getrlimit(resource);
    let value = had.maximum.map_or(value, |maximum| maximum.min(value));
    // A little above for processor time: the first is told by a signal, the second kills.
    let maximum =
        if resource == Resource::Cpu { had.maximum.map_or(value + 1, |max| max.min(value + 1)) } else { value };
    let new = rustix::process::Rlimit { current: Some(value), maximum: Some(maximum) };
    rustix::process::setrlimit(resource, new)
        .map_err(|errno| Error::new("setrlimit", format_args!("{resource:?}, {value}"), errno))
}

/// Raw parent process id; 0 when the parent is outside our pid namespace.
#[must_use]
pub fn parent() -> Option<Pid> {
    rustix::process::getppid()
}

/// Mark every descriptor from `first` on close-on-exec (`close_range(2)` with `CLOSE_RANGE_CLOEXEC`, Linux 5.11).
pub fn close_on_exec_from(first: u32) -> Result<()> {
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Take a descriptor that the caller passed by its number (checked with `F_GETFD`, then close-on-exec).
pub fn take_descriptor(number: RawFd) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: only asks for and sets a flag of the number, open or not.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(Error::new("fcntl", format_args!("{number}, F_SETFD, FD_CLOEXEC"), last_errno()));
    }
    // SAFETY: it is open, and the command line gave it to us: nothing else in this process knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `dup2(2)`: `fd` also becomes number `target`, kept over exec.
pub fn duplicate_to(fd: impl AsFd, target: RawFd) -> Result<()> {
    use std::os::fd::AsRawFd;
    let fd = fd.as_fd();
    // SAFETY: callers replace standard descriptors in a forked child, where nothing else owns the number.
    match unsafe { libc::dup2(fd.as_raw_fd(), target) } {
        -1 => Err(Error::new("dup2", format_args!("{}, {target}", Fd(fd)), last_errno())),
        _ => Ok(()),
    }
}

/// Close every descriptor that is not in `keep` (sorted), by `close_range(2)` over the gaps.
pub fn close_except(keep: &[RawFd]) -> Result<()> {
    let mut first = 0_u32;
    for fd in keep.iter().map(|fd| fd.cast_unsigned()) {
        if fd > first {
            close_range(first, fd - 1, 0)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX, 0)
}

fn close_range(first: u32, last_fd: u32, flags: u32) -> Result<()> {
    // SAFETY: only a forked child calls this, for its whole descriptor table, and never returns to code that owns one of
    // the closed descriptors: it ends with _exit or exec.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last_fd, flags) } {
        0 => Ok(()),
        _ => Err(Error::new("close_range", format_args!("{first}, {last_fd}, {flags}"), last_errno())),
    }
}

/// `execve(2)`; returns only on failure.
#[must_use]
pub fn exec(program: &OsStr, argv: &[CString], env: &[CString]) -> Errno {
    let Ok(program) = CString::new(program.as_bytes()) else { return Errno::INVAL };
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|text| text.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: program and both lists are NUL-terminated and live until the call returns or the image is replaced.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    last_errno()
}

/// Become another user for good: supplementary groups, group, user (in that order; afterwards no capability is left).
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<()> {
    let args = || format!("uid {uid}, gid {gid}");
    // SAFETY: the list is as long as said.
    if unsafe { libc::setgroups(groups.len(), groups.as_ptr()) } != 0 {
        return Err(failed("setgroups", &args(), last_errno()));
    }
    // SAFETY: plain numbers; libc applies the change to every thread.
    if unsafe { libc::setresgid(gid, gid, gid) } != 0 {
        return Err(failed("setresgid", &args(), last_errno()));
    }
    // SAFETY: as above.
    if unsafe { libc::setresuid(uid, uid, uid) } != 0 {
        return Err(failed("setresuid", &args(), last_errno()));
    }
    // The change made our /proc/self root's own (prctl(2), PR_SET_DUMPABLE), and a user namespace's maps are written there.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
        .map_err(|errno| failed("prctl", "PR_SET_DUMPABLE, 1", errno))
}

/// `setuid(2)` and `setgid(2)` of the calling thread alone.
pub fn set_user(user: u32) -> Result<()> {
    rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(user))
        .map_err(|errno| Error::new("setuid", format_args!("{user}"), errno))
}

/// See [`set_user`].
pub fn set_group(group: u32) -> Result<()> {
    rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(group))
        .map_err(|errno| Error::new("setgid", format_args!("{group}"), errno))
}

/// Effective user and group.
#[must_use]
pub fn user() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Set the file mode creation mask; gives the one before (`umask(2)`).
#[allow(clippy::must_use_candidate, reason = "the mask before is of use to some callers only")]
pub fn set_umask(mask: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask)).as_raw_mode()
}

/// Our own process id.
#[must_use]
pub fn own_pid() -> Pid {
    rustix::process::getpid()
}

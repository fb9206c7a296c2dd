//! Answers the calls that a filter hands over: carries out what the rules permit, leaves the rest to the kernel.
//!
//! The kernel already says no to every write there, so the broker never has to deny: it fails to grant. What it looked at
//! may change before the kernel looks again; that can turn a yes into a no, never a no into a yes.
//!
//! What a caller can tell from a writable mount:
//! - a signal whose handler was installed without `SA_RESTART` can interrupt any of these calls (`EINTR`) as long as the
//!   broker has not received it; nothing is done then, and nothing is ever done twice;
//! - `rename` of `.` or `..` across a mount is `EXDEV` before it is `EBUSY`;
//! - a file made with `O_TMPFILE` in a free directory cannot be linked into a guarded one (`EXDEV`);
//! - `openat2` with `RESOLVE_*` flags follows no link in its last step;
//! - attributes that are set by `ioctl` on a descriptor (`chattr`) stay read-only, `file_setattr` works;
//! - a file is made, or truncated, before the caller's limit on descriptors is looked at.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::act::{self, Act};
use super::attempt::Attempt;
use super::calls::{Arch, Op, Table};
use super::decide::{Cause, Change, Request, Verdict, Which, decide};
use super::denial::{Denial, Denials};
use super::refused::Mounts;
use super::regions::Regions;
use super::reply::{OrContinue, Reply, Step};
use super::resolve::{HostSpot, Spot};
use super::task::{Opening, Task};
use crate::policy::{Origin, Rules};
use crate::sys;
use crate::sys::Errno;
use crate::sys::fs::{FileId, Stat};
use crate::sys::notify::{Answer, Listener, Notification};

/// `RENAME_EXCHANGE`
const EXCHANGE: u32 = 2;

/// The rule that denies, the name that it holds on, and why.
pub(super) type Denied = (usize, Which, Cause);

/// Why a broker could not start, or stopped before the sandbox ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("prepare the broker")]
    Prepare(#[source] sys::Error),
    #[error("wait for a call of the sandbox")]
    Receive(#[source] sys::Error),
}

/// What the broker did to a directory.
#[derive(Debug)]
pub enum Happened<'a> {
    /// It is new at this path, as seen inside, and nothing below it is protected.
    /// `maker` is the mount namespace of who made it, in sandboxes whose inner namespaces are served too.
    New { path: &'a Path, file: FileId, maker: Option<OwnedFd> },
    /// It has another path now, or none of those that it had.
    Moved,
}

/// Told before whoever asked for it goes on.
pub type Tell = Box<dyn FnMut(&Happened<'_>) + Send>;

/// Something that was denied for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted<'a> {
    Denial(&'a Denial),
    Attempt(&'a Attempt),
}

/// Told of each new denial as it is noted, while the caller waits: it must not wait itself.
pub type Watch = Box<dyn Fn(Noted<'_>) + Send>;

/// What a broker goes by.
pub struct Setup {
    /// All rules, known by all the names of what they speak of.
    pub rules: Arc<Rules>,
    /// The mounts (`STATX_MNT_ID`, as seen inside) that the launcher made read-only. Nothing is granted anywhere else: an
    /// inner sandbox's own read-only mounts hold.
    pub mounts: HashSet<u64>,
    /// Where denials are noted.
    pub denials: Arc<Mutex<Denials>>,
    /// Told by path instead of by `mounts`, for sandboxes whose inner namespaces are to be served too. Directories may have
    /// another path inside than on the host; rules speak of the path inside.
    pub regions: Option<Regions>,
    /// The only user and group inside, where they may have other numbers than outside: each (inside, outside).
    pub renumbered: Option<[(u32, u32); 2]>,
    pub tell: Option<Tell>,
    /// Who says that there is no network; tries to reach one are noted then.
    pub offline: Option<Origin>,
    pub watch: Option<Watch>,
}

/// The broker of one sandbox. Runs on a thread of its own.
pub struct Broker {
    listener: Listener,
    pub(super) setup: Setup,
    table: Table,
    pub(super) mounts: Mounts,
}

impl Broker {
    /// A broker for the calls of `listener`.
    ///
    /// # Errors
    /// If the kernel does not tell how long its notifications are.
    pub fn new(listener: OwnedFd, setup: Setup) -> Result<Self, Error> {
        let listener = Listener::new(listener).map_err(Error::Prepare)?;
        Ok(Self { listener, setup, table: Table::new(Arch::HOST), mounts: Mounts::default() })
    }

    /// Answer calls until the last filtered task is gone.
    ///
    /// Changes the calling thread for good: it loses its capabilities (a root supervisor would lend its own), and gets an
    /// umask and working directory of its own.
    ///
    /// # Errors
    /// If the thread cannot be changed that way, or the kernel hands out no more calls.
    pub fn run(mut self) -> Result<(), Error> {
        sys::process::drop_thread_capabilities().map_err(Error::Prepare)?;
        sys::act::unshare_fs().map_err(Error::Prepare)?;
        // Only faster: without it (before 6.6) each side wakes the other on another processor.
        let _is_known = self.listener.wake_synchronously();
        while let Some(notification) = self.listener.wait().map_err(Error::Receive)? {
            self.answer(&notification);
        }
        Ok(())
    }

    fn answer(&mut self, notification: &Notification) {
        let reply = self.carry_out(notification).unwrap_or_else(|reply| reply);
        let answer = match reply {
            Reply::Continue => Answer::Continue,
            Reply::Done(value) => Answer::Value(value),
            Reply::Errno(errno) => Answer::Errno(errno),
            Reply::Gone => return,
        };
        // Only ever fails because the caller is gone.
        let _ = self.listener.answer(notification.id, answer);
    }

    fn carry_out(&mut self, notification: &Notification) -> Step<Reply> {
        let call = self.table.get(notification.nr).ok_or(Reply::Continue)?;
        let task = Task::new(call, notification);
        task.check_flags()?;
        match call.op {
            Op::Open | Op::OpenHow | Op::Creat => self.open(&task),
            Op::Link => self.link(&task),
            Op::Rename => self.rename(&task),
            Op::Connect => {
                self.note_attempt(&task);
                Err(Reply::Continue)
            }
            _ => self.change(&task),
        }
    }

    /// Calls on one name.
    fn change(&mut self, task: &Task) -> Step<Reply> {
        let spot = task.first()?;
        let mount = self.check_mount(&spot).or_else(|reply| {
            let removes = matches!(task.call.op, Op::Rmdir | Op::Unlink) && self.is_pinned(&spot);
            self.check_region_itself(task, &spot).or(removes.then_some(())).ok_or(reply)
        });
        mount.inspect_err(|_| self.note_refused(task, &spot))?;
        let act = self.renumber(task.act()?)?;
        let path = spot.path()?;
        if let Err(denied) = self.judge(act.change(), &path, None) {
            self.note_change(task, &act, (&spot, &path), denied);
            return Err(Reply::Continue);
        }
        check_descriptor(task)?;
        let host = self.on_host(&spot, &path)?;
        if act.creates() {
            use_umask(task)?;
        }
        self.check_valid(task)?;
        act.perform(&host, task.caller)?;
        if let Act::Mkdir { .. } = act {
            self.tell_of_directory(task, &path, &host);
        }
        Ok(Reply::Done(0))
    }

    fn open(&mut self, task: &Task) -> Step<Reply> {
        let opening = task.opening()?;
        let spot = task.opened(&opening)?;
        self.check_mount(&spot).inspect_err(|_| self.note_refused_open(task, &opening, &spot))?;
        let path = spot.path()?;
        if let Err(denied) = self.judge(opening.change(), &path, None) {
            self.note_open(task, &opening, (&spot, &path), denied);
            return Err(Reply::Continue);
        }
        let file = if opening.is_nameless() {
            let dir = spot.directory_on_host(&self.host_path(&path))?;
            use_umask(task)?;
            self.check_valid(task)?;
            act::open_nameless(dir.as_fd(), &opening)?
        } else {
            let host = self.on_host(&spot, &path)?;
            self.check_valid(task)?;
            act::open(&host, &opening, || use_umask(task).and_then(|()| self.check_valid(task)))?
        };
        self.hand_over(task, file, &opening)
    }

    /// Our own copy is closed before the caller goes on: a file that is open for writing somewhere cannot be executed, and
    /// a lock is held as long as any copy is open.
    fn hand_over(&self, task: &Task, file: OwnedFd, opening: &Opening) -> Step<Reply> {
        let close_on_exec = opening.flags.contains(sys::fs::OFlags::CLOEXEC);
        let added = self.listener.add_fd(task.id, file.as_fd(), close_on_exec);
        drop(file);
        match added {
            Ok(number) => Ok(Reply::Done(number.into())),
            Err(Errno::NOENT | Errno::SRCH) => Err(Reply::Gone),
            Err(errno) => Err(Reply::Errno(errno)),
        }
    }

    fn link(&mut self, task: &Task) -> Step<Reply> {
        let from = task.first()?;
        // The kernel looks for the old name before it goes the way to the new one.
        let to = task.second().map_err(|reply| from.missing().map_or(reply, Reply::Errno))?;
        if from.is_direct() && from.stat.nlink == 0 {
            return self.link_nameless(task, &from, &to);
        }
        self.check_mounts(&from, &to).inspect_err(|_| self.note_refused_two(task, || Change::Link, (&from, &to)))?;
        let (old, new) = (from.path()?, to.path()?);
        self.judge_two(task, Change::Link, (&from, &old), (&to, &new))?;
        let (from, to) = self.both_on_host((&from, &old), (&to, &new))?;
        self.check_valid(task)?;
        if from.file.is_some() {
            let (file, _) = act::open_existing(&from)?;
            sys::act::link_file(file.as_fd(), to.dir.as_fd(), &to.name)?;
        } else {
            sys::act::link(from.dir.as_fd(), &from.name, to.dir.as_fd(), &to.name)?;
        }
        Ok(Reply::Done(0))
    }

    /// Give a file that was made without a name (`O_TMPFILE`) one. The kernel gives none to files that have lost theirs.
    fn link_nameless(&mut self, task: &Task, from: &Spot, to: &Spot) -> Step<Reply> {
        self.check_mount(to)?;
        let new = to.path()?;
        if let Err(denied) = self.judge(Change::Make, &new, None) {
            self.note_naming(task, (to, &new), denied);
            return Err(Reply::Continue);
        }
        let host = self.on_host(to, &new)?;
        self.check_valid(task)?;
        sys::act::link_file(from.seen(), host.dir.as_fd(), &host.name)?;
        Ok(Reply::Done(0))
    }

    fn rename(&mut self, task: &Task) -> Step<Reply> {
        let from = task.first()?;
        // The kernel goes both ways before it looks for names; it sees what it may not search, though.
        let unsearchable = |from: &Spot| from.missing().filter(|errno| *errno == Errno::ACCESS);
        let to = task.second().map_err(|reply| unsearchable(&from).map_or(reply, Reply::Errno))?;
        let change = || renaming(task, &from, &to);
        self.check_mounts(&from, &to).inspect_err(|_| self.note_refused_two(task, change, (&from, &to)))?;
        let (old, new, change) = (from.path()?, to.path()?, change());
        self.judge_two(task, change, (&from, &old), (&to, &new))?;
        let is_exchange = matches!(change, Change::Exchange { .. });
        if self.stays_open((&from, &old), &new) || (is_exchange && self.stays_open((&to, &new), &old)) {
            return Err(Reply::Errno(Errno::XDEV));
        }
        let (from, there) = self.both_on_host((&from, &old), (&to, &new))?;
        self.check_valid(task)?;
        sys::act::rename(from.dir.as_fd(), &from.name, there.dir.as_fd(), &there.name, task.flags())?;
        if let Change::Rename { directory: true } | Change::Exchange { directory: true } = change {
            self.tell(&Happened::Moved);
            self.tell_of_directory(task, &new, &there);
        }
        Ok(Reply::Done(0))
    }

    /// Would a directory in which everything may be written, by whoever has it open too, go where that does not hold? It
    /// goes there as a copy. In a writable mount it may be one by the time it is moved, whatever it is now.
    fn stays_open(&self, (spot, old): (&Spot, &Path), new: &Path) -> bool {
        let may_be_directory = self.check_mount(spot).is_err() || spot.existing().is_some_and(|stat| stat.is_dir());
        may_be_directory && self.setup.rules.is_free(old) && !self.setup.rules.is_free(new)
    }

    fn both_on_host(&self, from: (&Spot, &Path), to: (&Spot, &Path)) -> Step<(HostSpot, HostSpot)> {
        Ok((self.on_host(from.0, from.1)?, self.on_host(to.0, to.1)?))
    }

    /// The directory in the supervisor's own view. Where a stricter name may lie in it and it folds case, another spelling
    /// of that name would be the same file: nothing is granted there. Guarded directories that exist at the start are
    /// refused then; what patterns speak of, and what comes later, is found here.
    fn on_host(&self, spot: &Spot, path: &Path) -> Step<HostSpot> {
        let host = spot.on_host(&self.host_path(path))?;
        let free = path.parent().is_some_and(|dir| self.setup.rules.is_free(dir));
        if free || !sys::act::may_fold_case(host.dir.as_fd()) { Ok(host) } else { Err(Reply::Continue) }
    }

    /// Owners as they are numbered outside. The kernel knows no other inside.
    fn renumber(&self, act: Act) -> Step<Act> {
        let (Act::Chown { uid, gid }, Some([user, group])) = (&act, self.setup.renumbered) else { return Ok(act) };
        let outside = |id: u32, (inside, outside): (u32, u32)| match id {
            u32::MAX => Ok(id),
            _ if id == inside => Ok(outside),
            _ => Err(Reply::Errno(Errno::INVAL)),
        };
        Ok(Act::Chown { uid: outside(*uid, user)?, gid: outside(*gid, group)? })
    }

    /// Is it on a mount that the launcher made read-only?
    fn check_mount(&self, spot: &Spot) -> Step<()> {
        let served = match &self.setup.regions {
            None => self.setup.mounts.contains(&spot.stat.mount),
            Some(regions) => sys::act::is_read_only(spot.seen()) && is_served(regions, spot)?,
        };
        if served { Ok(()) } else { Err(Reply::Continue) }
    }

    /// The directory that a region begins with has its name in another region, but its mode and times are its own.
    fn check_region_itself(&self, task: &Task, spot: &Spot) -> Option<()> {
        let regions = self.setup.regions.as_ref()?;
        let attributes = matches!(
            task.call.op,
            Op::Access | Op::Chmod | Op::Chown | Op::Utime | Op::Utimes | Op::Utimens | Op::SetXattr | Op::RemoveXattr
        );
        // First what costs nothing: every call in a free directory comes here.
        let path = if attributes { spot.path().ok().filter(|path| regions.begins_at(path))? } else { return None };
        let seen = spot.existing()?;
        // What lies at the name must be the host's directory, on a mount that says no.
        let host = sys::fs::lstat(&regions.host(&path)?).ok()?;
        (seen.is_dir() && host.file == seen.file).then_some(())
    }

    /// Is it a directory of the host in a served region? Even where all may be written the kernel keeps one in place that was
    /// mounted upon somewhere else before it was moved there, which no look at it tells. On the host nothing is mounted upon.
    fn is_pinned(&self, spot: &Spot) -> bool {
        let Some(regions) = &self.setup.regions else { return false };
        let Some(seen) = spot.existing().filter(Stat::is_dir) else { return false };
        let host = spot.path().ok().filter(|_| matches!(is_served(regions, spot), Ok(true)));
        let host = host.and_then(|path| sys::fs::lstat(&regions.host(&path)?).ok());
        host.is_some_and(|host| host.file == seen.file)
    }

    /// Calls on two names are the kernel's where both are on one mount that is none of ours. Between two mounts the kernel
    /// refuses them; on the host it is one mount, and what the caller can write anyway it may also exchange with there.
    fn check_mounts(&self, from: &Spot, to: &Spot) -> Step<()> {
        let ours = |spot: &Spot| self.check_mount(spot).is_ok();
        if from.stat.mount == to.stat.mount {
            let pinned = || self.is_pinned(from) || self.is_pinned(to);
            return if ours(from) || pinned() { Ok(()) } else { Err(Reply::Continue) };
        }
        let open = |spot: &Spot| ours(spot) || !sys::act::is_read_only(spot.seen());
        if open(from) && open(to) { Ok(()) } else { Err(Reply::Continue) }
    }

    /// The verdict on real paths; `Err` is a denial.
    pub(super) fn judge(&self, change: Change, path: &Path, second: Option<&Path>) -> Result<(), Denied> {
        match decide(&self.setup.rules, &Request { change, path, second }) {
            Verdict::Grant => Ok(()),
            Verdict::Deny { rule, which, cause } => Err((rule, which, cause)),
        }
    }

    fn judge_two(&self, task: &Task, change: Change, from: (&Spot, &Path), to: (&Spot, &Path)) -> Step<()> {
        self.judge(change, from.1, Some(to.1)).map_err(|denied| {
            let (spot, _) = if denied.1 == Which::First { from } else { to };
            // It fails whatever the rules say between mounts, where no rule is in the way of what programs do then, a copy.
            if self.check_mount(spot).is_ok() {
                self.note_two(task, change, from, to, denied);
            }
            Reply::Continue
        })
    }

    /// The last look before acting: a caller that was killed must not get anything done under its number's next owner.
    fn check_valid(&self, task: &Task) -> Step<()> {
        if self.listener.is_valid(task.id) { Ok(()) } else { Err(Reply::Gone) }
    }

    /// Where the host has what lies at `path` inside.
    pub(super) fn host_path<'a>(&self, path: &'a Path) -> std::borrow::Cow<'a, Path> {
        match self.setup.regions.as_ref().and_then(|regions| regions.host(path)) {
            Some(path) => path.into(),
            None => path.into(),
        }
    }

    fn tell(&mut self, happened: &Happened<'_>) {
        if let Some(tell) = &mut self.setup.tell {
            tell(happened);
        }
    }

    fn tell_of_directory(&mut self, task: &Task, path: &Path, host: &HostSpot) {
        if self.setup.tell.is_none() || !self.setup.rules.is_free(path) {
            return;
        }
        // Somebody outside may have taken it away already.
        if let Ok(stat) = sys::act::stat_at(host.dir.as_fd(), host.bare_name())
            && stat.is_dir()
        {
            let maker = self.setup.regions.as_ref().map(|_| task.caller.mount_namespace());
            if let Ok(maker) = maker.transpose() {
                self.tell(&Happened::New { path, file: stat.file, maker });
            }
        }
    }
}

/// What a rename does, by what there is now.
fn renaming(task: &Task, from: &Spot, to: &Spot) -> Change {
    let is_dir = |spot: &Spot| spot.existing().is_some_and(|stat| stat.is_dir());
    if task.flags() & EXCHANGE == 0 {
        Change::Rename { directory: is_dir(from) }
    } else {
        Change::Exchange { directory: is_dir(from) || is_dir(to) }
    }
}

/// Does it lie in a region with a directory of the host, at a name that is no region's own?
fn is_served(regions: &Regions, spot: &Spot) -> Step<bool> {
    let path = spot.path()?;
    if spot.is_direct() {
        return Ok(regions.host(&path).is_some());
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    Ok(regions.host(dir).is_some() && !regions.begins_at(&path))
}

/// Descriptor calls take no descriptor that was opened with `O_PATH`; what is left of it here would not tell.
fn check_descriptor(task: &Task) -> Step<()> {
    let Some(number) = task.open_descriptor() else { return Ok(()) };
    let fd = task.caller.take_fd(number).or_continue()?;
    if sys::act::is_path_only(fd.as_fd()).or_continue()? { Err(Reply::Errno(Errno::BADF)) } else { Ok(()) }
}

/// Let the kernel apply the caller's umask: masking the mode would be wrong where the directory has a default ACL.
fn use_umask(task: &Task) -> Step<()> {
    sys::act::set_umask(task.caller.status().or_continue()?.umask);
    Ok(())
}

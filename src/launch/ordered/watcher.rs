//! The process that mounts what the kernel alone is to serve, and looks after it: it alone keeps the capabilities over the
//! sandbox's mounts. It lies outside of the pid namespace, and lives as long as the sandbox does.
//!
//! A sandbox may have inner mount namespaces, and those copies of the mounts that nobody can take away. So where the host
//! moves such a directory to where not all may be written, the sandbox ends, and so it does when this process is killed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::{Done, Failure, Report, failed, told};
use crate::launch::graft::Grafts;
use crate::launch::message;
use crate::launch::mounts::Built;
use crate::launch::watch::{self, Job};
use crate::plan::ordered::{Guard, Ordered};
use crate::sys::fs::{self, Mode, OFlags, ResolveFlags};
use crate::sys::process::{self, Forked, Pid, Signal};
use crate::sys::{namespace, signal, socket};

/// The watcher answers when everything is mounted.
const READY: &[u8] = b".";

/// Is there something to mount and to watch? Only with a pid namespace can all of a sandbox be ended at once.
pub(super) fn is_wanted(plan: &Ordered) -> bool {
    plan.guard.is_some() && plan.namespaces.pid
}

/// A watcher that was started.
pub(super) struct Started {
    /// Tells why the sandbox has to end.
    pub(super) reports: OwnedFd,
    pub(super) watched: Watched,
}

/// What the broker has to do with it.
pub(super) struct Watched {
    /// Where new and moved directories are told.
    tell: OwnedFd,
    end: End,
}

impl Watched {
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        [self.tell.as_fd(), self.end.life.as_fd(), self.end.child.as_fd()]
    }

    pub(super) fn split(self) -> (OwnedFd, End) {
        (self.tell, self.end)
    }
}

/// The watcher's end: readable when it has ended.
pub(super) struct End {
    life: OwnedFd,
    /// The sandbox's first process.
    child: OwnedFd,
}

impl End {
    /// Unless the sandbox has ended too, nobody looks after its mounts any more: it ends.
    pub(super) fn end(&self) {
        // It may have ended, as it mostly has.
        let _ = process::kill_by(&self.child, Signal::KILL);
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.life.as_fd()
    }
}

/// Fork the watcher of `child`, which tells it its namespaces by the other end of `hands`.
pub(super) fn start(guard: &Guard, child: Pid, hands: OwnedFd) -> Done<Started> {
    let text = "start the watcher";
    let (reports, told) = socket::pair().map_err(failed(text))?;
    let (tell, heard) = socket::pair().map_err(failed(text))?;
    let (life, living) = socket::pipe().map_err(failed(text))?;
    let child = process::pidfd(child).map_err(failed("pidfd_open"))?;
    match process::fork().map_err(failed("Can't fork"))? {
        Forked::Child => {
            let mut keep: Vec<_> = [&hands, &told, &heard, &living, &child].map(AsRawFd::as_raw_fd).into();
            keep.sort_unstable();
            let ready = signal::block_all().and_then(|_| process::set_undumpable());
            let done = ready.and_then(|()| process::close_except(&keep)).map_err(failed(text));
            if let Err(failure) = done.and_then(|()| watch(guard, hands, &heard, &child)) {
                // Without a monitor nobody is left to be told.
                let _ = message::send(&told, &Report::Failed(failure), &[]);
                // It may have ended meanwhile.
                let _ = process::kill_by(&child, Signal::KILL);
            }
            process::exit_now(0)
        }
        Forked::Parent(_) => Ok(Started { reports, watched: Watched { tell, end: End { life, child } } }),
    }
}

fn watch(guard: &Guard, hands: OwnedFd, heard: &OwnedFd, ended: &OwnedFd) -> Done<()> {
    let Ok(Some(received)) = socket::receive(&hands) else { return Ok(()) };
    let mut fds = received.fds.into_iter();
    let (Some(users), Some(home)) = (fds.next(), fds.next()) else { return Ok(()) };
    let served: Vec<PathBuf> =
        guard.regions.iter().filter(|(_, host)| host.is_some()).map(|(inside, _)| inside.clone()).collect();
    let entered = namespace::join_user(&users).and_then(|()| namespace::join_mounts(&home));
    let mut grafts = Grafts::new(heard, &served, Some(&home));
    let free = match entered {
        Ok(()) => guard.free.iter().filter_map(|path| grafts.graft_existing(path)).collect(),
        // Nothing is mounted then, and the broker serves everything.
        Err(_) => Vec::new(),
    };
    socket::send(&hands, READY, &[]).map_err(failed("answer the sandbox"))?;
    drop(hands);
    let grafts = entered.is_ok().then_some(grafts);
    let built = Built { free, ..Built::default() };
    let job = Job { names: &guard.rules, hidden: &[], strict: false, stays: true, built, grafts };
    watch::watch(job, ended).map_err(|failure| told(&failure))
}

/// In the sandbox's first process, once the tree is made: have the watcher mount what it is to mount. `proc` is the host's.
pub(super) fn hand_over(hands: &OwnedFd, proc: &OwnedFd) -> Done<()> {
    let open = |name: &str| {
        let path = Path::new("self/ns").join(name);
        fs::openat2(proc, &path, OFlags::RDONLY, Mode::empty(), ResolveFlags::empty())
    };
    let (users, mounts) =
        (open("user").map_err(failed("open namespace"))?, open("mnt").map_err(failed("open namespace"))?);
    socket::send(hands, READY, &[users.as_fd(), mounts.as_fd()]).map_err(failed("send to the watcher"))?;
    match socket::receive(hands) {
        Ok(Some(_)) => Ok(()),
        _ => Err(Failure("the process that watches the mounts is gone".into())),
    }
}

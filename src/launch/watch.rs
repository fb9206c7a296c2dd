//! What the setup process does while the command runs: it alone keeps the capabilities over the sandbox's mounts.
//!
//! The host may replace or create a name that is hidden, or move a directory that is mounted writable (the mount goes where
//! its directory goes). When it does, the name is masked again, and the mount taken away, after which the broker serves
//! the place; one that was moved to where all may be written too (the command itself can do that, by the broker) stays. In
//! between lies a moment; `strict` ends the run instead.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::graft::{Grafts, Told};
use super::message::{self, Report};
use super::mirror::Mirror;
use super::mounts::{Built, mask};
use super::setup::Setup;
use super::{Failure, STATUS_FAILED, Step};
use crate::plan::Kind;
use crate::policy::Rules;
use crate::sys::fs::{self, FileId, OFlags};
use crate::sys::mount::{self, Attributes};
use crate::sys::mountinfo;
use crate::sys::process::{self, Pid, Signal};
use crate::sys::watch::Watch;
use crate::sys::{self, socket};

/// How often to look without inotify: at the beginning, because to give an instance back takes the kernel 6 to 15 ms
/// (`fsnotify` waits for a grace period), which most commands do not last; and where the user's instances or watches are
/// used up: they are shared with every other program of the user, and no run may fail for that.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often to look whether somebody still works in a mount that is needless.
const IDLE_EVERY: Duration = Duration::from_millis(100);
/// From this age on a run is watched by inotify; a strict one is from the beginning.
const SETTLED: Duration = Duration::from_millis(250);

/// A directory that is mounted writable.
pub(super) struct Free {
    pub(super) path: PathBuf,
    pub(super) file: FileId,
    /// The root of the mount.
    pub(super) tree: OwnedFd,
    /// Of a mount in an overlay, where its directory lies on the host's file system: the place where it is mounted is the
    /// overlay's, and does not follow what the host moves.
    pub(super) root: Option<PathBuf>,
    /// It lies in another one, where it is needless, and cannot be removed: it goes as soon as nobody works in it.
    pub(super) needless: bool,
}

/// What is watched, and what is done about it.
pub(super) struct Job<'a> {
    pub(super) names: &'a Rules,
    pub(super) hidden: &'a [PathBuf],
    pub(super) strict: bool,
    /// Inner namespaces may show the mounts too, where nobody can take them away: a directory that may not stay writable
    /// ends the run.
    pub(super) stays: bool,
    pub(super) built: Built,
    pub(super) grafts: Option<Grafts<'a>>,
}

/// Watch until pid 1 has ended; gives its exit status.
pub(super) fn until_end(setup: &Setup<'_>, init: Pid, ended: &OwnedFd, built: Built) -> i32 {
    let plan = setup.plan;
    let grafts = setup.graft.as_ref().map(|told| Grafts::new(told, &plan.guarded, None));
    let (names, hidden) = (plan.names.as_ref(), plan.hidden.as_slice());
    let job = Job { names, hidden, strict: plan.strict, stays: false, built, grafts };
    if let Err(failure) = watch(job, ended) {
        // A supervisor that is gone takes us with it.
        let _ = message::send(&setup.control, &Report::Failed(failure), &[]);
        let _ = process::kill(init, Signal::KILL);
    }
    match process::wait(Some(init), process::until_end()) {
        Ok(Some((_, status))) => status.exit_status().unwrap_or(STATUS_FAILED.into()),
        _ => STATUS_FAILED.into(),
    }
}

/// Watch until `ended` is readable.
///
/// # Errors
/// Why the run has to end.
pub(super) fn watch(job: Job<'_>, ended: &OwnedFd) -> Result<(), Failure> {
    let mut watcher = Watcher::new(job);
    // What was attached a moment ago need not be looked at, unless every change is to be told from the beginning.
    while watcher.is_settled() || !watcher.wait(ended) {
        watcher.look()?;
    }
    for free in &watcher.free {
        // Another sandbox may have been given a descriptor, and nobody watches any more what becomes of the directory. Where
        // a file is open for writing, too, it stays as it is (`docs/security.md`).
        let _ = close(free);
    }
    Ok(())
}

struct Watcher<'a> {
    names: &'a Rules,
    hidden: &'a [PathBuf],
    strict: bool,
    stays: bool,
    masks: Option<OwnedFd>,
    free: Vec<Free>,
    mounts: Option<File>,
    mirrors: Vec<Mirror>,
    /// `None`: look from time to time instead.
    watch: Option<Watch>,
    /// Still to be tried, at that time.
    watch_from: Option<Instant>,
    grafts: Option<Grafts<'a>>,
    /// When everything was looked at last.
    looked: Instant,
}

impl<'a> Watcher<'a> {
    fn new(job: Job<'a>) -> Self {
        let Job { names, hidden, strict, stays, built, grafts } = job;
        let Built { masks, free, mirrors, mounts, .. } = built;
        let settled = if strict || !mirrors.is_empty() { Duration::ZERO } else { SETTLED };
        let looked = Instant::now();
        let watch_from = Some(looked + settled);
        Self { names, hidden, strict, stays, masks, free, mirrors, mounts, watch: None, watch_from, grafts, looked }
    }

    fn is_needed(&self) -> bool {
        !self.hidden.is_empty() || !self.free.is_empty() || !self.mirrors.is_empty()
    }

    /// Is it time to watch, and is nothing watched yet?
    fn is_settled(&self) -> bool {
        self.is_needed() && self.watch_from.is_some_and(|from| from <= Instant::now())
    }

    /// Watch what there is to watch now; what cannot be watched makes us look from time to time.
    fn renew(&mut self) {
        let Some(watch) = &self.watch else { return };
        let dirs: BTreeSet<&Path> = self.hidden.iter().filter_map(|path| path.parent()).collect();
        let names = dirs.into_iter().try_for_each(|dir| watch_names(watch, dir));
        // What lies above takes it along.
        let ways: BTreeSet<&Path> = self.free.iter().flat_map(|free| free.path.ancestors()).collect();
        let moves = ways.into_iter().try_for_each(|dir| watch_moves(watch, dir));
        let mirrors = self.mirrors.iter().try_for_each(|mirror| mirror.watch(watch));
        if names.and(moves).and(mirrors).is_err() {
            self.watch = None;
        }
    }

    /// Wait until something may have changed (false), or pid 1 has ended (true).
    fn wait(&mut self, ended: &OwnedFd) -> bool {
        loop {
            let mut fds: Vec<BorrowedFd<'_>> = vec![ended.as_fd()];
            fds.extend(self.grafts.as_ref().map(AsFd::as_fd));
            fds.extend(self.watch.as_ref().map(AsFd::as_fd));
            let Ok(ready) = socket::wait_readable(&fds, self.timeout()) else { return false };
            let told = self.grafts.is_some() && ready[1];
            if ready[0] {
                return true;
            }
            // What the host does is not kept waiting by a command that makes directory after directory.
            if !(told && self.hear()) || ready[2..].contains(&true) || self.is_due() {
                return false;
            }
        }
    }

    /// How long to wait for news before the next look; `None`: until there is any.
    fn timeout(&self) -> Option<Duration> {
        let every = if self.is_needed() && self.watch.is_none() {
            LOOK_EVERY
        } else if self.free.iter().any(|free| free.needless) {
            IDLE_EVERY
        } else {
            return None;
        };
        Some(every.saturating_sub(self.looked.elapsed()))
    }

    fn is_due(&self) -> bool {
        self.is_settled() || self.timeout().is_some_and(|left| left.is_zero())
    }

    /// Hear what the broker tells. False: mounts have to be looked at before it is answered.
    fn hear(&mut self) -> bool {
        let Some(grafts) = &mut self.grafts else { return false };
        match grafts.hear() {
            Told::Moved => return false,
            // The supervisor has gone, or goes: nobody will tell anything any more.
            Told::Nothing => self.grafts = None,
            Told::New { path, file, maker } => {
                // First of all, so that no move goes unnoticed.
                let way = |watch: &Watch| path.ancestors().try_for_each(|dir| watch_moves(watch, dir));
                if self.watch.as_ref().is_some_and(|watch| way(watch).is_err()) {
                    self.watch = None;
                }
                let free = grafts.graft(&path, file, maker.as_ref());
                let is_in_place = free.as_ref().is_none_or(|free| free.is_in_place(None));
                self.free.extend(free);
                if !is_in_place {
                    return false;
                }
                grafts.settled();
            }
        }
        true
    }

    /// Put everything right that the host may have changed. First it is made sure that later changes are told.
    fn look(&mut self) -> Result<(), Failure> {
        self.looked = Instant::now();
        if self.is_settled() {
            self.watch_from = None;
            self.watch = Watch::new().ok();
        }
        if let Some(watch) = &self.watch {
            watch.drain();
        }
        self.renew();
        for path in self.hidden {
            self.hide(path)?;
        }
        for mirror in &self.mirrors {
            mirror.update().map_err(|error| failed(&error, mirror.path()))?;
        }
        let mut busy = OnceCell::new();
        for free in std::mem::take(&mut self.free) {
            let kept = self.keep(free, &mut busy)?;
            self.free.extend(kept);
        }
        if let Some(grafts) = &mut self.grafts {
            grafts.settled();
        }
        Ok(())
    }

    /// A mount that is where it belongs, else take it away. The command itself may have moved or removed it, by the broker.
    fn keep(&self, free: Free, busy: &mut OnceCell<HashSet<u64>>) -> Result<Option<Free>, Failure> {
        if free.is_in_place(self.mounts.as_ref()) {
            return if free.needless { free.unless_busy(busy) } else { Ok(Some(free)) };
        }
        let place = if free.root.is_none() { mount::place_of(&free.tree).ok() } else { None };
        let allowed = place.filter(|place| self.names.is_free(place));
        match allowed {
            // Whoever works in it stays where it is: a mount that is taken away has nothing above it.
            Some(path) if self.stays || is_served(&path) => return Ok(Some(Free { path, needless: false, ..free })),
            Some(path) => return Free { path, ..free }.unless_busy(busy),
            None if self.stays => {
                if fs::fstat(&free.tree).map_or(0, |stat| stat.nlink) > 0 {
                    let what = "was moved on the host to where not all may be written";
                    return Err(Failure::because(Step::Supervise, format!("{} {what}", free.path.display())));
                }
            }
            None => {
                close(&free)?;
                if detach(&free)? {
                    self.end_if_strict(&free.path, "was moved on the host")?;
                }
            }
        }
        Ok(None)
    }

    fn hide(&self, path: &Path) -> Result<(), Failure> {
        let Some(masks) = &self.masks else { return Ok(()) };
        let place = match fs::open(path, OFlags::PATH) {
            Err(error) if is_gone(&error) => return Ok(()),
            opened => opened.map_err(|error| failed(&error, path))?,
        };
        let (there, ours) = (stat(&place, path)?, stat(masks, path)?);
        if there.file.dev == ours.file.dev {
            return Ok(());
        }
        self.end_if_strict(path, "appeared or was replaced on the host")?;
        let kind = if there.is_dir() { Kind::Directory } else { Kind::File };
        mask(masks, kind).and_then(|tree| mount::attach(&tree, &place)).map_err(|error| failed(&error, path))
    }

    fn end_if_strict(&self, path: &Path, what: &str) -> Result<(), Failure> {
        if self.strict {
            return Err(Failure::because(
                Step::Supervise,
                format!("{} {what}, and the policy is strict", path.display()),
            ));
        }
        Ok(())
    }
}

impl Free {
    /// Take the mount away, unless somebody works in it, who would have nothing above any more.
    fn unless_busy(self, busy: &mut OnceCell<HashSet<u64>>) -> Result<Option<Self>, Failure> {
        let worked_in = busy.get_or_init(working_directories);
        if fs::fstat(&self.tree).is_ok_and(|stat| worked_in.contains(&stat.mount)) {
            return Ok(Some(Self { needless: true, ..self }));
        }
        detach(&self)?;
        Ok(None)
    }

    fn is_in_place(&self, mounts: Option<&File>) -> bool {
        if let Some(root) = &self.root {
            return mounts.is_some_and(|mounts| root_of(mounts, &self.path).as_ref() == Some(root));
        }
        fs::open_place(&self.path).and_then(fs::fstat).is_ok_and(|there| there.file == self.file)
    }
}

/// The mounts in which the processes inside have their working directories. Whose that is cannot be told is not inside.
fn working_directories() -> HashSet<u64> {
    let processes = fs::open(Path::new("/proc"), OFlags::RDONLY | OFlags::DIRECTORY).and_then(fs::entries);
    let numbered =
        processes.unwrap_or_default().into_iter().filter(|entry| entry.name.as_encoded_bytes()[0].is_ascii_digit());
    let cwd = |entry: fs::Entry| fs::stat(&Path::new("/proc").join(entry.name).join("cwd")).ok();
    numbered.filter_map(cwd).map(|stat| stat.mount).collect()
}

/// Does the broker serve the directory above?
fn is_served(path: &Path) -> bool {
    let above = path.parent().and_then(|above| fs::open_place(above).ok());
    above.is_some_and(|above| sys::act::is_read_only(above.as_fd()))
}

/// Who works in a mount keeps it after it was taken away, but cannot write there any more. That cannot be while a file in it
/// is open for writing (`EBUSY`), and afterwards it is too late: then the run ends.
fn close(free: &Free) -> Result<(), Failure> {
    // Nothing can be made in a directory that was removed.
    if fs::fstat(&free.tree).is_ok_and(|stat| stat.nlink == 0) {
        return Ok(());
    }
    let closed = Attributes { set: mount::RDONLY, ..Attributes::default() };
    match mount::set_attributes(&free.tree, Path::new(""), false, closed) {
        Err(error) if error.is(sys::Errno::BUSY) => {
            let what = "was moved on the host to where not all may be written, and a file in it is open for writing";
            Err(Failure::because(Step::Supervise, format!("{} {what}", free.path.display())))
        }
        // It is mounted nowhere any more.
        _ => Ok(()),
    }
}

/// Take a mount away; false if it was removed together with its directory.
fn detach(free: &Free) -> Result<bool, Failure> {
    match mount::detach_at(&free.tree) {
        Err(error) if error.is(sys::Errno::INVAL) => Ok(false),
        detached => detached.map(|()| true).map_err(|error| failed(&error, &free.path)),
    }
}

/// Which directory of its file system is mounted at a path: the kernel tells where that lies now.
pub(super) fn root_of(mounts: &File, point: &Path) -> Option<PathBuf> {
    let mounts = mountinfo::read_again(mounts).ok()?;
    mounts.into_iter().rev().find(|mount| mount.point == point).map(|mount| mount.root)
}

/// Watch the names in a directory, or where it is missing those in the nearest one that exists.
fn watch_names(watch: &Watch, dir: &Path) -> sys::Result<()> {
    for dir in dir.ancestors() {
        match watch.names_in(dir) {
            Err(error) if is_gone(&error) => {}
            watched => return watched,
        }
    }
    Ok(())
}

fn watch_moves(watch: &Watch, dir: &Path) -> sys::Result<()> {
    match watch.moves_of(dir) {
        Err(error) if is_gone(&error) => Ok(()),
        watched => watched,
    }
}

fn is_gone(error: &sys::Error) -> bool {
    use sys::Errno;
    [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::LOOP].contains(&error.errno())
}

fn stat(fd: &OwnedFd, path: &Path) -> Result<fs::Stat, Failure> {
    fs::fstat(fd).map_err(|error| failed(&error, path))
}

fn failed(error: &sys::Error, path: &Path) -> Failure {
    Failure::of(Step::Supervise, error).about(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that makes directory after directory must not keep the host's changes from being seen.
    #[test]
    fn what_is_told_all_the_time_does_not_put_off_the_next_look() {
        let (ours, broker) = socket::pair().unwrap();
        let (ended, _living) = socket::pipe().unwrap();
        let new_directory = [&[0; 16][..], b"/nowhere"].concat();
        for _ in 0..3 {
            socket::send(&broker, &new_directory, &[]).unwrap();
        }
        let rules = Rules::in_order(Vec::new());
        let hidden = [PathBuf::from("/nowhere/hidden")];
        let grafts = Some(Grafts::new(&ours, &[], None));
        let job = Job { names: &rules, hidden: &hidden, strict: false, stays: false, built: Built::default(), grafts };
        let mut watcher = Watcher::new(job);
        watcher.looked = Instant::now().checked_sub(LOOK_EVERY).unwrap();
        assert!(!watcher.wait(&ended), "nothing has ended");
        let waiting = socket::wait_readable(&[ours.as_fd()], Some(Duration::ZERO)).unwrap();
        assert!(waiting[0], "all was heard before the look");
    }
}

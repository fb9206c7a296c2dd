//! Makes the overlays of a run. The upper layers in memory lie in file systems that nothing but the overlays themselves
//! holds: when the last process of the run is gone, the kernel frees them, whatever became of us.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Failure, Step};
use crate::overlay::Layers;
use crate::plan::{Op, Plan, Upper};
use crate::session::IN_MEMORY;
use crate::sys::fs::{self, FileId};
use crate::sys::mount::{self, NODEV, NOSUID};
use crate::sys::{self, Errno, attr};

type Done<T> = Result<T, Failure>;

/// Where the file systems of upper layers are mounted while overlays are made of them, if need be: before Linux 6.15 the
/// kernel takes no layer that is mounted nowhere (`EINVAL`). Since then that, and the unmounting, can be saved.
const BENCH: &str = "/dev";
/// Less than this is left in a full one.
const FULL: u64 = 64 << 10;

/// An overlay that is ready to be attached.
pub(super) struct Tree {
    pub(super) mount: OwnedFd,
    /// What it shows: its place must still be that.
    pub(super) shows: FileId,
}

/// A file system that holds upper layers.
pub(super) struct Memory {
    /// The overlays in it.
    pub(super) what: String,
    root: OwnedFd,
}

/// An overlay that is full: for the person who wonders why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Full {
    /// The overlays that share the limit.
    pub what: String,
    /// Bytes.
    pub limit: u64,
}

/// What there is to say of overlays when a run is over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayReport {
    /// Those that are full.
    pub full: Vec<Full>,
    /// Those that were to be, but stayed read-only because the file system there cannot be a layer.
    pub read_only: Vec<String>,
}

/// Makes overlays one by one.
pub(super) struct Overlays<'a> {
    plan: &'a Plan,
    layers: &'a [Layers],
    pub(super) memory: Vec<Memory>,
    /// Index in `memory` of what holds the layers without a limit of their own.
    shared: Option<usize>,
    count: usize,
    /// What is none, because the file system there cannot be a layer and none is required.
    pub(super) refused: Vec<String>,
    /// How many file systems are mounted where layers are put together.
    on_bench: usize,
}

impl<'a> Overlays<'a> {
    pub(super) fn new(plan: &'a Plan, layers: &'a [Layers]) -> Self {
        Self { plan, layers, memory: Vec::new(), shared: None, count: 0, refused: Vec::new(), on_bench: 0 }
    }

    /// The overlay of one operation; `None` where it is not required and the file system there cannot be a layer.
    pub(super) fn make(&mut self, op: &Op) -> Done<Option<Tree>> {
        let Op::Overlay { path, rule, upper, required } = op else { return Ok(None) };
        let about = |error: sys::Error| {
            let origin = &self.plan.names.all()[*rule].origin;
            Failure::of(Step::CloneTrees, &error).about(format!("the overlay {} ({origin})", path.display()))
        };
        let lower = match fs::open_place(path) {
            // Not required: a directory that the caller cannot reach is no loss.
            Err(_) if !required => return Ok(None),
            opened => opened.map_err(about)?,
        };
        let shows = fs::fstat(&lower).map_err(about)?.file;
        let (base, between) = match upper {
            Upper::Memory { size } => (self.in_memory(path, *size)?, &[][..]),
            _ => self.on_disk(path)?,
        };
        match self.combine(&lower, &base, between)? {
            Ok(mount) => Ok(Some(Tree { mount, shows })),
            Err(error) if !required && error.is(Errno::INVAL) => {
                self.refused.push(path.display().to_string());
                Ok(None)
            }
            Err(error) => {
                let origin = &self.plan.names.all()[*rule].origin;
                let failure = Failure::of(Step::CloneTrees, &error);
                let failure = failure.about(format!("the overlay {} ({origin})", path.display()));
                Err(match hint(&error, upper) {
                    Some(hint) => failure.hinting(hint),
                    None => failure,
                })
            }
        }
    }

    fn combine(&mut self, lower: &OwnedFd, base: &OwnedFd, between: &[PathBuf]) -> Done<sys::Result<OwnedFd>> {
        let combined = match combine(lower, base, between) {
            Err(error) if error.is(Errno::INVAL) && self.put_on_bench()? => combine(lower, base, between),
            combined => combined,
        };
        Ok(match combined {
            Err(error) if error.is(Errno::LOOP) => combine(&self.veil(lower)?, base, between),
            combined => combined,
        })
    }

    /// A layer must not lie in another one of the same overlay, but the state directory lies in the home directory. An
    /// overlay of the directory alone shows the same and is not above anything. What is to be seen of the layers in it is
    /// hidden with the state directory.
    fn veil(&mut self, lower: &OwnedFd) -> Done<OwnedFd> {
        let failed = |error: sys::Error| Failure::of(Step::CloneTrees, &error).about("an overlay of two lower layers");
        let index = self.shared_memory()?;
        let name = self.next_name();
        fs::mkdir_at(&self.memory[index].root, Path::new(&name), 0o755).map_err(failed)?;
        let empty = open_dir(self.memory[index].root.as_fd(), Path::new(&name)).map_err(failed)?;
        let paths = [fd_path(lower.as_fd()), fd_path(empty.as_fd())].join(":");
        let options = [("lowerdir", paths.as_str()), ("userxattr", "")];
        let build = || mount::new_filesystem("overlay", &options, NOSUID | NODEV);
        let veil = match build() {
            Err(error) if error.is(Errno::INVAL) && self.put_on_bench()? => build(),
            made => made,
        };
        let veil = veil.map_err(failed)?;
        if self.on_bench > 0 {
            self.attach_to_bench(&veil)?;
        }
        Ok(veil)
    }

    fn shared_memory(&mut self) -> Done<usize> {
        self.shared.map_or_else(|| self.add_memory(None), Ok)
    }

    fn next_name(&mut self) -> String {
        self.count += 1;
        format!("{IN_MEMORY}{}", self.count)
    }

    /// Mount what holds layers, where the kernel wants that; false if it is mounted already.
    fn put_on_bench(&mut self) -> Done<bool> {
        if self.on_bench > 0 || self.memory.is_empty() {
            return Ok(false);
        }
        for index in 0..self.memory.len() {
            let root = self.memory[index].root.try_clone();
            self.attach_to_bench(&root.map_err(|error| Failure::because(Step::CloneTrees, error.to_string()))?)?;
        }
        Ok(true)
    }

    fn attach_to_bench(&mut self, tree: &OwnedFd) -> Done<()> {
        let failed = |error: sys::Error| Failure::of(Step::CloneTrees, &error).about(BENCH);
        let bench = fs::open_place(Path::new(BENCH)).map_err(failed)?;
        mount::attach(tree, &bench).map_err(failed)?;
        self.on_bench += 1;
        Ok(())
    }

    /// A new directory on a file system in memory.
    fn in_memory(&mut self, path: &Path, size: Option<u64>) -> Done<OwnedFd> {
        let index = if size.is_none() { self.shared_memory()? } else { self.add_memory(size)? };
        let name = self.next_name();
        let memory = &mut self.memory[index];
        if !memory.what.is_empty() {
            memory.what.push_str(", ");
        }
        memory.what.push_str(&path.display().to_string());
        let failed = |error: sys::Error| Failure::of(Step::CloneTrees, &error).about(path.display());
        fs::mkdir_at(&memory.root, Path::new(&name), 0o700).map_err(failed)?;
        open_dir(memory.root.as_fd(), Path::new(&name)).map_err(failed)
    }

    fn add_memory(&mut self, size: Option<u64>) -> Done<usize> {
        let failed = |error: sys::Error| Failure::of(Step::CloneTrees, &error).about("memory for overlays");
        let limit = size.or(self.plan.overlay_size).map_or_else(|| "25%".to_owned(), |size| size.to_string());
        let root = mount::new_filesystem("tmpfs", &[("mode", "0700"), ("size", &limit)], NOSUID | NODEV);
        let root = root.map_err(failed)?;
        if self.on_bench > 0 {
            self.attach_to_bench(&root)?;
        }
        self.memory.push(Memory { what: String::new(), root });
        let index = self.memory.len() - 1;
        if size.is_none() {
            self.shared = Some(index);
        }
        Ok(index)
    }

    /// Take the file systems in memory out of sight: the overlays hold them, and nothing else does.
    pub(super) fn finish(self) -> Done<(Vec<Memory>, Vec<String>)> {
        for _ in 0..self.on_bench {
            mount::detach(Path::new(BENCH)).map_err(|error| Failure::of(Step::CloneTrees, &error))?;
        }
        Ok((self.memory, self.refused))
    }

    fn on_disk(&self, path: &Path) -> Done<(OwnedFd, &'a [PathBuf])> {
        let Some(layers) = self.layers.iter().find(|layers| layers.path == path) else {
            return Err(Failure::because(Step::CloneTrees, "no layer was made for it").about(path.display()));
        };
        let failed = |error: sys::Error| Failure::of(Step::CloneTrees, &error).about(layers.dir.display());
        Ok((fs::open_place(&layers.dir).map_err(failed)?, &layers.lower))
    }
}

/// Put the layers together.
fn combine(lower: &OwnedFd, base: &OwnedFd, between: &[PathBuf]) -> sys::Result<OwnedFd> {
    let upper = prepare(base.as_fd(), "upper")?;
    let work = prepare(base.as_fd(), "work")?;
    resemble(lower, &upper)?;
    let mut layers = between.iter().map(|path| fs::open_place(path)).collect::<sys::Result<Vec<_>>>()?;
    layers.push(lower.try_clone().map_err(|_| sys::Error::new("dup", format_args!("lower layer"), Errno::MFILE))?);
    mount_overlay(&layers, &upper, &work)
}

fn mount_overlay(lower: &[OwnedFd], upper: &OwnedFd, work: &OwnedFd) -> sys::Result<OwnedFd> {
    let lower: Vec<String> = lower.iter().map(|fd| fd_path(fd.as_fd())).collect();
    let options = [
        ("lowerdir", lower.join(":")),
        ("upperdir", fd_path(upper.as_fd())),
        ("workdir", fd_path(work.as_fd())),
        // Only the initial user namespace may set trusted.* attributes (Linux 5.11; on tmpfs 6.6).
        ("userxattr", String::new()),
    ];
    let options: Vec<(&str, &str)> = options.iter().map(|(key, value)| (*key, value.as_str())).collect();
    mount::new_filesystem("overlay", &options, NOSUID | NODEV)
}

/// By descriptor: a path could be exchanged, and its commas and colons would have to be escaped for each kernel anew.
fn fd_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn prepare(base: BorrowedFd<'_>, name: &str) -> sys::Result<OwnedFd> {
    match fs::mkdir_at(base, Path::new(name), 0o700) {
        Err(error) if !error.is(Errno::EXIST) => Err(error),
        _ => open_dir(base, Path::new(name)),
    }
}

/// An `O_PATH` descriptor lets the kernel look the layer up on the mount that it was opened on.
fn open_dir(base: BorrowedFd<'_>, name: &Path) -> sys::Result<OwnedFd> {
    fs::open_beneath(base, name, fs::OFlags::PATH | fs::OFlags::DIRECTORY)
}

/// The top of an overlay is its upper layer's: give that the lower one's owner and mode. Where the owner does not exist in
/// our user namespace, ours may do with it what it may do with the lower one, no more.
fn resemble(lower: &OwnedFd, upper: &OwnedFd) -> sys::Result<()> {
    let (like, now) = (fs::fstat(lower)?, fs::fstat(upper)?);
    let mut mode = like.mode & 0o7777;
    if (like.uid, like.gid) != (now.uid, now.gid) && attr::chown(upper, like.uid, like.gid).is_err() {
        let bits = if like.uid == now.uid { mode >> 6 } else { permitted(mode, like.gid == now.gid) };
        mode = (mode & 0o1077) | ((bits & 7) << 6);
    }
    attr::chmod(upper, mode)?;
    let time = attr::modified(lower)?;
    attr::set_time_of_place(upper, time)
}

/// What a stranger to the owner may do.
fn permitted(mode: u32, in_group: bool) -> u32 {
    if in_group { mode >> 3 } else { mode }
}

fn hint(error: &sys::Error, upper: &Upper) -> Option<String> {
    match error.errno() {
        Errno::INVAL => Some(
            "the file system there cannot be a layer: it folds case, it already is a stack of two overlays (a sandbox \
             or container inside another), or the state directory (for layers on disk) lies on an overlay; the \
             kernel's log (dmesg) says which"
                .into(),
        ),
        Errno::LOOP => Some("the directory holds stockade's state directory: set $STOCKADE_STATE elsewhere".into()),
        Errno::PERM => Some("overlays in user namespaces need Linux 5.11".into()),
        Errno::NODEV => Some("this kernel has no overlay file system: try `modprobe overlay`".into()),
        Errno::NOTSUP if !matches!(upper, Upper::Memory { .. }) => {
            Some("the state directory's file system has no extended attributes: set $STOCKADE_STATE elsewhere".into())
        }
        _ => None,
    }
}

impl Memory {
    /// Is it full now?
    pub(super) fn full(&self) -> Option<Full> {
        let space = fs::space(&self.root).ok()?;
        let full = space.available < FULL.min(space.total / 16) || space.files_available == 0;
        full.then(|| Full { what: self.what.clone(), limit: space.total })
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

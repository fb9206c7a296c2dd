//! Carries out the plan's list of mounts: first everything is cloned while it is still writable, then the tree is made
//! read-only by one call, then the clones are attached, descriptor to descriptor.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::mirror::Mirror;
use super::overlay::{Memory, Overlays, Tree};
use super::preload;
use super::stubs::{link, relative, stub, target};
use super::watch::{Free, root_of};
use super::{Failure, Step};
use crate::overlay::Layers;
use crate::plan::{Kind, Op, Plan, ProcView, Root, View};
use crate::sys::fs::{self, FileId, OFlags};
use crate::sys::mount::{self, Attributes, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::mountinfo;
use crate::sys::{self, Errno};

pub(super) type Done<T> = Result<T, Failure>;

/// The devices of the minimal `/dev`.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The usual links of `/dev`.
pub const DEVICE_LINKS: [(&str, &str); 6] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

/// A private directory of the session as the supervisor opened it.
pub(super) struct PrivateDir {
    /// Where it appears.
    pub(super) path: PathBuf,
    /// Where it lies on the host.
    pub(super) host: PathBuf,
    pub(super) file: FileId,
}

/// What is needed of the finished file system while the command runs.
#[derive(Default)]
pub(super) struct Built {
    /// What hidden places show; `None` if nothing is ever hidden.
    pub(super) masks: Option<OwnedFd>,
    pub(super) free: Vec<Free>,
    pub(super) mirrors: Vec<Mirror>,
    /// What holds the layers of overlays in memory.
    pub(super) memory: Vec<Memory>,
    /// Tells where mounts are, though `/proc` is to become another one.
    pub(super) mounts: Option<File>,
    /// Overlays that could not be, where none is required.
    pub(super) not_overlaid: Vec<String>,
}

/// Build the whole file system of the run in the (new) mount namespace.
pub(super) fn build(
    plan: &Plan,
    private: &[PrivateDir],
    layers: &[Layers],
    trace: &mut dyn FnMut(Step),
) -> Done<Built> {
    trace(Step::CloneTrees);
    let mut builder = Builder {
        plan,
        trees: HashMap::new(),
        overlays: HashMap::new(),
        skipped: Vec::new(),
        mounts: None,
        devices: Vec::new(),
        frames: Vec::new(),
        masks: None,
        free: Vec::new(),
        mirrors: Vec::new(),
        outer_proc: None,
    };
    let (memory, not_overlaid) = builder.make_overlays(layers)?;
    builder.clone_all(private)?;
    trace(Step::MakeReadOnly);
    let attributes = Attributes { set: RDONLY | NOSUID | NODEV, ..Attributes::default() };
    mount::set_attributes(fs::CWD, Path::new("/"), true, attributes)
        .map_err(|e| Failure::of(Step::MakeReadOnly, &e))?;
    trace(Step::Attach);
    let built = builder.attach_all()?;
    Ok(Built { memory, not_overlaid, ..built })
}

struct Builder<'a> {
    plan: &'a Plan,
    /// What was cloned, by index of the operation.
    trees: HashMap<usize, OwnedFd>,
    overlays: HashMap<usize, Tree>,
    /// Overlays that could not be, where none is required.
    skipped: Vec<usize>,
    mounts: Option<File>,
    /// The device nodes of the minimal `/dev` with their names.
    devices: Vec<(&'static str, OwnedFd)>,
    /// File systems of ours that become read-only when everything is in its place.
    frames: Vec<OwnedFd>,
    /// The attached tmpfs that holds what hidden places show.
    masks: Option<OwnedFd>,
    free: Vec<Free>,
    mirrors: Vec<Mirror>,
    /// The caller's `/proc`, for an empty root: the kernel makes a new one only where a whole one is in sight
    /// (`mount_too_revealing` in fs/namespace.c). The new one covers it.
    outer_proc: Option<OwnedFd>,
}

pub(super) fn attaching(path: &Path) -> impl Fn(sys::Error) -> Failure + '_ {
    move |error| Failure::of(Step::Attach, &error).about(path.display())
}

impl Builder<'_> {
    fn make_overlays(&mut self, layers: &[Layers]) -> Done<(Vec<Memory>, Vec<String>)> {
        let mut overlays = Overlays::new(self.plan, layers);
        for (index, op) in self.plan.mounts.iter().enumerate() {
            if let Some(tree) = overlays.make(op)? {
                self.overlays.insert(index, tree);
            }
        }
        overlays.finish()
    }

    fn clone_all(&mut self, private: &[PrivateDir]) -> Done<()> {
        let plan = self.plan;
        for (index, op) in plan.mounts.iter().enumerate() {
            let tree = match op {
                Op::Bind { path, view, rule } => self.clone_bind(path, *view, *rule)?,
                Op::Private { path, .. } => Some(clone_private(path, private)?),
                Op::Mirror { of: Some(of), rule, .. } => self.clone_bind(of, View::Read, *rule)?,
                Op::Dev { console, .. } => self.clone_devices(console.as_deref())?,
                _ => None,
            };
            if let Some(tree) = tree {
                self.trees.insert(index, tree);
            }
        }
        Ok(())
    }

    /// A clone of a host path; `None` for one that the host took away meanwhile where the broker serves the name anyway.
    fn clone_bind(&self, path: &Path, view: View, rule: usize) -> Done<Option<OwnedFd>> {
        let about = |error: sys::Error| {
            let origin = &self.plan.names.all()[rule].origin;
            Failure::of(Step::CloneTrees, &error).about(format!("{} ({origin})", path.display()))
        };
        let set = match view {
            View::Read => RDONLY | NOSUID | NODEV,
            View::Write => NOSUID | NODEV,
            // Of a directory of devices (/dev/shm, say) the names may be changed, of a node not even the mode.
            View::Device if fs::lstat(path).is_ok_and(|stat| stat.is_dir()) => NOSUID,
            View::Device => RDONLY | NOSUID,
        };
        let cloned = fs::open_place(path).and_then(|place| mount::clone_tree(&place, Path::new("")));
        let tree = match cloned {
            Err(error) if self.is_served(path) && error.is(Errno::NOENT) => return Ok(None),
            cloned => cloned.map_err(about)?,
        };
        mount::set_attributes(&tree, Path::new(""), true, Attributes { set, ..Attributes::default() })
            .map_err(about)?;
        Ok(Some(tree))
    }

    /// Is this bind only an optimisation, because the broker serves the directory that it lies in?
    fn is_served(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.plan.guarded.iter().any(|dir| dir == parent))
    }

    fn clone_devices(&mut self, console: Option<&Path>) -> Done<Option<OwnedFd>> {
        for name in DEVICES {
            self.devices.extend(clone_device(name, &Path::new("/dev").join(name))?);
        }
        if let Some(path) = console {
            self.devices.extend(clone_device("console", path)?);
        }
        Ok(None)
    }

    fn attach_all(mut self) -> Done<Built> {
        let plan = self.plan;
        let root = self.root()?;
        self.prepare_masks(&root)?;
        for (index, op) in plan.mounts.iter().enumerate() {
            self.carry_out(&root, index, op)?;
        }
        for frame in &self.frames {
            let sealed = Attributes { set: RDONLY, ..Attributes::default() };
            mount::set_attributes(frame, Path::new(""), false, sealed).map_err(|e| Failure::of(Step::Attach, &e))?;
        }
        if let Some(proc) = self.outer_proc.take() {
            let path = Path::new("/proc");
            mount::attach(&proc, &target(&root, path)?).map_err(attaching(path))?;
        }
        if plan.root == Root::Empty {
            mount::pivot_into(&root).map_err(|e| Failure::of(Step::Attach, &e).about("the empty root"))?;
        }
        let Self { masks, free, mirrors, mounts, .. } = self;
        Ok(Built { masks, free, mirrors, memory: Vec::new(), mounts, not_overlaid: Vec::new() })
    }

    /// The directory that everything is attached below.
    fn root(&mut self) -> Done<OwnedFd> {
        match self.plan.root {
            Root::Host => fs::open_place(Path::new("/")).map_err(attaching(Path::new("/"))),
            // It has to be attached somewhere before it can become the root; /proc exists wherever this runs.
            Root::Empty => {
                let place = fs::open_place(Path::new("/proc")).map_err(attaching(Path::new("/")))?;
                let proc = mount::clone_tree(&place, Path::new("")).map_err(attaching(Path::new("/proc")))?;
                self.outer_proc = Some(proc);
                self.frame(&place, "0755")
            }
        }
    }

    fn carry_out(&mut self, root: &OwnedFd, index: usize, op: &Op) -> Done<()> {
        match op {
            Op::Frame { path, .. } if path == Path::new("/") => Ok(()),
            Op::Frame { path, .. } => self.frame(&target(root, path)?, "0755").map(drop),
            Op::Stub { path, kind } => stub(root, path, *kind),
            Op::Link { path, target } => link(root, path, target),
            Op::Mask { path, kind, .. } => self.mask(root, path, *kind),
            Op::Copy { path, files } => self.copy(root, path, files),
            Op::Dev { preload, .. } => self.dev(root, *preload),
            Op::Mirror { path, of, .. } => self.mirror(root, index, path, of.as_deref()),
            Op::Private { path, .. } => self.attach_private(root, index, path),
            Op::Bind { path, view, .. } => self.attach_bind(root, index, path, *view),
            Op::Overlay { path, .. } => self.attach_overlay(root, index, path),
        }
    }

    /// Attach a clone of a place in the host's tree must still be the very file that was cloned: where the host
    /// exchanged it meanwhile, the broker serves it, or the launch fails.
    fn attach_bind(&mut self, root: &OwnedFd, index: usize, path: &Path, view: View) -> Done<()> {
        let Some(tree) = self.trees.remove(&index) else { return Ok(()) };
        let served = self.is_served(path);
        let place = match fs::open_beneath(root, relative(path), OFlags::PATH) {
            Err(error) if served && (error.is(Errno::NOENT) || error.is(Errno::LOOP)) => return Ok(()),
            opened => opened.map_err(attaching(path))?,
        };
        let (cloned, there) = (file(&tree, path)?, file(&place, path)?);
        let stubbed = self.plan.mounts[..index].iter().any(|op| matches!(op, Op::Stub { path: p, .. } if p == path));
        let made_here = stubbed || self.lies_in_overlay(index);
        if !made_here && cloned != there {
            return if served { Ok(()) } else { Err(exchanged(path)) };
        }
        mount::attach(&tree, &place).map_err(attaching(path))?;
        if view == View::Write && !stubbed {
            let root = if self.lies_in_overlay(index) { self.root_of(path)? } else { None };
            self.free.push(Free { path: path.to_owned(), file: cloned, tree, root, needless: false });
        }
        Ok(())
    }

    fn attach_private(&mut self, root: &OwnedFd, index: usize, path: &Path) -> Done<()> {
        let Some(tree) = self.trees.remove(&index) else { return Ok(()) };
        mount::attach(&tree, target(root, path)?).map_err(attaching(path))
    }

    fn root_of(&mut self, path: &Path) -> Done<Option<PathBuf>> {
        if self.mounts.is_none() {
            let failed =
                |error: std::io::Error| Failure::because(Step::Attach, error.to_string()).about(path.display());
            self.mounts = Some(mountinfo::open().map_err(failed)?);
        }
        Ok(self.mounts.as_ref().and_then(|mounts| root_of(mounts, path)))
    }

    /// An overlay shows other files than the host has: what is attached there cannot be compared.
    fn lies_in_overlay(&self, index: usize) -> bool {
        let path = self.plan.mounts[index].path();
        let above = self.plan.mounts[..index].iter().enumerate().filter(|(_, op)| {
            op.path() != path && path.starts_with(op.path()) && !matches!(op, Op::Stub { .. } | Op::Link { .. })
        });
        let nearest = above.max_by_key(|(_, op)| op.path().components().count());
        nearest.is_some_and(|(index, op)| matches!(op, Op::Overlay { .. }) && !self.skipped.contains(&index))
    }

    fn attach_overlay(&mut self, root: &OwnedFd, index: usize, path: &Path) -> Done<()> {
        let Some(tree) = self.overlays.remove(&index) else {
            self.skipped.push(index);
            return Ok(());
        };
        let place = target(root, path)?;
        let stubbed = self.plan.mounts[..index].iter().any(|op| matches!(op, Op::Stub { path: p, .. } if p == path));
        if !stubbed && !self.lies_in_overlay(index) && file(&place, path)? != tree.shows {
            return Err(exchanged(path));
        }
        mount::attach(&tree.mount, &place).map_err(attaching(path))
    }

    /// A tmpfs for mount points, attached at `place`; gives its root.
    fn frame(&mut self, place: &OwnedFd, mode: &str) -> Done<OwnedFd> {
        let frame = tmpfs(mode, "1m")?;
        mount::attach(&frame, place).map_err(|e| Failure::of(Step::Attach, &e))?;
        let root = frame.try_clone().map_err(|e| Failure::because(Step::Attach, e.to_string()))?;
        self.frames.push(frame);
        Ok(root)
    }

    fn mirror(&mut self, root: &OwnedFd, index: usize, path: &Path, of: Option<&Path>) -> Done<()> {
        let frame = self.frame(&target(root, path)?, "0755")?;
        if let (Some(tree), Some(of)) = (self.trees.remove(&index), of) {
            self.mirrors.push(Mirror::fill(&frame, tree, path, of).map_err(attaching(path))?);
        }
        Ok(())
    }

    fn mask(&mut self, root: &OwnedFd, path: &Path, kind: Kind) -> Done<()> {
        let place = target(root, path)?;
        let Some(masks) = &self.masks else {
            return Err(Failure::because(Step::Attach, "nothing was prepared to hide it with").about(path.display()));
        };
        let tree = mask(masks, kind).map_err(attaching(path))?;
        mount::attach(&tree, &place).map_err(attaching(path))
    }

    /// What hides things is attached where something covers it a moment later.
    fn prepare_masks(&mut self, root: &OwnedFd) -> Done<()> {
        let plan = self.plan;
        if plan.hidden.is_empty() {
            return Ok(());
        }
        let covered = if plan.mounts.iter().any(|op| matches!(op, Op::Dev { .. })) {
            Path::new("/dev")
        } else if plan.request.proc == ProcView::Fresh {
            Path::new("/proc")
        } else {
            return Err(Failure::because(Step::Attach, "nothing can be hidden with both /dev and /proc of the host"));
        };
        if plan.root == Root::Empty {
            stub(root, covered, Kind::Directory)?;
        }
        self.masks = Some(masks(&target(root, covered)?)?);
        Ok(())
    }

    fn copy(&mut self, root: &OwnedFd, path: &Path, files: &[PathBuf]) -> Done<()> {
        let frame = self.frame(&target(root, path)?, "0755")?;
        for source in files {
            let (Some(name), Ok(content)) = (source.file_name(), std::fs::read(source)) else { continue };
            let copy = fs::create_at(&frame, Path::new(name), 0o644).map_err(attaching(path))?;
            std::io::Write::write_all(&mut std::fs::File::from(copy), &content)
                .map_err(|error| Failure::because(Step::Attach, error.to_string()).about(path.display()))?;
        }
        Ok(())
    }

    /// A tmpfs with the usual nodes, links, `pts` and `shm`.
    fn dev(&mut self, root: &OwnedFd, preload: bool) -> Done<()> {
        let path = Path::new("/dev");
        let dev = self.frame(&target(root, path)?, "0755")?;
        for (name, tree) in std::mem::take(&mut self.devices) {
            fs::create_at(&dev, Path::new(name), 0o666).map_err(attaching(path))?;
            let place = fs::open_beneath(&dev, Path::new(name), OFlags::PATH).map_err(attaching(path))?;
            mount::attach(&tree, &place).map_err(attaching(path))?;
        }
        for (name, target) in DEVICE_LINKS {
            fs::symlink_at(Path::new(target), &dev, Path::new(name)).map_err(attaching(path))?;
        }
        let pts = mount::new_filesystem("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], NOSUID | NOEXEC);
        attach_in(&dev, "pts", &pts.map_err(|e| Failure::of(Step::Attach, &e).about("/dev/pts"))?)?;
        attach_in(&dev, "shm", &tmpfs("1777", "50%")?)?;
        if preload { preload::put(&dev) } else { Ok(()) }
    }
}

pub(super) fn clone_device(name: &'static str, path: &Path) -> Done<Option<(&'static str, OwnedFd)>> {
    let cloned = fs::open_place(path).and_then(|place| mount::clone_tree(&place, Path::new("")));
    match cloned {
        // A container may lack one of them; it is missing inside too.
        Err(error) if error.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(Failure::of(Step::CloneTrees, &error).about(path.display())),
        Ok(tree) => {
            keep_node(&tree).map_err(|error| Failure::of(Step::CloneTrees, &error).about(path.display()))?;
            Ok(Some((name, tree)))
        }
    }
}

/// A device can be written on a read-only mount, but its node's mode, owner and times cannot: root would change the
/// host's own.
fn keep_node(tree: &OwnedFd) -> sys::Result<()> {
    let set = RDONLY | NOSUID | NOEXEC;
    mount::set_attributes(tree, Path::new(""), true, Attributes { set, ..Attributes::default() })
}

fn clone_private(path: &Path, private: &[PrivateDir]) -> Done<OwnedFd> {
    let failed = |error: sys::Error| Failure::of(Step::CloneTrees, &error).about(path.display());
    let Some(dir) = private.iter().find(|dir| dir.path == path) else {
        return Err(Failure::because(Step::CloneTrees, "no private directory was opened for it").about(path.display()));
    };
    let place = fs::open_place(&dir.host).map_err(failed)?;
    if file(&place, path)? != dir.file {
        return Err(exchanged(&dir.host));
    }
    let tree = mount::clone_tree(&place, Path::new("")).map_err(failed)?;
    let set = NOSUID | NODEV;
    mount::set_attributes(&tree, Path::new(""), true, Attributes { set, ..Attributes::default() }).map_err(failed)?;
    Ok(tree)
}

fn exchanged(path: &Path) -> Failure {
    Failure::because(Step::Attach, "it was exchanged on the host while the sandbox was being made")
        .about(path.display())
        .hinting("run the command again")
}

fn file(fd: &OwnedFd, path: &Path) -> Done<FileId> {
    fs::fstat(fd).map(|stat| stat.file).map_err(attaching(path))
}

fn tmpfs(mode: &str, size: &str) -> Done<OwnedFd> {
    mount::new_filesystem("tmpfs", &[("mode", mode), ("size", size)], NOSUID | NODEV)
        .map_err(|error| Failure::of(Step::Attach, &error))
}

pub(super) fn attach_in(dir: &OwnedFd, name: &str, tree: &OwnedFd) -> Done<()> {
    let path = Path::new(name);
    fs::mkdir_at(dir, path, 0o755).map_err(attaching(path))?;
    let place = fs::open_beneath(dir, path, OFlags::PATH).map_err(attaching(path))?;
    mount::attach(tree, &place).map_err(attaching(path))
}

/// A tmpfs with an empty directory and an empty file that nobody may open. It is attached at a place that something else
/// is about to cover, where nothing can reach it, because only what is attached can be cloned (before Linux 6.15).
pub(super) fn masks(place: &OwnedFd) -> Done<OwnedFd> {
    let failed = |error| Failure::of(Step::Attach, &error).about("what hidden places show");
    let masks = tmpfs("0700", "64k")?;
    fs::mkdir_at(&masks, Path::new("directory"), 0).map_err(failed)?;
    fs::create_at(&masks, Path::new("file"), 0).map_err(failed)?;
    mount::attach(&masks, place).map_err(failed)?;
    Ok(masks)
}

/// A mount of one of the two, to be attached over something.
pub(super) fn mask(masks: &OwnedFd, kind: Kind) -> sys::Result<OwnedFd> {
    let name = match kind {
        Kind::Directory => "directory",
        Kind::File => "file",
    };
    let tree = mount::clone_tree(masks, Path::new(name))?;
    let set = RDONLY | NOSUID | NODEV | NOEXEC;
    mount::set_attributes(&tree, Path::new(""), false, Attributes { set, ..Attributes::default() })?;
    Ok(tree)
}

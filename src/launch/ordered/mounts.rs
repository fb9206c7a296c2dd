//! Makes the tree, step by step. The host's stays where it is until the end: the new root is mounted over `/`, which the
//! look-up of absolute paths does not notice (it begins at the process's own root), and becomes the root at last.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::{Done, Failure, because, failed, overlay, reason, told};
use crate::launch::mounts::{DEVICE_LINKS, DEVICES, attach_in, clone_device};
use crate::launch::stubs::relative;
use crate::plan::View;
use crate::plan::ordered::{Ids, Ordered, Place, Source, Step};
use crate::sys::fs::{self, OFlags, ResolveFlags};
use crate::sys::mount::{self, Attributes, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::{self, Errno, attr, process, socket, terminal};

/// Mode of what stands for a mounted file (bubblewrap's `ensure_file`).
const MOUNT_POINT: u32 = 0o444;
/// What of a procfs root could write without any capability.
const PROC_COVERS: [&str; 4] = ["sys", "sysrq-trigger", "irq", "bus"];

/// Make the tree, and have it as the root. `proc` is the host's.
pub(super) fn build(plan: &Ordered, proc: &OwnedFd) -> Done<()> {
    let slash = fs::open_place(Path::new("/")).map_err(failed("Can't open /"))?;
    let private = Attributes { propagation: mount::PRIVATE, ..Attributes::default() };
    mount::set_attributes(&slash, Path::new(""), true, private).map_err(failed("Failed to make / slave"))?;
    let unseen = over_root(&slash).map_err(failed("Failed to mount tmpfs"))?;
    let root = over_root(&slash).map_err(failed("Failed to mount tmpfs"))?;
    // What is to be cloned must be bindable, and so is a mount of its own.
    let base = tmpfs("0755", None).and_then(|base| attach_in_unseen(&unseen, &base).map(|()| base));
    let base = base.map_err(failed("Failed to mount tmpfs"))?;
    let mut builder = Builder { plan, proc, base, root, stacked: 1, ours: Vec::new(), count: 0 };
    builder.remember_root()?;
    for step in &plan.steps {
        builder.carry_out(step)?;
    }
    mount::pivot_from_stack(&builder.root, builder.stacked).map_err(failed("pivot_root"))?;
    mount::set_attributes(&builder.root, Path::new(""), false, private).map_err(failed("Failed to make / private"))
}

/// A file system over the host's root, which a clone of that root leaves out.
fn over_root(slash: &OwnedFd) -> sys::Result<OwnedFd> {
    let tree = tmpfs("0755", None)?;
    let unbindable = Attributes { propagation: mount::UNBINDABLE, ..Attributes::default() };
    mount::set_attributes(&tree, Path::new(""), false, unbindable)?;
    mount::attach(&tree, slash)?;
    Ok(tree)
}

fn attach_in_unseen(unseen: &OwnedFd, tree: &OwnedFd) -> sys::Result<()> {
    let name = Path::new("base");
    fs::mkdir_at(unseen, name, 0o700)?;
    mount::attach(tree, &fs::open_beneath(unseen, name, OFlags::PATH)?)
}

pub(super) struct Builder<'a> {
    plan: &'a Ordered,
    proc: &'a OwnedFd,
    /// A file system of ours that is never seen: holds upper layers and the files of data.
    pub(super) base: OwnedFd,
    /// The topmost mount at the root.
    root: OwnedFd,
    /// How many mounts of ours lie between the host's root and that one.
    stacked: usize,
    /// The mounts in which things may be made: none that shows the host's files.
    ours: Vec<u64>,
    count: usize,
}

impl Builder<'_> {
    fn carry_out(&mut self, step: &Step) -> Done<()> {
        match step {
            Step::Bind { source, to, view, served } => self.bind(source, to, *view, *served),
            Step::Private { host, to } => self.private(host, to),
            Step::Tmpfs { to, mode, size } => self.tmpfs(to, *mode, *size),
            Step::Proc { to } => self.proc(to),
            Step::Dev { to } => self.dev(to),
            Step::MessageQueues { to } => self.queues(to),
            Step::Directory { to, mode } => self.directory(to, *mode).map(drop),
            Step::File { fd, to, mode } => self.file(*fd, to, *mode),
            Step::Data { fd, to, mode, view } => self.data(*fd, to, *mode, *view),
            Step::Symlink { target, to } => self.symlink(target, to),
            Step::Chmod { to, mode } => self.chmod(to, *mode),
            Step::ReadOnly { to } => self.read_only(to),
            Step::Overlay { lower, upper, to } => {
                let place = self.directory(to, 0o755)?;
                let (tree, ours) = overlay::make(self, lower, upper, to)?;
                self.attach(tree, &place, to, ours)
            }
        }
    }

    fn bind(&mut self, source: &Source, to: &Place, view: View, served: bool) -> Done<()> {
        let onto = |error: sys::Error| {
            let (from, to) = (source.real.display(), to.written.display());
            because(format_args!("Can't bind mount /oldroot{from} on /newroot{to}"), error.errno())
        };
        let tree = Self::open(source).and_then(|place| mount::clone_tree(&place, Path::new("")).map_err(onto))?;
        let read = if served || view == View::Read { RDONLY } else { 0 };
        let nodes = if view == View::Device { 0 } else { NODEV };
        let set = Attributes { set: NOSUID | nodes | read, ..Attributes::default() };
        mount::set_attributes(&tree, Path::new(""), true, set).map_err(onto)?;
        let place = if source.is_dir { self.directory(to, 0o755)? } else { self.mount_point(to)? };
        self.attach(tree, &place, to, false)
    }

    /// A place on the host, which must still be what was found there.
    pub(super) fn open(source: &Source) -> Done<OwnedFd> {
        let text = format!("Can't find source path {}", source.written.display());
        let place = fs::open_place(&source.real).map_err(failed(&text))?;
        if let Some(number) = source.descriptor {
            let open = process::take_descriptor(number).map_err(failed("Can't stat fd"))?;
            let (open, there) = (fs::fstat(&open), fs::fstat(&place));
            match (open, there) {
                (Ok(open), Ok(there)) if open.file == there.file => {}
                _ => return Err(Failure("Race condition binding dirfd".into())),
            }
        }
        Ok(place)
    }

    fn private(&mut self, host: &Path, to: &Place) -> Done<()> {
        let text = format!("Can't mount the session's directory on /newroot{}", to.written.display());
        let place = self.directory(to, 0o755)?;
        let tree =
            fs::open_place(host).and_then(|dir| mount::clone_tree(&dir, Path::new(""))).map_err(failed(&text))?;
        let set = Attributes { set: NOSUID | NODEV, ..Attributes::default() };
        mount::set_attributes(&tree, Path::new(""), true, set).map_err(failed(&text))?;
        self.attach(tree, &place, to, true)
    }

    fn tmpfs(&mut self, to: &Place, mode: u32, size: Option<u64>) -> Done<()> {
        let place = self.directory(to, 0o755)?;
        let text = format!("Can't mount tmpfs on /newroot{}", to.written.display());
        let tree = tmpfs(&format!("{mode:o}"), size).map_err(failed(&text))?;
        self.attach(tree, &place, to, true)
    }

    fn proc(&mut self, to: &Place) -> Done<()> {
        let place = self.directory(to, 0o755)?;
        let text = format!("Can't mount proc on /newroot{}", to.written.display());
        let tree = if self.plan.namespaces.pid || self.plan.joined.pid.is_some() {
            mount::new_filesystem("proc", &[], NOSUID | NODEV | NOEXEC)
        } else {
            mount::clone_tree(self.proc, Path::new(""))
        };
        let tree = tree.map_err(failed(&text))?;
        let inside = tree.try_clone().map_err(|error| Failure(format!("{text}: {error}")))?;
        self.attach(tree, &place, to, false)?;
        let root = match &self.plan.ids {
            Ids::One { user, .. } => user.1 == 0,
            Ids::Same { .. } | Ids::Given => true,
        };
        if root { cover_proc(&inside).map_err(failed(&text)) } else { Ok(()) }
    }

    fn queues(&mut self, to: &Place) -> Done<()> {
        let place = self.directory(to, 0o755)?;
        let text = format!("Can't mount mqueue on /newroot{}", to.written.display());
        let tree = mount::new_filesystem("mqueue", &[], NOSUID | NODEV | NOEXEC).map_err(failed(&text))?;
        self.attach(tree, &place, to, false)
    }

    /// A tmpfs with the usual nodes, links, `shm` and `pts`.
    fn dev(&mut self, to: &Place) -> Done<()> {
        self.tmpfs(to, 0o755, None)?;
        let dev = self.find(to).map_err(failed(&format!("Can't find {}", to.written.display())))?;
        let nodes = DEVICES.iter().map(|name| (*name, Path::new("/dev").join(name)));
        let console = terminal::name(socket::standard(1)).map(|path| ("console", path));
        for (name, path) in nodes.chain(console) {
            let failed = failed("Can't bind mount a device on /newroot/dev");
            let Some((name, tree)) = clone_device(name, &path).map_err(|failure| told(&failure))? else { continue };
            fs::create_at(&dev, Path::new(name), MOUNT_POINT).map_err(&failed)?;
            let place = fs::open_beneath(&dev, Path::new(name), OFlags::PATH).map_err(&failed)?;
            mount::attach(&tree, &place).map_err(&failed)?;
        }
        for (name, target) in DEVICE_LINKS {
            fs::symlink_at(Path::new(target), &dev, Path::new(name)).map_err(failed("Can't create symlink in dev"))?;
        }
        fs::mkdir_at(&dev, Path::new("shm"), 0o755).map_err(failed("Can't create shm in dev"))?;
        let text = format!("Can't mount devpts on /newroot{}/pts", to.written.display());
        let pts = mount::new_filesystem("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], NOSUID | NOEXEC);
        attach_in(&dev, "pts", &pts.map_err(failed(&text))?).map_err(|failure| told(&failure))
    }

    fn file(&mut self, fd: i32, to: &Place, mode: u32) -> Done<()> {
        let text = format!("Can't create file {}", to.written.display());
        let (dir, name) = self.parent(to)?;
        let opened = match fs::create_at(&dir, &name, mode) {
            Err(error) if error.is(Errno::EXIST) => fs::open_beneath(&dir, &name, OFlags::WRONLY | OFlags::TRUNC),
            created => created,
        };
        copy(fd, &opened.map_err(failed(&text))?, to)
    }

    /// The file lies where nobody sees it, and has no name there any more when it is shown.
    fn data(&mut self, fd: i32, to: &Place, mode: u32, view: View) -> Done<()> {
        let place = self.mount_point(to)?;
        let (name, text) = (self.name(), format!("Can't create tmpfile for {}", to.written.display()));
        let file = fs::create_at(&self.base, &name, mode).map_err(failed(&text))?;
        copy(fd, &file, to)?;
        let tree = mount::clone_tree(&self.base, &name).map_err(failed(&text))?;
        let read = if view == View::Read { RDONLY } else { 0 };
        let set = Attributes { set: NOSUID | NODEV | read, ..Attributes::default() };
        mount::set_attributes(&tree, Path::new(""), false, set).map_err(failed(&text))?;
        self.attach(tree, &place, to, false)?;
        fs::unlink_at(&self.base, &name).map_err(failed(&text))
    }

    fn symlink(&mut self, target: &Path, to: &Place) -> Done<()> {
        let failed = |why: String| Failure(format!("Can't make symlink at {}: {why}", to.written.display()));
        let (dir, name) = self.parent(to)?;
        match fs::symlink_at(target, &dir, &name) {
            Err(error) if error.is(Errno::EXIST) => match fs::readlink_at(&dir, &name) {
                Ok(there) if there == target => Ok(()),
                Ok(there) => Err(failed(format!("existing destination is {}", there.display()))),
                Err(_) => Err(failed("destination exists and is not a symlink".into())),
            },
            made => made.map_err(|error| failed(reason(error.errno()))),
        }
    }

    fn chmod(&mut self, to: &Place, mode: u32) -> Done<()> {
        let text = format!("Can't chmod 0{mode:o} {}", to.written.display());
        self.find(to).and_then(|place| attr::chmod(&place, mode)).map_err(failed(&text))
    }

    fn read_only(&mut self, to: &Place) -> Done<()> {
        let path = format!("/newroot{}", to.written.display());
        let failed = |why: String| Failure(format!("Can't remount readonly on {path}: {why}"));
        let place =
            self.find(to).map_err(|error| failed(format!("realpath(destination): {}", reason(error.errno()))))?;
        let set = Attributes { set: RDONLY, ..Attributes::default() };
        mount::set_attributes(&place, Path::new(""), false, set).map_err(|error| match error.errno() {
            Errno::INVAL => failed(format!("Unable to find \"{path}\" in mount table")),
            errno => failed(reason(errno)),
        })
    }

    /// Mount it. `ours`: what is made in it never reaches the host.
    fn attach(&mut self, tree: OwnedFd, place: &OwnedFd, to: &Place, ours: bool) -> Done<()> {
        let text = format!("Can't mount on /newroot{}", to.written.display());
        mount::attach(&tree, place).map_err(failed(&text))?;
        if ours {
            self.ours.push(fs::fstat(&tree).map_err(failed(&text))?.mount);
        }
        if to.real == Path::new("/") {
            self.root = tree;
            self.stacked += 1;
        }
        Ok(())
    }

    fn remember_root(&mut self) -> Done<()> {
        self.ours.push(fs::fstat(&self.root).map_err(failed("Can't stat the new root"))?.mount);
        Ok(())
    }

    /// A name in `base`.
    pub(super) fn name(&mut self) -> PathBuf {
        self.count += 1;
        self.count.to_string().into()
    }

    /// What lies at a place.
    fn find(&self, to: &Place) -> sys::Result<OwnedFd> {
        if to.follow {
            let scope = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            return fs::openat2(&self.root, relative(&to.real), OFlags::PATH, fs::Mode::empty(), scope);
        }
        fs::open_beneath(&self.root, relative(&to.real), OFlags::PATH)
    }

    /// A directory, made where it is missing.
    fn directory(&self, to: &Place, mode: u32) -> Done<OwnedFd> {
        let text = format!("Can't mkdir {}", to.written.display());
        match self.find(to) {
            Err(error) if error.is(Errno::NOENT) => {
                let (dir, name) = self.parent(to)?;
                self.check_ours(&dir).and_then(|()| fs::mkdir_at(&dir, &name, mode)).map_err(failed(&text))?;
                fs::open_beneath(&dir, &name, OFlags::PATH).map_err(failed(&text))
            }
            found => found.map_err(failed(&text)),
        }
    }

    /// A file to mount upon, made where it is missing.
    fn mount_point(&self, to: &Place) -> Done<OwnedFd> {
        let text = format!("Can't create file at {}", to.written.display());
        match self.find(to) {
            Err(error) if error.is(Errno::NOENT) => {
                let (dir, name) = self.parent(to)?;
                let made = self.check_ours(&dir).and_then(|()| fs::create_at(&dir, &name, MOUNT_POINT));
                made.map_err(failed(&text))?;
                fs::open_beneath(&dir, &name, OFlags::PATH).map_err(failed(&text))
            }
            found => found.map_err(failed(&text)),
        }
    }

    /// The directory of a place, made where it is missing, and the last name.
    fn parent(&self, to: &Place) -> Done<(OwnedFd, PathBuf)> {
        let text = format!("Can't mkdir parents for {}", to.written.display());
        let path = relative(&to.real);
        let name = path.file_name().map_or_else(|| PathBuf::from("."), PathBuf::from);
        let mut dir = fs::open_beneath(&self.root, Path::new("."), OFlags::PATH).map_err(failed(&text))?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            let (part, flags): (&Path, _) = (part.as_ref(), OFlags::PATH | OFlags::DIRECTORY);
            let opened = match fs::open_beneath(&dir, part, flags) {
                Err(error) if error.is(Errno::NOENT) => self
                    .check_ours(&dir)
                    .and_then(|()| fs::mkdir_at(&dir, part, to.parents))
                    .and_then(|()| fs::open_beneath(&dir, part, flags)),
                opened => opened,
            };
            dir = opened.map_err(failed(&text))?;
        }
        Ok((dir, name))
    }

    /// Whatever the plan says, nothing is made where that is not ours.
    fn check_ours(&self, dir: &OwnedFd) -> sys::Result<()> {
        let ours = self.ours.contains(&fs::fstat(dir)?.mount);
        if ours {
            Ok(())
        } else {
            Err(sys::Error::new("mkdirat", format_args!("a directory of the host"), Errno::ROFS))
        }
    }
}

fn tmpfs(mode: &str, size: Option<u64>) -> sys::Result<OwnedFd> {
    let size = size.map(|size| size.to_string());
    let mut options = vec![("mode", mode)];
    options.extend(size.as_deref().map(|size| ("size", size)));
    mount::new_filesystem("tmpfs", &options, NOSUID | NODEV)
}

fn cover_proc(proc: &OwnedFd) -> sys::Result<()> {
    for name in PROC_COVERS {
        let place = match fs::open_beneath(proc, Path::new(name), OFlags::PATH) {
            Err(error) if error.is(Errno::NOENT) => continue,
            opened => opened?,
        };
        let tree = mount::clone_tree(&place, Path::new(""))?;
        let set = Attributes { set: RDONLY | NOSUID | NODEV | NOEXEC, ..Attributes::default() };
        mount::set_attributes(&tree, Path::new(""), true, set)?;
        mount::attach(&tree, &place)?;
    }
    Ok(())
}

/// Everything that a descriptor of the caller gives.
fn copy(fd: i32, file: &OwnedFd, to: &Place) -> Done<()> {
    let text = format!("Can't write data to file {}", to.written.display());
    let mut data = Vec::new();
    let from = process::take_descriptor(fd).map_err(failed(&text))?;
    std::fs::File::from(from).read_to_end(&mut data).map_err(|error| Failure(format!("{text}: {error}")))?;
    attr::write(file, &data).map_err(failed(&text))
}

//! The file system that the command sees, as a list of operations.
//!
//! Every rule that names something on the host is an item; items are taken from the root down, and each one meets the
//! region that the items above it made. What that region already does needs no operation.

mod absent;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::build::{built_in, literal};
use super::error::Problem;
use super::overlay::Overlaying;
use super::regions::{Region, Regions, with_ancestors};
use super::{Error, Facts, Kind, Op, Request, Root, State, View};
use crate::policy::{Access, Rule, is_at_or_below};

/// The operations, and what was learnt on the way.
pub(super) struct Layout {
    pub(super) root: Root,
    pub(super) ops: Vec<Op>,
    pub(super) guarded: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) absent: Vec<usize>,
    /// The job's temporary directory, if it is private.
    pub(super) job_tmp: Option<PathBuf>,
    pub(super) notes: Vec<String>,
}

/// A rule with what its path is.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) path: &'a Path,
    pub(super) rule: &'a Rule,
    pub(super) index: usize,
    pub(super) kind: Option<Kind>,
}

/// Lay out the whole file system.
pub(super) fn layout(
    facts: &Facts,
    request: &Request,
    wanted: &[PathBuf],
    overlaying: Overlaying,
    job_dir: Option<&Path>,
) -> Result<Layout, Error> {
    let items = items(facts)?;
    let mut layout = Builder::new(facts, &items, overlaying);
    layout.ruled = items.iter().map(|item| (item.path, item.index)).collect();
    layout.cwd = &request.cwd;
    layout.job_tmp = job_dir.map(|dir| dir.join("tmp"));
    for item in &items {
        layout.place(item)?;
    }
    if let Some(item) = layout.job_to_move {
        layout.move_job(&item);
    }
    layout.finish(&request.cwd, wanted)
}

/// All rules with a path, by path; where links lead two rules to one place, the stricter one holds.
fn items(facts: &Facts) -> Result<Vec<Item<'_>>, Error> {
    let mut items: Vec<Item<'_>> = Vec::new();
    for (index, (rule, place)) in facts.names.all().iter().zip(&facts.places).enumerate() {
        let Some(place) = place else { continue };
        let kind = match place.state {
            State::Present { kind, .. } => Some(kind),
            State::Absent => None,
            State::Unknown(errno) => {
                unknown(rule, errno)?;
                None
            }
        };
        items.push(Item { path: &place.real, rule, index, kind });
    }
    // By bytes: what lies above still comes first.
    items.sort_by_key(|item| (item.path.as_os_str(), item.rule.access.rank()));
    items.dedup_by(|later, first| later.path.as_os_str() == first.path.as_os_str());
    Ok(items)
}

/// What the caller cannot reach need not be hidden or kept from writing; everything else needs to be looked at.
fn unknown(rule: &Rule, errno: crate::sys::Errno) -> Result<(), Error> {
    if built_in(rule) || rule.optional || matches!(rule.access, Access::Hide | Access::Read) {
        return Ok(());
    }
    Err(Error::of(rule, Problem::Unknown(errno)))
}

pub(super) struct Builder<'a> {
    pub(super) facts: &'a Facts,
    pub(super) overlaying: Overlaying,
    /// What each named place is to be, if anything is an overlay.
    pub(super) named: HashMap<&'a Path, Access>,
    /// Hidden directories below which something stays visible.
    frames: HashSet<&'a OsStr>,
    pub(super) regions: Regions,
    pub(super) ops: Vec<Op>,
    guarded: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    absent: Vec<usize>,
    /// The paths of all rules, with their indices.
    ruled: Vec<(&'a Path, usize)>,
    cwd: &'a Path,
    /// The job's temporary directory as the variable names it.
    job_tmp: Option<PathBuf>,
    /// Where it is private.
    job_at: Option<PathBuf>,
    /// It cannot be where it is named, and goes below `/tmp` once it is known what that is.
    job_to_move: Option<Item<'a>>,
    pub(super) notes: Vec<String>,
}

impl<'a> Builder<'a> {
    fn new(facts: &'a Facts, items: &[Item<'a>], overlaying: Overlaying) -> Self {
        let regions = Regions::new([("/", Region::Host), ("/dev", Region::Frame)]);
        let frames = frames(items);
        let named =
            items.iter().filter(|_| !facts.mounts.is_empty()).map(|item| (item.path, item.rule.access)).collect();
        Self {
            facts,
            overlaying,
            named,
            frames,
            regions,
            ops: Vec::new(),
            guarded: Vec::new(),
            hidden: Vec::new(),
            absent: Vec::new(),
            ruled: Vec::new(),
            cwd: Path::new("/"),
            job_tmp: None,
            job_at: None,
            job_to_move: None,
            notes: Vec::new(),
        }
    }

    /// The region that `path` lies in, not counting an operation at `path` itself.
    pub(super) fn around(&self, path: &Path) -> Region {
        path.parent().map_or(Region::Host, |dir| self.within(dir))
    }

    /// The region that things in the directory `path` lie in.
    fn within(&self, path: &Path) -> Region {
        self.regions.within(path)
    }

    fn place(&mut self, item: &Item<'a>) -> Result<(), Error> {
        if is_at_or_below(item.path, Path::new("/proc"))
            && !(item.rule.access == Access::Read && item.path == Path::new("/proc"))
        {
            return Err(Error::of(item.rule, Problem::Proc));
        }
        match item.rule.access {
            Access::Hide => self.hide(item),
            Access::Read if item.path == Path::new("/") && self.overlaying.redirect => return self.overlay(item),
            Access::Read => self.read(item),
            Access::Write => return self.write(item),
            Access::Private => return self.private(item),
            Access::Overlay => return self.overlay(item),
        }
        Ok(())
    }

    fn hide(&mut self, item: &Item<'a>) {
        let around = self.around(item.path);
        if around.is_ours() || around == Region::Hidden {
            return;
        }
        let root = item.path == Path::new("/");
        if self.frames.contains(item.path.as_os_str()) || root {
            self.ops.push(Op::Frame { path: item.path.to_owned(), rule: item.index });
            self.regions.insert(item.path, Region::Frame);
        } else {
            self.hidden.push(item.path.to_owned());
            let Some(kind) = item.kind else { return };
            self.ops.push(Op::Mask { path: item.path.to_owned(), kind, rule: item.index });
            self.regions.insert(item.path, Region::Hidden);
        }
    }

    fn read(&mut self, item: &Item<'a>) {
        let around = self.around(item.path);
        if let (Some(kind), true) = (item.kind, around.is_ours() || around == Region::Overlay) {
            self.show(item.path, kind, View::Read, item.index);
        }
        if around == Region::Overlay {
            return self.read_in_overlay(item);
        }
        if item.path != Path::new("/dev") {
            self.regions.insert(item.path, Region::Host);
        }
    }

    fn write(&mut self, item: &Item<'a>) -> Result<(), Error> {
        let around = self.around(item.path);
        let Some(kind) = item.kind else { return self.write_absent(item) };
        if kind == Kind::File && around == Region::Host && self.facts.can_guard {
            // A mounted file could not be renamed over, which is how programs save: the broker grants the name instead.
            self.guarded.extend(item.path.parent().map(Path::to_owned));
            return Ok(());
        }
        if around != Region::Writable {
            self.open_up(item.path, kind, item.index, around)?;
        }
        self.regions.insert(item.path, Region::Writable);
        Ok(())
    }

    /// A `write` rule for an absent path grants exactly its creation, which only the broker can do.
    fn write_absent(&mut self, item: &Item<'a>) -> Result<(), Error> {
        if item.rule.optional || built_in(item.rule) {
            return Ok(());
        }
        if !self.facts.can_guard || !matches!(self.around(item.path), Region::Host | Region::Writable) {
            return Err(Error::of(item.rule, Problem::Absent));
        }
        self.absent.push(item.index);
        self.guarded.extend(item.path.parent().map(Path::to_owned));
        Ok(())
    }

    /// Make a place writable, as far as mounts can do it: the whole of it where no stricter name is below, else each
    /// directory in it for which that holds. The rest is guarded.
    fn open_up(&mut self, path: &Path, kind: Kind, rule: usize, around: Region) -> Result<(), Error> {
        let names = &self.facts.names;
        if names.is_free(path) {
            self.show(path, kind, view(path), rule);
            return Ok(());
        }
        if names.judge(path).access != Access::Write {
            return Ok(());
        }
        self.check_guard(path)?;
        if around.is_ours() || around == Region::Overlay {
            self.show(path, kind, View::Read, rule);
        }
        self.guarded.push(path.to_owned());
        // What lies in it is the host's, whatever it lies in itself.
        self.regions.insert(path, Region::Writable);
        let facts = self.facts;
        for child in facts.children.get(path).into_iter().flatten() {
            self.open_up(&path.join(&child.name), Kind::Directory, rule, Region::Writable)?;
        }
        Ok(())
    }

    fn check_guard(&self, path: &Path) -> Result<(), Error> {
        let problem = if !self.facts.can_guard {
            Problem::NoNotification
        } else if self.facts.folding.contains(path) {
            Problem::FoldsCase(path.to_owned())
        } else {
            return Ok(());
        };
        let stricter = self.facts.names.all().iter().find(|rule| {
            rule.access.is_stricter_than(Access::Write) && is_at_or_below(literal(rule), path) && literal(rule) != path
        });
        let rule = stricter.unwrap_or_else(|| self.facts.names.judge(path).rule);
        Err(Error::of(rule, problem))
    }

    fn private(&mut self, item: &Item<'a>) -> Result<(), Error> {
        let closed = self.facts.anchors.contains_key(&item.index);
        match item.kind {
            _ if self.around(item.path).is_ours() => {}
            None if self.around(item.path) == Region::Overlay => {}
            Some(Kind::Directory) if !closed => {}
            Some(Kind::File) if !self.is_job_tmp(item) => return Err(Error::of(item.rule, Problem::NotDirectory)),
            _ => return self.private_elsewhere(item),
        }
        self.show_private(item.path, item.index);
        if self.is_job_tmp(item) {
            self.job_at = Some(item.path.to_owned());
        }
        Ok(())
    }

    fn show_private(&mut self, path: &Path, rule: usize) {
        // In an overlay the mount point goes to the layer, if it is missing.
        let around = self.around(path);
        if around.is_ours() || around == Region::Overlay {
            self.ops.push(Op::Stub { path: path.to_owned(), kind: Kind::Directory });
        }
        self.ops.push(Op::Private { path: path.to_owned(), rule });
        self.regions.insert(path, Region::Private);
    }

    fn show(&mut self, path: &Path, kind: Kind, view: View, rule: usize) {
        if self.around(path).is_ours() {
            self.ops.push(Op::Stub { path: path.to_owned(), kind });
        }
        self.ops.push(Op::Bind { path: path.to_owned(), view, rule });
    }

    fn finish(mut self, cwd: &Path, wanted: &[PathBuf]) -> Result<Layout, Error> {
        let root = if self.regions.at(Path::new("/")) == Some(Region::Frame) { Root::Empty } else { Root::Host };
        self.system_directories(root);
        self.links();
        self.wanted(wanted);
        // Stable: at one place the mount point is made before anything is mounted there.
        self.ops.sort_by(|a, b| a.path().as_os_str().cmp(b.path().as_os_str()));
        self.check_cwd(cwd)?;
        Ok(Layout {
            root,
            ops: self.ops,
            guarded: self.guarded,
            hidden: self.hidden,
            absent: self.absent,
            job_tmp: self.job_at,
            notes: self.notes,
        })
    }

    /// `/dev`, the mount points of an empty root, and what ssh needs.
    fn system_directories(&mut self, root: Root) {
        if root == Root::Empty {
            for path in ["/dev", "/proc"] {
                self.ops.push(Op::Stub { path: path.into(), kind: Kind::Directory });
            }
        }
        if self.within(Path::new("/dev")) == Region::Frame {
            self.ops.push(Op::Dev { console: self.facts.terminal.clone(), preload: false });
        }
        let config = Path::new("/etc/ssh/ssh_config.d");
        let one_user = !self.facts.caller.can_map && self.facts.caller.uid != 0;
        if one_user
            && !self.facts.ssh_config.is_empty()
            && matches!(self.within(config), Region::Host | Region::Overlay)
        {
            self.ops.push(Op::Copy { path: config.to_owned(), files: self.facts.ssh_config.clone() });
        }
    }

    /// Links on the way of a rule appear where their place is shown by nothing else.
    fn links(&mut self) {
        let mut seen = BTreeSet::new();
        for link in self.facts.places.iter().flatten().flat_map(|place| &place.links) {
            if self.around(&link.at).is_ours() && self.regions.at(&link.at).is_none() && seen.insert(&link.at) {
                self.ops.push(Op::Link { path: link.at.clone(), target: link.target.clone() });
            }
        }
    }

    /// Directories that inherited variables name: below a private directory they must be made.
    fn wanted(&mut self, wanted: &[PathBuf]) {
        for path in wanted {
            if self.within(path) == Region::Private && self.regions.at(path).is_none() {
                self.ops.push(Op::Stub { path: path.clone(), kind: Kind::Directory });
            }
        }
    }

    fn check_cwd(&self, cwd: &Path) -> Result<(), Error> {
        let made = || self.ops.iter().any(|op| matches!(op, Op::Stub { .. }) && op.path().starts_with(cwd));
        let visible = match self.within(cwd) {
            Region::Host | Region::Writable | Region::Overlay => true,
            Region::Private | Region::Frame => self.regions.at(cwd).is_some() || made(),
            Region::Hidden => false,
        };
        if visible { Ok(()) } else { Err(Error::HiddenCwd(cwd.to_owned())) }
    }
}

/// The hidden directories below which some rule still shows something.
fn frames<'a>(items: &[Item<'a>]) -> HashSet<&'a OsStr> {
    let hidden: HashSet<&OsStr> =
        items.iter().filter(|item| item.rule.access == Access::Hide).map(|item| item.path.as_os_str()).collect();
    let shown = |item: &&Item<'a>| {
        item.rule.access != Access::Hide && (item.kind.is_some() || item.rule.access == Access::Private)
    };
    // The nearest hidden directory above a shown item becomes a frame, and so does every one above that.
    items
        .iter()
        .filter(shown)
        .flat_map(|item| with_ancestors(item.path).skip(1).filter(|dir| hidden.contains(dir)))
        .collect()
}

/// Device nodes work only where a rule names them below `/dev`.
fn view(path: &Path) -> View {
    if path.starts_with("/dev") { View::Device } else { View::Write }
}

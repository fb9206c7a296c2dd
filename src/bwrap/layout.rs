//! From options to steps, and to the names that are guarded. Pure but for the questions to [`Host`].
//!
//! Nothing is ever made on the host. Where bubblewrap would make a mount point there to deny a name (a read-only
//! `/dev/null`, an empty file, directory or sealed tmpfs over it), nothing is mounted at all: the directory around it is
//! shown read-only and the broker performs what the other names permit. The name itself is then absent, as on the host.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::host::{Host, Look};
use super::options::{Access, From, Op, Upper, What};
use super::tree::{Denied, Found, Owner, Region, Tree, below};
use super::{Failure, PrivateTmp, reason};
use crate::plan::View;
use crate::plan::ordered::{self, Guard, Place, Source, Step};
use crate::policy::{self, Rule, Rules};

type Done<T> = Result<T, Failure>;

/// A mount costs some microseconds at the start.
const MOST_FREE: usize = 256;

/// What is to be done.
pub(super) struct Layout {
    pub(super) steps: Vec<Step>,
    pub(super) guard: Option<Guard>,
}

/// Lay out the whole tree.
pub(super) fn lay_out(ops: &[Op], tmp: Option<&PrivateTmp>, host: &dyn Host) -> Done<Layout> {
    let mut builder = Builder { host, tree: Tree::new(host), steps: Vec::new(), settled: Vec::new() };
    for (index, op) in ops.iter().enumerate() {
        if !builder.settled.contains(&index) {
            builder.carry_out(ops, index, op)?;
            tmp.map_or(Ok(()), |tmp| builder.cover_tmp(tmp))?;
        }
    }
    links::deny(&mut builder.tree, host)?;
    let guard = builder.guard();
    Ok(Layout { steps: builder.steps, guard })
}

struct Builder<'a> {
    host: &'a dyn Host,
    tree: Tree<'a>,
    steps: Vec<Step>,
    /// Options that an earlier one has taken care of, by index.
    settled: Vec<usize>,
}

/// What something is mounted upon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

impl Builder<'_> {
    fn carry_out(&mut self, ops: &[Op], index: usize, op: &Op) -> Done<()> {
        let last = !matches!(op.what, What::Symlink { .. });
        let Some(found) = self.tree.find(&op.to, last) else {
            return Err(Failure::new(format!("Can't mkdir parents for {}: {LOOP}", op.to.display())));
        };
        match &op.what {
            What::Bind { source, access, optional } => self.bind(op, &found, source, *access, *optional),
            What::Tmpfs { size } => self.tmpfs(ops, index, op, &found, *size),
            What::Proc => self.special(op, &found, Owner::Foreign { ours: false }, |to| Step::Proc { to }),
            What::Mqueue => self.special(op, &found, Owner::Foreign { ours: false }, |to| Step::MessageQueues { to }),
            What::Dev => self.dev(op, &found),
            What::Dir => self.dir(op, &found),
            What::File { fd } => self.file(op, &found, *fd),
            What::Data { fd, writable } => self.data(op, &found, *fd, *writable),
            What::Symlink { target } => self.symlink(op, &found, target),
            What::Chmod { mode } => self.chmod(op, &found, *mode),
            What::RemountRo => {
                self.remount(op, &found);
                Ok(())
            }
            What::Overlay { lower, upper } => self.overlay(op, &found, lower, upper),
        }
    }

    fn bind(&mut self, op: &Op, found: &Found, from: &From, access: Access, optional: bool) -> Done<()> {
        let Some(source) = self.source(from, optional)? else { return Ok(()) };
        let kind = if source.is_dir { Kind::Directory } else { Kind::File };
        let onto_itself = self.tree.host_name(&found.path).as_deref() == Some(&*source.real);
        let read = access == Access::Read;
        if self.is_denial_of_nothing(found) {
            if read && self.host.shows_nothing(&source.real) {
                self.deny_absent(op, found);
                return Ok(());
            }
            return Err(cannot_make(op, found, kind));
        }
        check_kind(op, found, kind)?;
        let own = self.tree.region(&found.path).at == found.path;
        let outer = self.tree.outer(&found.path).owner.clone();
        if read && onto_itself && !own && matches!(outer, Owner::Read(_)) {
            return Ok(());
        }
        let owner = if read { Owner::Read(source.real.clone()) } else { Owner::Write(source.real.clone()) };
        // Read-only already, once the region around it is guarded: a mount could be lost with its place.
        let needless = read && onto_itself && !own && matches!(outer, Owner::Write(_));
        let (is_dir, view) = (source.is_dir, view(access));
        let to = self.place(op, found);
        let step = (!needless).then_some(Step::Bind { source, to, view, served: false });
        self.mount(op, found, owner, is_dir, step);
        if read || !onto_itself {
            self.deny(op, found, read);
        }
        Ok(())
    }

    /// Wherever the host's `/tmp` is seen by its own name, the session's is.
    fn cover_tmp(&mut self, tmp: &PrivateTmp) -> Done<()> {
        let path = Path::new("/tmp");
        let shown = match &self.tree.region(path) {
            Region { at, owner: Owner::Read(source) | Owner::Write(source), .. } => {
                path.strip_prefix(at).is_ok_and(|rest| below(source, rest) == path)
            }
            _ => false,
        };
        if !shown {
            return Ok(());
        }
        let what = What::Tmpfs { size: None };
        let op = Op { option: tmp.option.clone(), what, to: path.into(), perms: None };
        let Some(found) = self.tree.find(path, true) else {
            return Err(Failure::new(format!("Can't mkdir parents for /tmp: {LOOP}")));
        };
        check_kind(&op, &found, Kind::Directory)?;
        let step = Step::Private { host: tmp.host.clone(), to: self.place(&op, &found) };
        self.mount(&op, &found, Owner::Ours, true, Some(step));
        self.deny(&op, &found, false);
        Ok(())
    }

    fn source(&self, from: &From, optional: bool) -> Done<Option<Source>> {
        let (written, descriptor) = match from {
            From::Path(path) => (path.clone(), None),
            From::Descriptor(fd) => {
                let missing = |error| Failure::new(format!("Can't get fd {fd}: {}", reason(&error)));
                (self.host.descriptor(*fd).map_err(missing)?, Some(*fd))
            }
        };
        let real = match self.host.real(&written) {
            Err(error) if optional && error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let text = format!("Can't find source path {}: {}", written.display(), reason(&error));
                return Err(Failure::new(text));
            }
            Ok(real) => real,
        };
        let is_dir = self.host.look(&real) == Look::Directory;
        Ok(Some(Source { written, real, descriptor, is_dir }))
    }

    fn tmpfs(&mut self, ops: &[Op], index: usize, op: &Op, found: &Found, size: Option<u64>) -> Done<()> {
        if self.is_denial_of_nothing(found) {
            let Some(seal) = sealed_by(ops, index) else { return Err(cannot_make(op, found, Kind::Directory)) };
            self.settled.push(seal);
            self.deny_absent(op, found);
            return Ok(());
        }
        check_kind(op, found, Kind::Directory)?;
        let to = self.place(op, found);
        let step = Step::Tmpfs { to, mode: perms(op), size };
        // With all of the host writable, the usual tmpfs on /tmp is no reason to guard every name of the host.
        let guards = self.tree.outer(&found.path).at != Path::new("/");
        self.mount(op, found, Owner::Ours, true, Some(step));
        self.deny(op, found, guards);
        Ok(())
    }

    /// Something that needs a directory and is no denial.
    fn special(&mut self, op: &Op, found: &Found, owner: Owner, step: impl FnOnce(Place) -> Step) -> Done<()> {
        if self.is_denial_of_nothing(found) {
            return Err(cannot_make(op, found, Kind::Directory));
        }
        check_kind(op, found, Kind::Directory)?;
        let to = self.place(op, found);
        self.mount(op, found, owner, true, Some(step(to)));
        self.deny(op, found, false);
        Ok(())
    }

    fn dev(&mut self, op: &Op, found: &Found) -> Done<()> {
        self.special(op, found, Owner::Ours, |to| Step::Dev { to })?;
        for (name, target) in crate::launch::DEVICE_LINKS {
            self.tree.make(&found.path.join(name), Look::Link(target.into()));
        }
        Ok(())
    }

    fn dir(&mut self, op: &Op, found: &Found) -> Done<()> {
        if self.is_denial_of_nothing(found) {
            return Err(cannot_make(op, found, Kind::Directory));
        }
        check_kind(op, found, Kind::Directory)?;
        if self.is_hosts(&found.path) {
            return Ok(());
        }
        let to = self.place(op, found);
        self.tree.make(&found.path, Look::Directory);
        self.steps.push(Step::Directory { to, mode: perms(op) });
        Ok(())
    }

    fn file(&mut self, op: &Op, found: &Found, fd: i32) -> Done<()> {
        if self.is_hosts(&found.path) {
            let text = format!("Can't create file {}: {READ_ONLY}", op.to.display());
            return Err(Failure::new(if found.lost { parents(op) } else { text }));
        }
        let to = self.place(op, found);
        self.tree.make(&found.path, Look::File);
        self.steps.push(Step::File { fd, to, mode: perms(op) });
        Ok(())
    }

    fn data(&mut self, op: &Op, found: &Found, fd: i32, writable: bool) -> Done<()> {
        if self.is_denial_of_nothing(found) {
            if !writable && self.host.gives_nothing(fd) {
                self.deny_absent(op, found);
                return Ok(());
            }
            return Err(cannot_make(op, found, Kind::File));
        }
        check_kind(op, found, Kind::File)?;
        let view = if writable { View::Write } else { View::Read };
        let to = self.place(op, found);
        let step = Step::Data { fd, to, mode: perms(op), view };
        self.mount(op, found, Owner::Ours, false, Some(step));
        self.deny(op, found, !writable);
        Ok(())
    }

    fn symlink(&mut self, op: &Op, found: &Found, target: &Path) -> Done<()> {
        let failed = |why: &str| Err(Failure::new(format!("Can't make symlink at {}: {why}", op.to.display())));
        match &found.look {
            Look::Link(there) if there == target => return Ok(()),
            Look::Link(there) => return failed(&format!("existing destination is {}", there.display())),
            Look::Directory | Look::File => return failed("destination exists and is not a symlink"),
            Look::Absent | Look::Unknown => {}
        }
        if self.is_denial_of_nothing(found) {
            return if found.lost { Err(Failure::new(parents(op))) } else { failed(READ_ONLY) };
        }
        let to = self.place(op, found);
        self.tree.make(&found.path, Look::Link(target.to_owned()));
        self.steps.push(Step::Symlink { target: target.to_owned(), to });
        Ok(())
    }

    fn chmod(&mut self, op: &Op, found: &Found, mode: u32) -> Done<()> {
        let own = self.tree.region(&found.path);
        if self.is_hosts(&found.path) || matches!(own.owner, Owner::Read(_) | Owner::Write(_)) {
            return Err(Failure::new(
                format!("Can't chmod {mode:#o} {}: {READ_ONLY}", op.to.display()).replace("0o", "0"),
            ));
        }
        let to = self.place(op, found);
        self.steps.push(Step::Chmod { to, mode });
        Ok(())
    }

    fn remount(&mut self, op: &Op, found: &Found) {
        let to = self.place(op, found);
        // What is read-only because it is guarded has no mount of its own.
        let region = self.tree.regions.iter_mut().find(|region| region.at == found.path);
        match region {
            Some(Region { step: None, owner: Owner::Read(_), .. }) => return,
            Some(Region { owner, .. }) => {
                if let Owner::Write(source) = owner {
                    *owner = Owner::Read(source.clone());
                }
            }
            None => {}
        }
        self.deny(op, found, true);
        self.steps.push(Step::ReadOnly { to });
    }

    fn overlay(&mut self, op: &Op, found: &Found, lower: &[PathBuf], upper: &Upper) -> Done<()> {
        let source = |path: &PathBuf| {
            let found = self.source(&From::Path(path.clone()), false)?;
            found.ok_or_else(|| Failure::new(format!("Can't find source path {}", path.display())))
        };
        let lower = lower.iter().map(source).collect::<Done<Vec<_>>>()?;
        let upper = match upper {
            Upper::Nothing => ordered::Upper::Nothing,
            Upper::Memory => ordered::Upper::Memory,
            Upper::Host { upper, work } => ordered::Upper::Host { upper: source(upper)?, work: source(work)? },
        };
        let owner = Owner::Foreign { ours: upper == ordered::Upper::Memory };
        self.special(op, found, owner, |to| Step::Overlay { lower, upper, to })
    }

    /// Would a mount point have to be made on the host?
    fn is_denial_of_nothing(&self, found: &Found) -> bool {
        let absent = found.look == Look::Absent;
        absent && self.is_hosts(&found.path)
    }

    fn is_hosts(&self, path: &Path) -> bool {
        match &self.tree.outer(path).owner {
            Owner::Read(_) | Owner::Write(_) => true,
            Owner::Foreign { ours } => !ours,
            Owner::Ours => false,
        }
    }

    /// Deny a name that the host has not. In something read-only it is denied already.
    fn deny_absent(&mut self, op: &Op, found: &Found) {
        self.deny(op, found, true);
    }

    /// Deny the name and the links that led to it: else another could take their place.
    fn deny(&mut self, op: &Op, found: &Found, guards: bool) {
        for path in found.links.iter().chain([&found.path]) {
            self.tree.deny(path, &op.option, guards);
        }
    }

    fn mount(&mut self, op: &Op, found: &Found, owner: Owner, is_dir: bool, step: Option<Step>) {
        let index = step.is_some().then_some(self.steps.len());
        self.steps.extend(step);
        let (at, option) = (found.path.clone(), op.option.clone());
        self.tree.mount(Region { at, owner, is_dir, step: index, option });
    }

    fn place(&self, op: &Op, found: &Found) -> Place {
        let follow = matches!(self.tree.outer(&found.path).owner, Owner::Foreign { .. });
        let parents = parents_mode(perms(op));
        Place { written: op.to.clone(), real: found.path.clone(), follow, parents }
    }

    /// The writable regions in which a name is denied are guarded, and so is every other that shows the same name.
    fn guard(&mut self) -> Option<Guard> {
        let mut rules = vec![Rule::of_option("/".into(), policy::Access::Read, "not bound writable".into())];
        let mut parts = Vec::new();
        let mut opened = Vec::new();
        for region in &self.tree.regions {
            let source = match &region.owner {
                Owner::Write(source) if denies(&self.tree.denied, source) => source,
                _ => {
                    parts.push((region.at.clone(), None));
                    continue;
                }
            };
            for denied in &self.tree.denied {
                if let Some(rest) = strictly_below(&denied.host, source) {
                    let path = below(&region.at, rest);
                    rules.push(Rule::of_option(path, policy::Access::Read, denied.option.clone()));
                }
            }
            if let Some(Step::Bind { served, .. }) = region.step.map(|index| &mut self.steps[index]) {
                *served = true;
            }
            parts.push((region.at.clone(), Some(source.clone())));
            opened.push(Rule::of_option(region.at.clone(), policy::Access::Write, region.option.clone()));
        }
        if opened.is_empty() {
            return None;
        }
        // What is mounted in a guarded region keeps its name.
        let lies_in = |region: &&Region, opened: &Rule| match &opened.target {
            policy::Target::Path(dir) => strictly_below(&region.at, dir).is_some(),
            policy::Target::Pattern(_) => false,
        };
        let held = self.tree.regions.iter().filter(|region| opened.iter().any(|rule| lies_in(region, rule)));
        let held = held.filter(|region| !opened.iter().any(|rule| rule.target == target(&region.at)));
        rules
            .extend(held.map(|region| Rule::of_option(region.at.clone(), policy::Access::Read, region.option.clone())));
        rules.extend(opened);
        let rules = Rules::in_order(rules);
        let mut free = Vec::new();
        for (inside, host) in &parts {
            if let Some(host) = host {
                self.open_up(&rules, inside, host, &mut free);
            }
        }
        Some(Guard { rules: Arc::new(rules), regions: parts, free })
    }

    /// Find the directories in which nothing is guarded, at most [`MOST_FREE`]; what has none is served, only slower.
    fn open_up(&self, rules: &Rules, inside: &Path, host: &Path, free: &mut Vec<PathBuf>) {
        for name in self.host.directories(host) {
            let (inside, host) = (inside.join(&name), host.join(&name));
            if free.len() == MOST_FREE {
                return;
            } else if rules.is_free(&inside) {
                free.push(inside);
            } else if rules.judge(&inside).access == policy::Access::Write {
                self.open_up(rules, &inside, &host, free);
            }
        }
    }
}

fn target(path: &Path) -> policy::Target {
    policy::Target::Path(path.to_owned())
}

/// Is some name below this directory of the host denied?
fn denies(denied: &[Denied], source: &Path) -> bool {
    denied.iter().any(|denied| denied.guards && strictly_below(&denied.host, source).is_some())
}

fn strictly_below<'a>(path: &'a Path, dir: &Path) -> Option<&'a Path> {
    path.strip_prefix(dir).ok().filter(|rest| *rest != Path::new(""))
}

/// The option that makes a tmpfs read-only before anything is put into it.
fn sealed_by(ops: &[Op], index: usize) -> Option<usize> {
    let place = &ops[index].to;
    let next = ops.iter().enumerate().skip(index + 1).find(|(_, op)| op.to.starts_with(place))?;
    (next.1.what == What::RemountRo && next.1.to == *place).then_some(next.0)
}

fn view(access: Access) -> View {
    match access {
        Access::Read => View::Read,
        Access::Write => View::Write,
        Access::Device => View::Device,
    }
}

fn check_kind(op: &Op, found: &Found, kind: Kind) -> Done<()> {
    let text = match (&found.look, kind) {
        _ if found.lost && found.look == Look::File => return Err(Failure::new(parents(op))),
        (Look::File, Kind::Directory) => format!("Can't mkdir {}: Not a directory", op.to.display()),
        (Look::Directory, Kind::File) => format!("Can't create file at {}: Is a directory", op.to.display()),
        _ => return Ok(()),
    };
    Err(Failure::new(text))
}

/// A mount point that cannot be made, in bubblewrap's words for a directory that is read-only.
fn cannot_make(op: &Op, found: &Found, kind: Kind) -> Failure {
    let place = op.to.display();
    Failure::new(match kind {
        _ if found.lost => parents(op),
        Kind::Directory => format!("Can't mkdir {place}: {READ_ONLY}"),
        Kind::File => format!("Can't create file at {place}: {READ_ONLY}"),
    })
}

/// `--perms`, or what the option has without it; nothing for options that it is not for.
fn perms(op: &Op) -> u32 {
    op.perms.unwrap_or(match op.what {
        What::Tmpfs { .. } | What::Dir => 0o755,
        What::File { .. } => 0o666,
        What::Data { .. } => 0o600,
        _ => 0,
    })
}

/// Who may not see a file may not see the directories that are made for it.
fn parents_mode(perms: u32) -> u32 {
    let denied = |class: u32, bits: u32| if perms & class == 0 { bits } else { 0 };
    0o755 & !denied(0o070, 0o050) & !denied(0o007, 0o005)
}

fn parents(op: &Op) -> String {
    format!("Can't mkdir parents for {}: {READ_ONLY}", op.to.display())
}

const READ_ONLY: &str = "Read-only file system";
const LOOP: &str = "Too many levels of symbolic links";

mod links;
#[cfg(test)]
mod tests;

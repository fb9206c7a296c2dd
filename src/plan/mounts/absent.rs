//! Private directories that the host has not, or that lie where the command may not go.
//!
//! A mount needs a directory to be mounted upon, and nothing is made on the host. So the last directory on the way is
//! covered by one of ours that holds the mount point, and a link to everything else that it holds.

use std::path::{Path, PathBuf};

use super::super::Error;
use super::super::build::literal;
use super::super::environment::MOVED_JOBS;
use super::super::error::Problem;
use super::{Access, Builder, Item, Kind, Op, Region, built_in};

impl<'a> Builder<'a> {
    /// Is this the rule for the temporary directory that `$CLAUDE_JOB_DIR` promises?
    pub(super) fn is_job_tmp(&self, item: &Item<'a>) -> bool {
        self.job_tmp.as_deref() == Some(literal(item.rule))
    }

    pub(super) fn private_elsewhere(&mut self, item: &Item<'a>) -> Result<(), Error> {
        let is_job = self.is_job_tmp(item);
        if !is_job && (item.rule.optional || built_in(item.rule)) {
            return Ok(());
        }
        match self.cover(item) {
            Ok(()) if is_job => self.job_at = Some(item.path.to_owned()),
            Ok(()) => {}
            Err(_) if is_job => self.job_to_move = Some(*item),
            Err(problem) => return Err(Error::of(item.rule, problem)),
        }
        Ok(())
    }

    /// Cover the last directory on the way, if nothing else is to be seen or done below it than reading.
    fn cover(&mut self, item: &Item<'a>) -> Result<(), Problem> {
        let Some(anchor) = self.facts.anchors.get(&item.index) else { return Err(Problem::Absent) };
        let dir = anchor.path.as_path();
        if item.kind == Some(Kind::File) || dir == Path::new("/") {
            return Err(Problem::Absent);
        }
        if let Some(other) = self.in_the_way(dir) {
            return Err(Problem::Crowded { dir: dir.to_owned(), other });
        }
        let of = anchor.readable.then(|| dir.to_owned());
        self.ops.push(Op::Mirror { path: dir.to_owned(), of, rule: item.index });
        self.regions.insert(dir, Region::Frame);
        self.show_private(item.path, item.index);
        Ok(())
    }

    /// What keeps a directory from being covered: a place in it that must stay as it is.
    fn in_the_way(&self, dir: &Path) -> Option<PathBuf> {
        let writable = self.within(dir) != Region::Host || self.facts.names.judge(dir).access != Access::Read;
        if writable {
            return Some(dir.to_owned());
        }
        let below = |path: &Path| path.starts_with(dir) && path != dir;
        // Other private directories that end at the same place are added with this one.
        let added = |index: usize| self.facts.anchors.get(&index).is_some_and(|anchor| anchor.path == dir);
        let other = self.ruled.iter().find(|(path, index)| below(path) && !added(*index)).map(|(path, _)| *path);
        other.or_else(|| Some(self.cwd).filter(|cwd| below(cwd))).map(Path::to_owned)
    }

    /// Let the variable name a private place that stands in for the job's directory.
    pub(super) fn move_job(&mut self, item: &Item<'a>) {
        let tmp = literal(item.rule);
        let dir = tmp.parent().unwrap_or(tmp);
        let place = Path::new(MOVED_JOBS).join(dir.strip_prefix("/").unwrap_or(dir));
        if self.within(&place) != Region::Private {
            self.notes.push(format!(
                "{} cannot be made private where it is, and /tmp is not private either: CLAUDE_JOB_DIR stays as it is",
                tmp.display()
            ));
            return;
        }
        let anchor = self.facts.anchors.get(&item.index).filter(|anchor| anchor.readable && anchor.path == dir);
        let of = anchor.map(|anchor| anchor.path.clone());
        self.ops.push(Op::Stub { path: place.clone(), kind: Kind::Directory });
        self.ops.push(Op::Mirror { path: place.clone(), of, rule: item.index });
        self.regions.insert(&place, Region::Frame);
        self.show_private(&place.join("tmp"), item.index);
        self.notes.push(format!(
            "CLAUDE_JOB_DIR is {} inside: {} does not exist on the host and cannot be added where it would lie",
            place.display(),
            tmp.display()
        ));
        self.job_at = Some(place.join("tmp"));
    }
}

//! The layers on disk of one run: made before it, put where they belong after it.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::output;
use crate::overlay::{self, Kept, Layers, Stack};
use crate::plan::{Op, Plan, Upper};
use crate::session::{Lease, RunRecord, Store};

/// What is on disk of the overlays of a run.
#[derive(Default)]
pub(super) struct OnDisk {
    layers: Vec<Layers>,
    /// The session's layers over a directory, and where the run's own is.
    stacks: Vec<(Stack, PathBuf)>,
    kept: Option<Kept>,
}

impl OnDisk {
    /// Make what the plan's overlays need.
    pub(super) fn prepare(plan: &Plan, store: &Store, lease: &Lease, record: &RunRecord) -> Result<Self, Error> {
        let mut on_disk = Self::default();
        let mut kept: Option<(&str, Vec<PathBuf>)> = None;
        for op in &plan.mounts {
            let Op::Overlay { path, upper, .. } = op else { continue };
            match upper {
                Upper::Memory { .. } => {}
                Upper::Disk => on_disk.add(path.clone(), record, None)?,
                Upper::Session => on_disk.add(path.clone(), record, Some(Stack::open(&lease.path(), path)?))?,
                Upper::Kept { name } => kept.get_or_insert((name, Vec::new())).1.push(path.clone()),
            }
        }
        if let Some((name, paths)) = kept.or(plan.request.keep.as_deref().map(|name| (name, Vec::new()))) {
            let words: Vec<_> = plan.request.argv.iter().map(|word| word.to_string_lossy()).collect();
            let kept = Kept::create(&store.path().join(KEPT), name, &words.join(" "), &paths)?;
            on_disk.layers.extend(kept.layers()?);
            on_disk.kept = Some(kept);
        }
        Ok(on_disk)
    }

    fn add(&mut self, path: PathBuf, record: &RunRecord, stack: Option<Stack>) -> Result<(), Error> {
        let (_, run) = record.dir()?;
        let dir = overlay::fresh(&run, self.layers.len())?;
        let (lower, leases) = stack.as_ref().map(Stack::lower).transpose()?.unwrap_or_default();
        self.stacks.extend(stack.map(|stack| (stack, dir.join("upper"))));
        self.layers.push(Layers { path, dir, lower, leases });
        Ok(())
    }

    pub(super) fn layers(&self) -> &[Layers] {
        &self.layers
    }

    /// After the last process of the run is gone. Gives the name under which its writes are kept; nothing is kept of a
    /// command that was never `started`.
    pub(super) fn finish(self, store: &Store, started: bool) -> Option<String> {
        // The locks on the session's layers: from here on they may be merged.
        drop(self.layers);
        for (stack, upper) in &self.stacks {
            // The command has ended, with a status of its own: what fails from here on must not hide that.
            if let Err(error) = push(store, stack, upper) {
                output::warn(&error);
            }
        }
        let kept = self.kept?;
        let settled = if started { kept.settle().map_err(Error::from) } else { remove(store, kept.name()) };
        if let Err(error) = settled {
            output::warn(&error);
        }
        started.then(|| kept.name().to_owned())
    }
}

fn push(store: &Store, stack: &Stack, upper: &Path) -> Result<(), Error> {
    // A run that failed to start has left none.
    if !upper.is_dir() {
        return Ok(());
    }
    for (unused, lock) in stack.push(upper)? {
        store.remove(&unused)?.into_iter().for_each(output::note);
        drop(lock);
    }
    Ok(())
}

/// Remove what is kept; the caller has its lock.
pub(super) fn remove(store: &Store, name: &str) -> Result<(), Error> {
    store.remove(&store.path().join(KEPT).join(name))?.into_iter().for_each(output::note);
    Ok(())
}

/// The part of the state directory that holds what is kept.
pub(super) const KEPT: &str = "kept";

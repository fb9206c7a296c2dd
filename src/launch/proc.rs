//! `/proc` of the run's own pid namespace.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::mounts::{Done, mask, masks};
use super::{Failure, Step};
use crate::plan::Kind;
use crate::sys::fs;
use crate::sys::mount::{self, Attributes, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::{self, Errno};

/// A new procfs on `/proc`. Where user 0 exists inside, it gives what [`restrict`] needs.
pub(super) fn show() -> Done<Option<OwnedFd>> {
    let failed = |error: sys::Error| Failure::of(Step::MountProc, &error);
    let place = fs::open_place(Path::new("/proc")).map_err(failed)?;
    let root = crate::sys::process::user().0 == 0;
    let masks = if root { Some(masks(&place)?) } else { None };
    let proc = mount::new_filesystem("proc", &[], NOSUID | NODEV | NOEXEC).map_err(failed)?;
    mount::attach(&proc, &place).map_err(failed)?;
    Ok(masks)
}

/// What root may write even without any capability (`core_pattern` is host root) becomes read-only, memory and keys are
/// masked.
pub(super) fn restrict(masks: &OwnedFd) -> Done<()> {
    restrict_all(masks).map_err(|error| Failure::of(Step::MountProc, &error))
}

fn restrict_all(masks: &OwnedFd) -> sys::Result<()> {
    for name in ["sys", "irq", "bus", "fs", "acpi", "scsi", "sysrq-trigger"] {
        let Some(place) = open_in_proc(name)? else { continue };
        let tree = mount::clone_tree(&place, Path::new(""))?;
        let set = RDONLY | NOSUID | NODEV | NOEXEC;
        mount::set_attributes(&tree, Path::new(""), true, Attributes { set, ..Attributes::default() })?;
        mount::attach(&tree, &place)?;
    }
    for name in ["kcore", "keys"] {
        let Some(place) = open_in_proc(name)? else { continue };
        mount::attach(mask(masks, Kind::File)?, &place)?;
    }
    Ok(())
}

/// A place in `/proc`; `None` where this kernel has it not.
fn open_in_proc(name: &str) -> sys::Result<Option<OwnedFd>> {
    match fs::open_place(&Path::new("/proc").join(name)) {
        Err(error) if error.is(Errno::NOENT) => Ok(None),
        opened => opened.map(Some),
    }
}

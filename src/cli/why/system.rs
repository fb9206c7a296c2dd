//! What can be done in the directories that a run has of its own making.

use std::path::Path;

use super::question::Act;
use crate::launch::DEVICES;

/// What of `/proc` is read-only even for root.
const PROC_READ_ONLY: [&str; 7] = ["sys", "irq", "bus", "fs", "acpi", "scsi", "sysrq-trigger"];
/// What of `/dev` can be used besides devices and what is below `pts` and `shm`: links to descriptors, and to `pts`.
const DEVICE_LINKS: [&str; 5] = ["stdin", "stdout", "stderr", "ptmx", "console"];

/// Can it be done in the minimal `/dev`?
pub(super) fn device(path: &Path, act: Act) -> bool {
    let Ok(rest) = path.strip_prefix("/dev") else { return false };
    if rest.starts_with("shm") {
        return !(act.changes_name() && rest == Path::new("shm"));
    }
    let known = |name: &&str| rest == Path::new(*name);
    let usable = rest.starts_with("pts")
        || rest.starts_with("fd")
        || DEVICES.iter().any(known)
        || DEVICE_LINKS.iter().any(known);
    match act {
        Act::Read => usable || rest == Path::new(""),
        Act::Write => usable && !known(&"pts") && !known(&"fd"),
        Act::Create | Act::RenameTo => false,
    }
}

/// Can it be done in a `/proc` of the run's own?
pub(super) fn proc(path: &Path, act: Act) -> bool {
    match act {
        Act::Read => !["kcore", "keys"].iter().any(|name| path == Path::new("/proc").join(name)),
        Act::Write => !PROC_READ_ONLY.iter().any(|name| path.starts_with(Path::new("/proc").join(name))),
        Act::Create | Act::RenameTo => false,
    }
}

//! Overlays, in memory and on the state directory's disk.

use super::check::Check;
use super::place::Place;
use super::state::with_session;
use crate::probe::trial::{self, Attempt};
use crate::probe::{Errno, host};

const NAME: &str = "overlays";
const IN_MEMORY: &str = "made one over /usr in memory, in a user namespace";
const ON_DISK: &str = "made one over /usr with its layer in the state directory, in a user namespace";

pub(super) fn check(place: &Place) -> Vec<Check> {
    let memory = place.evidence.tried.iter().find(|tried| tried.attempt == Attempt::MemoryOverlay);
    // Where not even that could be tried, what stands in its way has been told.
    let Some(memory) = memory else { return Vec::new() };
    vec![
        judge(IN_MEMORY, "overlays in memory", memory.refused()),
        match with_session(|_, lease| {
            let (_, dir) = lease.private("/doctor".as_ref())?;
            Ok(trial::overlay_on_disk(&dir))
        }) {
            Ok(Ok(answer)) => judge(ON_DISK, "overlays on disk", answer.err()),
            Ok(Err(error)) => Check::failure(NAME, ON_DISK, error.to_string()),
            // The check of the state directory says it as a failure.
            Err(error) => Check::warning(NAME, ON_DISK, format!("overlays on disk could not be tried: {error}")),
        },
    ]
}

fn judge(tried: &'static str, what: &str, refused: Option<Errno>) -> Check {
    let Some(errno) = refused else { return Check::ok(NAME, tried, format!("{what} work")) };
    let on = host::filesystem(trial::LOWER.as_ref()).unwrap_or_else(|| "an unknown file system".into());
    let cure = match errno {
        Errno::NODEV => "load the kernel's module: modprobe overlay (as root)".to_owned(),
        Errno::PERM => "use Linux 5.11 or later".to_owned(),
        Errno::INVAL | Errno::OPNOTSUPP => {
            format!(
                "use overlay rules for directories on other file systems only (/usr is on {on}), or STOCKADE_STATE on another"
            )
        }
        _ => "see the kernel's log (dmesg)".to_owned(),
    };
    Check::warning(
        NAME,
        tried,
        format!("{what} are refused ({errno}): `overlay` rules, --redirect and --try do not work"),
    )
    .cured_by(cure)
}

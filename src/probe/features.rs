//! What stockade asks of the kernel beyond Linux 4.9: `docs/kernel-features.md` is made of this table, and `doctor` names
//! from it what an old kernel lacks.
//!
//! Versions are those of the man pages; where these are silent, of the kernel's history.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use super::trial::{Attempt, Notified, Tried};
use crate::sys::presence::{self, Call};
use crate::sys::seccomp;

/// Something of the kernel that the code uses.
#[derive(Debug)]
pub struct Feature {
    pub name: &'static str,
    /// The first Linux that has it.
    pub since: (u32, u32),
    /// What it is for.
    pub used_for: &'static str,
    pub without: Without,
    found: Found,
}

/// What happens where it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// No run is possible.
    NoRun,
    /// This is refused, or cannot be done.
    Refused(&'static str),
    /// There is another way, or nothing to be done.
    Fallback(&'static str),
}

/// How one finds out.
#[derive(Debug)]
enum Found {
    Call(Call),
    Flag(fn() -> bool),
    /// By what came of a trial.
    Tried(Attempt),
    /// By what came of a notification.
    Notified(fn(&Notified) -> bool),
    /// Only the version tells.
    Version,
}

/// What the trials gave.
#[derive(Debug, Default)]
pub struct Evidence {
    pub tried: Vec<Tried>,
    pub notified: Option<Notified>,
}

const GUARDED: &str = "rules that are stricter than a writable place around them";
const ROOT: &str = "mounts are descriptors until they are attached, each to the very directory that was meant";

/// Everything, oldest first.
pub const FEATURES: &[Feature] = &[
    Feature {
        name: "seccomp user notification",
        since: (5, 0),
        used_for: "names that cannot be written inside of a writable place",
        without: Without::Refused(GUARDED),
        found: Found::Flag(seccomp::knows_listener),
    },
    Feature {
        name: "`pidfd_send_signal(2)`",
        since: (5, 1),
        used_for: "signals to jobs and supervisors",
        without: Without::Refused("`job kill`, `job signal`, `session end --kill`"),
        found: Found::Call(Call::PidfdSendSignal),
    },
    Feature {
        name: "`open_tree(2)`",
        since: (5, 2),
        used_for: ROOT,
        without: Without::NoRun,
        found: Found::Call(Call::OpenTree),
    },
    Feature {
        name: "`move_mount(2)`",
        since: (5, 2),
        used_for: ROOT,
        without: Without::NoRun,
        found: Found::Call(Call::MoveMount),
    },
    Feature {
        name: "`fsopen(2)`",
        since: (5, 2),
        used_for: "new file systems: `/dev`, `/run`, `/proc`, masks, overlays",
        without: Without::NoRun,
        found: Found::Call(Call::Fsopen),
    },
    Feature {
        name: "`fsconfig(2)`",
        since: (5, 2),
        used_for: "their options",
        without: Without::NoRun,
        found: Found::Call(Call::Fsconfig),
    },
    Feature {
        name: "`fsmount(2)`",
        since: (5, 2),
        used_for: "their mounts",
        without: Without::NoRun,
        found: Found::Call(Call::Fsmount),
    },
    Feature {
        name: "`pidfd_open(2)`",
        since: (5, 3),
        used_for: "the end of the supervisor, of init and of owners is seen, whatever number is used again",
        without: Without::NoRun,
        found: Found::Call(Call::PidfdOpen),
    },
    Feature {
        name: "`openat2(2)`",
        since: (5, 6),
        used_for: "paths are opened without following links, and without leaving a directory",
        without: Without::NoRun,
        found: Found::Call(Call::Openat2),
    },
    Feature {
        name: "`pidfd_getfd(2)`",
        since: (5, 6),
        used_for: "calls on an open descriptor in a guarded directory (`fchmod`, `bind`, …)",
        without: Without::Refused("these calls fail in guarded directories"),
        found: Found::Call(Call::PidfdGetfd),
    },
    Feature {
        name: "`faccessat2(2)`",
        since: (5, 8),
        used_for: "`access(2)` in a guarded directory is answered by the policy",
        without: Without::Refused("`access(W_OK)` fails in guarded directories"),
        found: Found::Call(Call::Faccessat2),
    },
    Feature {
        name: "`statx(2)` with `STATX_MNT_ID`",
        since: (5, 8),
        used_for: "the broker changes only what lies on a mount that the launch made read-only",
        without: Without::NoRun,
        found: Found::Flag(presence::knows_mount_id),
    },
    Feature {
        name: "whiteouts made by any user (`mknod(2)`)",
        since: (5, 8),
        used_for: "`stockade overlay` and session overlays: layers are merged and copied",
        without: Without::Refused("copying a layer in which something was removed"),
        found: Found::Tried(Attempt::Whiteout),
    },
    Feature {
        name: "`close_range(2)`",
        since: (5, 9),
        used_for: "no descriptor of the caller gets inside",
        without: Without::NoRun,
        found: Found::Call(Call::CloseRange),
    },
    Feature {
        name: "`SECCOMP_IOCTL_NOTIF_ADDFD`",
        since: (5, 9),
        used_for: "the broker hands an opened file over",
        without: Without::Refused(GUARDED),
        found: Found::Notified(|notified| notified.descriptor.is_none()),
    },
    Feature {
        name: "`CLOSE_RANGE_CLOEXEC`",
        since: (5, 11),
        used_for: "the same, for the command",
        without: Without::NoRun,
        found: Found::Flag(presence::knows_close_range_cloexec),
    },
    Feature {
        name: "overlayfs in a user namespace, with `userxattr`",
        since: (5, 11),
        used_for: "`overlay` rules, `--redirect`, `--try`",
        without: Without::Refused("overlays"),
        found: Found::Tried(Attempt::MemoryOverlay),
    },
    Feature {
        name: "`mount_setattr(2)`",
        since: (5, 12),
        used_for: "the host's whole tree becomes read-only in one step",
        without: Without::NoRun,
        found: Found::Call(Call::MountSetattr),
    },
    Feature {
        name: "`RLIMIT_NPROC` counted for each user namespace",
        since: (5, 14),
        used_for: "`--limit pids=N`",
        without: Without::Fallback("all processes of the user count, those outside too"),
        found: Found::Version,
    },
    Feature {
        name: "`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`",
        since: (5, 19),
        used_for: "no call that was carried out is carried out again after a signal",
        without: Without::Refused(GUARDED),
        found: Found::Flag(seccomp::can_notify),
    },
    Feature {
        name: "`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`",
        since: (6, 6),
        used_for: "the broker runs where its caller ran",
        without: Without::Fallback("calls in guarded directories take longer"),
        found: Found::Notified(|notified| notified.wakes),
    },
    Feature {
        name: "`user.*` extended attributes on tmpfs",
        since: (6, 6),
        used_for: "overlays in memory note there which directories hide those below",
        without: Without::Fallback(
            "removing or replacing a directory of the host in such an overlay fails (`EIO`); those on disk are complete",
        ),
        found: Found::Tried(Attempt::UserXattr),
    },
    Feature {
        name: "`PIDFD_THREAD`",
        since: (6, 9),
        used_for: "a descriptor of the very thread that made a call",
        without: Without::Fallback(
            "the descriptor of its process, which is the same unless threads unshared their tables",
        ),
        found: Found::Flag(presence::knows_pidfd_thread),
    },
    Feature {
        name: "`SECCOMP_IOCTL_NOTIF_RECV` ends when nobody is left",
        since: (6, 11),
        used_for: "one system call less for each notification",
        without: Without::Fallback("`poll(2)` before each"),
        found: Found::Version,
    },
    Feature {
        name: "clones of mounts, and layers, that are attached nowhere",
        since: (6, 15),
        used_for: "overlays and masks are put together out of sight",
        without: Without::Fallback("they are attached for a moment where something else is about to be mounted"),
        found: Found::Tried(Attempt::CloneDetached),
    },
    Feature {
        name: "`file_setattr(2)`",
        since: (6, 17),
        used_for: "the broker makes it for a caller in a guarded directory",
        without: Without::Fallback("the caller is told so by its kernel"),
        found: Found::Call(Call::FileSetattr),
    },
];

impl Feature {
    /// Is it missing? `None`: what would show it could not be tried.
    #[must_use]
    pub fn is_missing(&self, evidence: &Evidence, version: (u32, u32)) -> Option<bool> {
        match &self.found {
            Found::Call(call) => Some(!presence::knows(*call)),
            Found::Flag(known) => Some(!known()),
            Found::Tried(attempt) => {
                let tried = evidence.tried.iter().find(|tried| tried.attempt == *attempt)?;
                // Other things refuse it too (a full memory, a security module, a stack of overlays); those are told apart
                // from an old kernel by its version alone.
                Some(tried.refused().is_some() && version < self.since)
            }
            Found::Notified(known) => {
                evidence.notified.filter(|notified| notified.refused.is_none()).map(|notified| !known(&notified))
            }
            Found::Version => Some(version < self.since),
        }
    }
}

/// The least Linux on which a run is possible.
#[must_use]
pub fn least() -> (u32, u32) {
    FEATURES.iter().filter(|feature| feature.without == Without::NoRun).map(|f| f.since).max().unwrap_or_default()
}

/// `docs/kernel-features.md`.
#[must_use]
pub fn document() -> String {
    let (major, minor) = least();
    let mut text = format!(
        "# What stockade needs of the kernel\n\n\
         Made from the table in `src/probe/features.rs`, which `stockade doctor` uses too: it tries each of them that can be\n\
         tried, and names the version of what is missing. User, mount, pid, IPC, UTS and network namespaces are needed\n\
         besides, and `/proc`. By this table runs need Linux {major}.{minor}, and every kind of rule 5.19; tested are 6.1 and later:\n\
         [on which kernels, and what differs](kernels.md).\n\n\
         | feature | Linux | what for | without it |\n|---|---|---|---|\n"
    );
    for Feature { name, since: (major, minor), used_for, without, .. } in FEATURES {
        let without = match without {
            Without::NoRun => "no run is possible".to_owned(),
            Without::Refused(what) => format!("**refused:** {what}"),
            Without::Fallback(what) => (*what).to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {major}.{minor} | {used_for} | {without} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_first_and_each_once() {
        assert!(FEATURES.is_sorted_by_key(|feature| feature.since));
        let names: std::collections::BTreeSet<_> = FEATURES.iter().map(|feature| feature.name).collect();
        assert_eq!(names.len(), FEATURES.len());
        assert_eq!(least(), (5, 12));
    }

    /// `STOCKADE_WRITE_DOCS=1 cargo test the_document` writes it anew.
    #[test]
    fn the_document_is_what_the_table_gives() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kernel-features.md");
        if std::env::var_os("STOCKADE_WRITE_DOCS").is_some_and(|value| value == "1") {
            std::fs::write(path, document()).expect("docs/kernel-features.md");
        }
        let written = std::fs::read_to_string(path).expect("docs/kernel-features.md");
        assert!(written == document(), "run STOCKADE_WRITE_DOCS=1 cargo test the_document");
    }
}

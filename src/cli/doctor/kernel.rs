//! Which kernel, and what it lacks.

use super::check::Check;
use super::place::Place;
use crate::probe::features::{Feature, Without};
use crate::probe::host::{self, Kernel};

const NAME: &str = "kernel";
const TRIED: &str = "made every call, with every flag, that stockade needs and older kernels lack";

pub(super) fn check(place: &Place) -> Vec<Check> {
    let mut checks = vec![kernel(place), proc_mounted()];
    checks.extend(chroot());
    checks.extend(place.broken.iter().map(trial));
    checks
}

fn kernel(place: &Place) -> Check {
    let missing = place.missing();
    let of_kind = |wanted: fn(&Without) -> bool| -> Vec<&Feature> {
        missing.iter().copied().filter(|feature| wanted(&feature.without)).collect()
    };
    let vital = of_kind(|without| *without == Without::NoRun);
    let refused = of_kind(|without| matches!(without, Without::Refused(_)));
    let slower = of_kind(|without| matches!(without, Without::Fallback(_)));
    let release = host::release();
    match host::kernel() {
        Kernel::Wsl1 => wsl1(&release),
        Kernel::Gvisor if !vital.is_empty() => gvisor(&list(&vital)),
        _ if !vital.is_empty() => {
            Check::failure(NAME, TRIED, format!("{release} lacks {}", list(&vital))).cured_by(cure(&vital))
        }
        _ if !refused.is_empty() => {
            Check::warning(NAME, TRIED, format!("{release} lacks {}", list(&refused))).cured_by(cure(&refused))
        }
        kind => {
            let of = if kind == Kernel::Wsl2 { " (WSL 2)" } else { "" };
            let rest =
                if slower.is_empty() { String::new() } else { format!("; there are other ways for {}", list(&slower)) };
            Check::ok(NAME, TRIED, format!("Linux {release}{of} has all that is needed{rest}"))
        }
    }
}

/// What is missing, the version that brought it, and what is refused without it.
fn list(features: &[&Feature]) -> String {
    let named = |feature: &&Feature| {
        let (major, minor) = feature.since;
        let refused = match feature.without {
            Without::Refused(what) => format!("; refused: {what}"),
            _ => String::new(),
        };
        format!("{} (Linux {major}.{minor}{refused})", feature.name)
    };
    features.iter().map(named).collect::<Vec<_>>().join(", ").replace('`', "")
}

/// A kernel that is new enough by its number does not lack anything by itself.
fn cure(missing: &[&Feature]) -> String {
    if host::in_run() {
        return "this is the inside of a stockade run, which refuses these calls: call stockade outside of it".into();
    }
    let version = host::version();
    match missing.iter().map(|feature| feature.since).filter(|since| *since > version).max() {
        Some((major, minor)) => format!("use Linux {major}.{minor} or later"),
        None => {
            "this kernel is new enough: let the seccomp filter of the container or sandbox around it answer these calls"
                .into()
        }
    }
}

fn wsl1(release: &str) -> Check {
    Check::failure(
        NAME,
        TRIED,
        format!("{release} is WSL 1: Windows answers the system calls, and there are no namespaces"),
    )
    .cured_by("in Windows: `wsl --set-version DISTRIBUTION 2`")
}

fn gvisor(vital: &str) -> Check {
    Check::failure(NAME, TRIED, format!("gVisor answers here instead of Linux, and lacks {vital}"))
        .cured_by("gVisor is a sandbox of its own: run stockade outside of it, or let each agent have a gVisor")
}

fn proc_mounted() -> Check {
    let (name, tried) = ("/proc", "read /proc/self");
    match std::fs::read_link("/proc/self") {
        Ok(_) => Check::ok(name, tried, "mounted"),
        Err(error) => Check::failure(name, tried, format!("/proc is not usable: {error}"))
            .cured_by("as root: mount -t proc proc /proc"),
    }
}

fn trial(why: &String) -> Check {
    Check::failure("trial", "made a process", format!("nothing can be tried: {why}"))
        .cured_by("raise the limit of processes (ulimit -u, or that of the cgroup) or of open files (ulimit -n)")
}

/// The one thing that no setting changes.
fn chroot() -> Option<Check> {
    let cause = "the root directory was chosen by chroot(2), and the kernel makes no user namespace for such a process";
    host::in_chroot().then(|| {
        Check::failure("root directory", "asked whether something is mounted at /", cause).cured_by(
            "start from the real root, or change to this one by pivot_root(2), as `unshare`, `bwrap` and containers do",
        )
    })
}

//! Namespaces and mounts, made in a process of their own; where that is refused, who refuses it.

use super::check::Check;
use super::place::Place;
use crate::probe::host::{self, Kernel};
use crate::probe::trial::{Attempt, Tried};
use crate::probe::{self, Errno};

/// Attempts that are told together, and under which name.
const GROUPS: [(&str, &str, &[Attempt]); 4] = [
    ("user namespaces", "made one and mapped the user into it", &[Attempt::UserNamespace, Attempt::MapUser]),
    (
        "mounts",
        "made all mounts private and read-only, and attached a new file system, in a mount namespace",
        &[Attempt::MountNamespace, Attempt::PrivateMounts, Attempt::ReadOnly, Attempt::NewFilesystem, Attempt::Attach],
    ),
    (
        "other namespaces",
        "made IPC, UTS, network and pid namespaces, and brought loopback up",
        &[
            Attempt::IpcNamespace,
            Attempt::UtsNamespace,
            Attempt::NetworkNamespace,
            Attempt::Loopback,
            Attempt::PidNamespace,
        ],
    ),
    ("new /proc", "mounted one in a pid namespace", &[Attempt::Proc]),
];

pub(super) fn check(place: &Place) -> Vec<Check> {
    GROUPS.iter().filter_map(|(name, tried, attempts)| group(place, name, tried, attempts)).collect()
}

/// The name of the first check here without which no run of any kind is possible.
pub(super) fn refused(place: &Place) -> Option<&'static str> {
    let vital = GROUPS.iter().take(2);
    let failed = |attempts: &[Attempt]| {
        place.evidence.tried.iter().any(|one| attempts.contains(&one.attempt) && one.refused().is_some())
    };
    vital.filter(|(_, _, attempts)| failed(attempts)).map(|(name, ..)| *name).next()
}

/// Nothing is said of what could not be tried: what stands in its way has been told before.
fn group(place: &Place, name: &'static str, tried: &'static str, attempts: &[Attempt]) -> Option<Check> {
    let made: Vec<&Tried> = place.evidence.tried.iter().filter(|one| attempts.contains(&one.attempt)).collect();
    made.first()?;
    Some(match made.iter().find_map(|one| Some((one, one.refused()?))) {
        None => Check::ok(name, tried, tried),
        Some((one, errno)) => {
            let (cause, cure) = explain(one.attempt, errno);
            let cause = format!("cannot {}: {cause} ({}: {errno})", one.attempt, one.call);
            let check = Check::failure(name, tried, cause).cured_by(cure);
            // Not this, but a call that it is made with, is missing.
            if errno == Errno::NOSYS { check.after(place.hopeless()) } else { check }
        }
    })
}

fn explain(attempt: Attempt, errno: Errno) -> (String, String) {
    match (attempt, errno) {
        (_, Errno::NOSPC) => limit(attempt),
        (Attempt::MapUser, Errno::PERM) if !host::may_map_itself() => (
            "root without CAP_SETFCAP may not map user 0".into(),
            "give the container or service CAP_SETFCAP (docker run --cap-add SETFCAP), or be an ordinary user".into(),
        ),
        (Attempt::UserNamespace | Attempt::MapUser, Errno::PERM | Errno::ACCESS) => forbidden(),
        (Attempt::UserNamespace, Errno::INVAL | Errno::NOSYS) => {
            ("this kernel was built without user namespaces".into(), "use a kernel with CONFIG_USER_NS=y".into())
        }
        (_, Errno::NOSYS) => ("a call that it is made with is missing".into(), "use a newer kernel".into()),
        (Attempt::Proc, Errno::PERM) => masked(),
        (Attempt::MapUser, Errno::NOENT) => ("there is no /proc".into(), "as root: mount -t proc proc /proc".into()),
        (_, Errno::PERM | Errno::ACCESS) if is("kernel.apparmor_restrict_unprivileged_userns", "1") => apparmor(),
        (_, Errno::PERM | Errno::ACCESS) => confined(),
        _ => ("the kernel refuses it".into(), "see the kernel's log (dmesg)".into()),
    }
}

fn is(name: &str, value: &str) -> bool {
    host::setting(name).as_deref() == Some(value)
}

/// A number of namespaces is used up, or is 0.
fn limit(attempt: Attempt) -> (String, String) {
    let kind = match attempt {
        Attempt::MountNamespace => "mnt",
        Attempt::IpcNamespace => "ipc",
        Attempt::UtsNamespace => "uts",
        Attempt::NetworkNamespace => "net",
        Attempt::PidNamespace => "pid",
        _ => "user",
    };
    let name = format!("user.max_{kind}_namespaces");
    let raise = format!("as root, outside of any sandbox: sysctl {name}=10000");
    if !is(&name, "0") {
        return (format!("as many as {name} allows exist, or 32 lie in one another"), raise);
    }
    if host::in_run() {
        let cause = format!("{name} is 0, as in every stockade run");
        return (cause, "call stockade outside of it".into());
    }
    (format!("{name} is 0 here"), format!("{raise}; in a sandbox: run stockade outside of it"))
}

/// Why no user namespace may be made. The settings are asked first: only one that forbids it is named.
fn forbidden() -> (String, String) {
    let privileged = probe::caller().is_ok_and(|caller| caller.can_map);
    if host::in_chroot() {
        ("this is a chroot".into(), "start from the real root".into())
    } else if !privileged && is("kernel.unprivileged_userns_clone", "0") {
        (
            "kernel.unprivileged_userns_clone is 0".into(),
            "as root: sysctl kernel.unprivileged_userns_clone=1, and a file in /etc/sysctl.d to keep it".into(),
        )
    } else if !privileged && is("kernel.apparmor_restrict_unprivileged_userns", "1") {
        apparmor()
    } else {
        confined()
    }
}

fn apparmor() -> (String, String) {
    (
        "AppArmor lets only programs with a profile use them (kernel.apparmor_restrict_unprivileged_userns is 1)".into(),
        "as root: install packaging/apparmor/stockade as /etc/apparmor.d/stockade, with the path of this program in it, and \
         apparmor_parser -r /etc/apparmor.d/stockade"
            .into(),
    )
}

/// No setting says no: somebody put us here.
fn confined() -> (String, String) {
    if host::kernel() == Kernel::Gvisor {
        return ("gVisor forbids it".into(), "run stockade outside of gVisor".into());
    }
    let who = match (host::container(), host::filtered()) {
        (Some(engine), true) => format!("the seccomp profile of this {engine} container"),
        (Some(engine), false) => format!("this {engine} container has not the capabilities, or a security module"),
        (None, true) => "a seccomp filter that this process is under (a container's or another sandbox's)".into(),
        (None, false) => "a security module (SELinux, AppArmor, …)".into(),
    };
    (
        format!("{who} forbids it"),
        "docker or podman run --security-opt seccomp=unconfined --security-opt apparmor=unconfined (or profiles that allow \
         unshare, mount, fsopen, open_tree, move_mount, mount_setattr); Kubernetes: seccompProfile Unconfined; else see the \
         kernel's log (dmesg)"
            .into(),
    )
}

fn masked() -> (String, String) {
    let over: Vec<String> = host::masked_proc().iter().map(|path| path.display().to_string()).collect();
    let cure = "docker run --security-opt systempaths=unconfined, podman run --security-opt unmask=ALL, Kubernetes procMount: \
                Unmasked; or `stockade run --proc host`, which shows the outer /proc";
    if over.is_empty() {
        ("the kernel refuses a second one here".into(), cure.into())
    } else {
        (format!("parts of /proc are masked, as containers do ({})", over.join(", ")), cure.into())
    }
}

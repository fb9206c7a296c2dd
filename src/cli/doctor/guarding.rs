//! What names inside of writable places are guarded with.

use super::check::Check;
use super::place::Place;
use crate::probe::host::{self, Kernel};
use crate::probe::trial::Notified;
use crate::probe::{self, Errno};

const NAME: &str = "notification";
const TRIED: &str = "answered a system call of another process, read its memory and gave it a descriptor";

pub(super) fn check(place: &Place) -> Vec<Check> {
    place.evidence.notified.iter().map(|notified| judge(*notified)).collect()
}

fn judge(notified: Notified) -> Check {
    let Notified { refused, memory, descriptor, answered, .. } = notified;
    match (refused, memory, descriptor) {
        (Some(errno), ..) => not_at_all(errno),
        (_, Some(errno), _) => no_memory(errno),
        (_, _, Some(errno)) => {
            Check::failure(NAME, TRIED, format!("the other process cannot be given a descriptor: {errno}"))
                .cured_by("see the kernel's log (dmesg)")
        }
        _ if !answered => {
            Check::failure(NAME, TRIED, "the answer did not arrive").cured_by("see the kernel's log (dmesg)")
        }
        _ => Check::ok(NAME, TRIED, TRIED),
    }
}

fn not_at_all(errno: Errno) -> Check {
    let so = "a name inside of a writable place cannot be protected";
    match errno {
        Errno::BUSY => Check::failure(
            NAME,
            TRIED,
            format!("an outer sandbox uses seccomp notification itself, and the kernel allows one: {so}"),
        )
        .cured_by("run stockade outside of that sandbox"),
        _ if host::kernel() == Kernel::Gvisor => {
            Check::failure(NAME, TRIED, format!("gVisor has no seccomp notification: {so}"))
                .cured_by("run stockade outside of gVisor")
        }
        Errno::INVAL | Errno::NOSYS if !probe::can_guard() => {
            Check::failure(NAME, TRIED, format!("seccomp notification is missing ({errno}): {so}"))
                .cured_by("use Linux 5.19 or later, built with CONFIG_SECCOMP_FILTER")
        }
        _ => Check::failure(NAME, TRIED, format!("seccomp notification is refused ({errno}): {so}"))
            .cured_by("let the container's or sandbox's own filter allow seccomp(2)"),
    }
}

fn no_memory(errno: Errno) -> Check {
    let yama = host::setting("kernel.yama.ptrace_scope");
    let cause = format!("the memory of a sandboxed process cannot be read ({errno}), so no name that it uses is known");
    match yama.as_deref() {
        Some("3") => Check::failure(NAME, TRIED, format!("{cause}: kernel.yama.ptrace_scope is 3"))
            .cured_by("set kernel.yama.ptrace_scope to 2 or less in /etc/sysctl.d and restart: 3 cannot be taken back"),
        _ => Check::failure(NAME, TRIED, cause)
            .cured_by("let the container's or sandbox's own filter, or the security module, allow process_vm_readv(2)"),
    }
}

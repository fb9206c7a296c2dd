//! Users and groups inside, and the second user namespace.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Done, Failure, because, failed};
use crate::plan::Extent;
use crate::plan::ordered::{Ids, Ordered};
use crate::sys::process::{self, Forked, Pid, UnshareFlags};
use crate::sys::{Errno, attr, fs, namespace};

/// From the parent namespace: all users of a new one, under their own numbers.
pub(super) fn map_all(child: Pid, users: &[Extent], groups: &[Extent]) -> Done<()> {
    let proc = fs::open_place(Path::new("/proc")).map_err(failed("Can't open /proc"))?;
    let dir = child.as_raw_nonzero().to_string();
    write_maps(&proc, &dir, &own_numbers(users), &own_numbers(groups))
}

/// From inside: the caller alone. `proc` is the host's.
pub(super) fn map_one(proc: &OwnedFd, user: (u32, u32), group: (u32, u32)) -> Done<()> {
    // setgroups must be given up before an ordinary user may map its group (user_namespaces(7)).
    write(proc, "self", "setgroups", "deny")?;
    write_maps(proc, "self", &format!("{} {} 1\n", user.0, user.1), &format!("{} {} 1\n", group.0, group.1))
}

/// The user namespace of a process.
pub(super) fn namespace_of(child: Pid) -> Done<OwnedFd> {
    let path = format!("/proc/{}/ns/user", child.as_raw_nonzero());
    fs::open(Path::new(&path), fs::OFlags::RDONLY).map_err(failed("open user namespace"))
}

/// As [`map_all`], for the second namespace of a process whose first is `users`: only a process in that may map more than
/// itself, and it is to take no number in the sandbox's pid namespace.
pub(super) fn map_all_from(users: Option<OwnedFd>, child: Pid, ids: &Ids) -> Done<()> {
    let (Some(first), Ids::Same { users, groups }) = (users, ids) else {
        return Err(Failure("setting up uid map: nobody else to be mapped".into()));
    };
    let mapper = match process::fork().map_err(failed("Can't fork"))? {
        Forked::Child => {
            let done =
                namespace::join_user(&first).map_err(failed("setns")).and_then(|()| map_all(child, users, groups));
            process::exit_now(i32::from(done.is_err()))
        }
        Forked::Parent(mapper) => mapper,
    };
    match process::wait(Some(mapper), process::until_end()).map_err(failed("wait"))? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(Failure("setting up uid map: the second user namespace could not be mapped".into())),
    }
}

/// Make a second user namespace, in which the mounts of the first cannot be changed (`mount_namespaces(7)`: mounts of a
/// less privileged namespace are locked), and in which the users are the same. `map` has all of them mapped.
pub(super) fn enter_second(plan: &Ordered, proc: &OwnedFd, map: impl FnOnce() -> Done<()>) -> Done<()> {
    process::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(failed("unshare user ns"))?;
    match &plan.ids {
        Ids::One { user, group } => map_one(proc, (user.0, user.0), (group.0, group.0)),
        Ids::Same { .. } => map(),
        // No other option goes together with that.
        Ids::Given => Ok(()),
    }
}

/// Let no further user namespace be made below the next one.
pub(super) fn forbid_namespaces(proc: &OwnedFd) -> Done<()> {
    let path = "sys/user/max_user_namespaces";
    put(proc, Path::new(path), "1").map_err(|errno| because("cannot open /proc/sys/user/max_user_namespaces", errno))
}

fn own_numbers(extents: &[Extent]) -> String {
    extents.iter().fold(String::new(), |mut text, extent| {
        let _ = writeln!(text, "{} {} {}", extent.first, extent.first, extent.count);
        text
    })
}

fn write_maps(proc: &OwnedFd, dir: &str, users: &str, groups: &str) -> Done<()> {
    write(proc, dir, "uid_map", users)?;
    write(proc, dir, "gid_map", groups)
}

/// The kernel wants each in a single write.
fn write(proc: &OwnedFd, dir: &str, name: &str, text: &str) -> Done<()> {
    put(proc, &Path::new(dir).join(name), text).map_err(|errno| {
        let what = match name {
            "uid_map" => "setting up uid map",
            "gid_map" => "setting up gid map",
            _ => "error writing to setgroups",
        };
        because(what, errno)
    })
}

fn put(proc: &OwnedFd, path: &Path, text: &str) -> Result<(), Errno> {
    let file = fs::openat2(proc, path, fs::OFlags::WRONLY, fs::Mode::empty(), fs::ResolveFlags::empty());
    file.and_then(|file| attr::write(&file, text.as_bytes())).map_err(|error| error.errno())
}

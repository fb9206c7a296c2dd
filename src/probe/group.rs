//! A control group in which runs can have groups of their own, with a limit on memory (`cgroups(7)`, version 2).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sys::{fs, mountinfo};

/// The nearest group above this process whose members may be limited and that this user may divide; `None` where nobody has
/// delegated one.
pub(super) fn with_memory() -> Option<PathBuf> {
    let own = std::fs::read("/proc/self/cgroup").ok()?;
    let mounts = mountinfo::read().ok()?;
    let (point, own) = mounts.iter().filter(|mount| mount.kind == "cgroup2").find_map(|mount| {
        let own = below(&own, &mount.root)?;
        Some((mount.point.clone(), mount.point.join(own)))
    })?;
    own.ancestors().take_while(|dir| dir.starts_with(&point)).find(|dir| is_ours_to_divide(dir)).map(Path::to_owned)
}

/// The group of version 2 in `/proc/self/cgroup`, below the one that is mounted.
fn below(text: &[u8], mounted: &Path) -> Option<PathBuf> {
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    Path::new(std::ffi::OsStr::from_bytes(line)).strip_prefix(mounted).ok().map(Path::to_owned)
}

fn is_ours_to_divide(dir: &Path) -> bool {
    let controllers = std::fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    // Who moves a process must be able to write to the group that holds both (cgroups(7), "Delegation containment").
    controllers.split_whitespace().any(|name| name == "memory")
        && fs::check_writable(dir).is_ok()
        && std::fs::File::options().write(true).open(dir.join("cgroup.procs")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_version_2_is_found_below_what_is_mounted() {
        let text = b"4:memory:/x\n0::/user.slice/a b\n";
        assert_eq!(below(text, Path::new("/")), Some("user.slice/a b".into()));
        assert_eq!(below(text, Path::new("/user.slice")), Some("a b".into()));
        assert_eq!(below(text, Path::new("/system.slice")), None);
        assert_eq!(below(b"4:memory:/x\n", Path::new("/")), None);
    }
}

//! Where this process runs: which kernel, in what confinement, on which file systems.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::sys::{host, mountinfo, presence, process};

/// Whose kernel it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    Linux,
    /// Windows' first subsystem: no Linux at all.
    Wsl1,
    /// Linux in a virtual machine of Windows.
    Wsl2,
    /// A kernel in user space that answers in Linux' name.
    Gvisor,
}

/// Major and minor number of the kernel.
#[must_use]
pub fn version() -> (u32, u32) {
    host::version()
}

/// The kernel's release as it calls itself.
#[must_use]
pub fn release() -> String {
    host::release()
}

/// Whose kernel this is.
#[must_use]
pub fn kernel() -> Kernel {
    kernel_of(&host::release(), &host::build())
}

fn kernel_of(release: &str, build: &str) -> Kernel {
    let lower = release.to_lowercase();
    if lower.contains("microsoft") {
        // WSL 2: 5.15.90.1-microsoft-standard-WSL2; WSL 1: 4.4.0-19041-Microsoft.
        return if host::version_of(release) < (4, 19) { Kernel::Wsl1 } else { Kernel::Wsl2 };
    }
    // What it has said of itself from its first release on, whatever it can do.
    let gvisor = release.contains("gvisor") || build == "#1 SMP Sun Jan 10 15:06:54 PST 2016";
    if gvisor { Kernel::Gvisor } else { Kernel::Linux }
}

/// Is the root directory one that `chroot(2)` chose? The kernel then makes no user namespace (`user_namespaces(7)`).
#[must_use]
pub fn in_chroot() -> bool {
    presence::is_mount_root(Path::new("/")) == Some(false)
}

/// A setting below `/proc/sys`, by its name with dots.
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}

/// Is this process under a seccomp filter already (`proc_pid_status(5)`)?
#[must_use]
pub fn filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// Is this the inside of a run of stockade?
#[must_use]
pub fn in_run() -> bool {
    std::env::var_os("STOCKADE").is_some() && filtered()
}

/// May this process map user 0 into a user namespace (`CAP_SETFCAP`, since Linux 5.12)? Only asked of user 0.
#[must_use]
pub fn may_map_itself() -> bool {
    process::user().0 != 0 || process::can_map_root()
}

/// The container engine that says that it made this place.
#[must_use]
pub fn container() -> Option<&'static str> {
    let marks = [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
    marks.into_iter().find_map(|(path, engine)| Path::new(path).exists().then_some(engine))
}

/// What is mounted over parts of `/proc`: while that is so, the kernel mounts no new one (`mount_too_revealing`).
#[must_use]
pub fn masked_proc() -> Vec<PathBuf> {
    let below = |point: &PathBuf| point.starts_with("/proc") && *point != Path::new("/proc");
    let mounts = mountinfo::read().unwrap_or_default();
    // Made for that purpose by the kernel itself.
    let harmless = |point: &PathBuf| *point == Path::new("/proc/sys/fs/binfmt_misc");
    mounts.into_iter().map(|entry| entry.point).filter(|point| below(point) && !harmless(point)).collect()
}

/// The type of the file system at `path`, as `/proc/self/mountinfo` calls it.
#[must_use]
pub fn filesystem(path: &Path) -> Option<String> {
    let real = super::place(path).real;
    let mounts = mountinfo::read().ok()?;
    // Of several at one place the last is on top.
    let nearest = mounts.into_iter().filter(|entry| real.starts_with(&entry.point));
    nearest.max_by_key(|entry| entry.point.components().count()).map(|entry| entry.kind)
}

/// The paths of unix sockets that somebody listens on, in this network namespace (`proc_net(5)`).
#[must_use]
pub fn listening() -> Vec<PathBuf> {
    let text = std::fs::read("/proc/net/unix").unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(listener).collect()
}

/// `address: references protocol flags type state inode path`, all but the path in hexadecimal digits or numbers.
fn listener(line: &str) -> Option<PathBuf> {
    const ACCEPTS: u32 = 1 << 16;
    let flags = u32::from_str_radix(line.split(' ').nth(3)?, 16).ok()?;
    let (_, path) = line.split_once(" /")?;
    (flags & ACCEPTS != 0).then(|| PathBuf::from(format!("/{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_by_their_flag() {
        let line = |flags: &str, path: &str| format!("0000000000000000: 00000002 00000000 {flags} 0001 01 20312{path}");
        assert_eq!(listener(&line("00010000", " /home/u/a b.sock")), Some("/home/u/a b.sock".into()));
        assert_eq!(listener(&line("00000000", " /home/u/client.sock")), None);
        assert_eq!(listener(&line("00010000", " @abstract")), None);
        assert_eq!(listener("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }

    #[test]
    fn kernels_by_what_they_say() {
        let kind = |release, build| kernel_of(release, build);
        assert_eq!(kind("6.1.0-28-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)"), Kernel::Linux);
        assert_eq!(kind("5.15.90.1-microsoft-standard-WSL2", "#1 SMP Fri Jan 27 02:56:13 UTC 2023"), Kernel::Wsl2);
        assert_eq!(kind("4.4.0-19041-Microsoft", "#1237-Microsoft Sat Sep 11 14:32:00 PST 2021"), Kernel::Wsl1);
        assert_eq!(kind("4.4.0", "#1 SMP Sun Jan 10 15:06:54 PST 2016"), Kernel::Gvisor);
        assert_eq!(kind("4.4.0-210-generic", "#242-Ubuntu SMP Fri Apr 16 09:57:56 UTC 2021"), Kernel::Linux);
    }
}

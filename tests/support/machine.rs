//! What this machine has. What it lacks is a skip with a reason, or a failure where `$STOCKADE_REQUIRE` names it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Is `what` there? If not, says that the test is skipped; the test then returns.
///
/// # Panics
/// When `$STOCKADE_REQUIRE` (separated by commas) contains `what`.
#[must_use]
pub(crate) fn need(what: &str) -> bool {
    let there = has(what);
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    assert!(there || !required.split(',').any(|one| one == what), "required here, and missing: {what}");
    if !there {
        let thread = std::thread::current();
        // Not `eprintln!`: the test harness would keep that for itself. In one piece: what other tests print at the same time
        // must not get into it.
        let said = format!("skipped: {} needs {what}\n", thread.name().unwrap_or("?"));
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    there
}

fn has(what: &str) -> bool {
    match what {
        "root" => is_root(),
        "user" => !is_root(),
        "userns" => succeeds("unshare", &["--user", "--map-root-user", "--mount", "true"]),
        "python3" => Path::new(super::PYTHON).exists(),
        "ia32" => cfg!(target_arch = "x86_64") && kernel_has_ia32(),
        "x86_64" => cfg!(target_arch = "x86_64"),
        "tiocsti" => read("/proc/sys/dev/tty/legacy_tiocsti").is_none_or(|value| value.trim() == "1"),
        "delegated-memory" => memory_group().is_some(),
        "io_uring" => read("/proc/sys/kernel/io_uring_disabled").is_none_or(|value| value.trim() == "0"),
        "bubblewrap" => original().is_some(),
        "tmpfs_xattr" => tmpfs_takes_xattr(),
        path if path.starts_with('/') => Path::new(path).exists(),
        program => succeeds("sh", &["-c", &format!("command -v {program}")]),
    }
}

/// bubblewrap 0.11 itself: `$STOCKADE_BWRAP`, else the one on the `PATH`.
pub(crate) fn original() -> Option<PathBuf> {
    let path = std::env::var_os("STOCKADE_BWRAP").map_or_else(|| "bwrap".into(), PathBuf::from);
    let told = Command::new(&path).arg("--version").output().ok()?;
    String::from_utf8_lossy(&told.stdout).starts_with("bubblewrap 0.11").then_some(path)
}

/// Machine code for `getpid` of the 32-bit call table, in a process of its own: it dies where there is none.
fn kernel_has_ia32() -> bool {
    let program = "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n\
        m.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n\
        f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n\
        raise SystemExit(f() <= 0)";
    succeeds(super::PYTHON, &["-c", program])
}

/// `user.*` attributes in memory (Linux 6.6).
fn tmpfs_takes_xattr() -> bool {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in /dev/shm");
    rustix::fs::setxattr(file.path(), "user.x", b"", rustix::fs::XattrFlags::empty()).is_ok()
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    let status = command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The control group (version 2) in which this process may make others with a limit on memory.
fn memory_group() -> Option<PathBuf> {
    let line = read("/proc/self/cgroup")?;
    let own = line.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let found = Path::new("/sys/fs/cgroup").join(own);
    let divides = |dir: &Path| {
        let procs = std::fs::File::options().write(true).open(dir.join("cgroup.procs")).is_ok();
        let controllers = std::fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
        procs && controllers.contains("memory")
    };
    found.ancestors().find(|dir| dir.starts_with("/sys/fs/cgroup") && divides(dir)).map(Path::to_owned)
}

/// The groups of runs there.
pub(crate) fn delegated_groups() -> Vec<PathBuf> {
    let all = memory_group().into_iter().flat_map(|group| super::entries(&group));
    all.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("stockade-"))).collect()
}

/// Are the tests run by uid 0?
pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A directory that this user may write and that is neither below `/tmp` nor below `/var/tmp`.
pub(crate) fn real_home() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    home.filter(|home| home.is_dir()).expect("tests need $HOME to be a directory")
}

/// How often something repeats: in CI, or by hand with `STOCKADE_SOAK=1`.
pub(crate) fn size(ci: usize, soak: usize) -> usize {
    if std::env::var_os("STOCKADE_SOAK").is_some_and(|value| value == "1") { soak } else { ci }
}

//! Facts about this machine, this boot and its processes.

use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags};

pub use rustix::process::Signal;

use super::{Errno, Error, Fd, Result, attr, fs};

/// Our effective user id.
#[must_use]
pub fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// 16 hexadecimal digits that nobody can guess (`getrandom(2)`).
pub fn random_name() -> Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Error::new("getrandom", format_args!("8"), errno))?;
    Ok(bytes.iter().fold(String::new(), |mut name, byte| {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    }))
}

/// The text of a file under `/proc`, `/sys` or `/etc`, trimmed; links are followed.
pub fn text(path: &Path) -> Result<String> {
    let file = fs::open(path, fs::OFlags::RDONLY | fs::OFlags::NONBLOCK)?;
    let bytes = attr::read_open(&file, 4096)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The id of this boot of the kernel, the same in every container of it (random(4)).
pub fn boot_id() -> Result<String> {
    text(Path::new("/proc/sys/kernel/random/boot_id"))
}

/// The inode number that names our pid namespace (namespaces(7)).
pub fn pid_namespace() -> Result<u64> {
    Ok(fs::stat(Path::new("/proc/self/ns/pid"))?.file.ino)
}

/// The host's name (uname(2)).
#[must_use]
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `sethostname(2)`, in this UTS namespace.
pub fn set_name(name: &std::ffi::OsStr) -> Result<()> {
    rustix::system::sethostname(name.as_encoded_bytes())
        .map_err(|errno| super::Error::new("sethostname", format_args!("{name:?}"), errno))
}

/// The kernel's release as it calls itself, such as `6.1.0-28-amd64` (uname(2)).
#[must_use]
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// When and how the kernel was built, as it says itself (uname(2), `version`).
#[must_use]
pub fn build() -> String {
    rustix::system::uname().version().to_string_lossy().into_owned()
}

/// Major and minor number of the kernel.
#[must_use]
pub fn version() -> (u32, u32) {
    version_of(&release())
}

/// Major and minor number of a release.
#[must_use]
pub fn version_of(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// When a process was started, in clock ticks since the boot; with its pid and the boot's id that names it for ever.
/// `None`: there is no such process, or it has ended and only waits to be reaped.
pub fn start_time(pid: u32) -> Result<Option<u64>> {
    let path = Path::new("/proc").join(pid.to_string()).join("stat");
    match text(&path) {
        Ok(stat) => Ok(parse_start_time(&stat)),
        Err(error) if error.is(Errno::NOENT) || error.is(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    pub parent: u32,
    /// In user and kernel mode, and that of children that were waited for.
    pub cpu: Duration,
    /// Resident bytes.
    pub memory: u64,
}

/// Look at a process (`proc_pid_stat(5)`); `None`: there is none.
pub fn process(pid: u32) -> Result<Option<Process>> {
    match text(&Path::new("/proc").join(pid.to_string()).join("stat")) {
        Ok(stat) => Ok(parse_process(&stat)),
        Err(error) if error.is(Errno::NOENT) || error.is(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse_process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    // From field 3 on: the state, the parent, ten others, then four times, seven others, the resident pages.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    let cpu = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1));
    let memory = number(21)? * rustix::param::page_size() as u64;
    Some(Process { parent: fields.get(1)?.parse().ok()?, cpu, memory })
}

/// Field 22 of `proc_pid_stat(5)`. The name of the program (field 2) may hold anything, so count from its last `)`.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A descriptor of a process (`pidfd_open(2)`); `None`: there is no such process.
pub fn open_process(pid: u32) -> Result<Option<OwnedFd>> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(raw) = raw else { return Ok(None) };
    match rustix::process::pidfd_open(raw, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::SRCH | Errno::INVAL) => Ok(None),
        Err(errno) => Err(Error::new("pidfd_open", format_args!("{pid}"), errno)),
    }
}

/// `pidfd_send_signal(2)`; a process that has ended meanwhile is no error.
pub fn signal(process: impl AsFd, signal: Signal) -> Result<()> {
    let process = process.as_fd();
    match rustix::process::pidfd_send_signal(process, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(Error::new("pidfd_send_signal", format_args!("{}, {signal:?}", Fd(process)), errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_survives_odd_program_names() {
        let fields: Vec<String> = (3..=30).map(|n| if n == 3 { "S".into() } else { n.to_string() }).collect();
        let stat = format!("7 (a) b) {}", fields.join(" "));
        assert_eq!(parse_start_time(&stat), Some(22));
        assert_eq!(parse_start_time(&stat.replace(" S ", " Z ")), None);
    }

    #[test]
    fn we_run_and_pid_zero_does_not() {
        assert!(start_time(std::process::id()).unwrap().is_some());
        assert_eq!(start_time(u32::MAX).unwrap(), None);
        assert!(open_process(u32::MAX).unwrap().is_none());
        assert_ne!(random_name().unwrap(), random_name().unwrap());
    }
}

//! What `--info-fd` and `--json-status-fd` are told, byte for byte as bubblewrap writes it: clients look for the spacing.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;

use super::{Done, Failure};
use crate::plan::ordered::{Namespaces, Ordered};
use crate::sys::process::{self, Pid};

/// The two descriptors.
pub(super) struct Descriptors {
    info: Option<File>,
    status: Option<File>,
}

/// A namespace that was made: its name there, and in `/proc/PID/ns`.
type Made = (&'static str, u64);

impl Descriptors {
    pub(super) fn take(plan: &Ordered) -> Done<Self> {
        let take = |fd: Option<i32>| fd.map(process::take_descriptor).transpose();
        let failed = |error: crate::sys::Error| super::because("Write to info_fd", error.errno());
        let process = &plan.process;
        Ok(Self {
            info: take(process.info).map_err(failed)?.map(File::from),
            status: take(process.status).map_err(failed)?.map(File::from),
        })
    }

    /// The sandbox's first process is there.
    pub(super) fn tell_started(&mut self, child: Pid, plan: &Ordered) -> Done<()> {
        if self.info.is_none() && self.status.is_none() {
            return Ok(());
        }
        let number = child.as_raw_nonzero().get();
        let made = made(number, plan.namespaces);
        if let Some(mut info) = self.info.take() {
            write(&mut info, &info_text(number, &made))?;
        }
        self.status.as_mut().map_or(Ok(()), |status| write(status, &status_text(number, &made)))
    }

    /// The command, which was executed, has ended.
    pub(super) fn tell_ended(&mut self, code: u8) -> Done<()> {
        self.status.as_mut().map_or(Ok(()), |status| write(status, &format!("{{ \"exit-code\": {code} }}\n")))
    }
}

fn write(file: &mut File, text: &str) -> Done<()> {
    file.write_all(text.as_bytes()).map_err(|error| Failure(format!("Write to info_fd: {error}")))
}

fn made(number: i32, namespaces: Namespaces) -> Vec<Made> {
    let Namespaces { cgroup, ipc, network, pid, uts, .. } = namespaces;
    let wanted = [
        (cgroup, "cgroup-namespace", "cgroup"),
        (ipc, "ipc-namespace", "ipc"),
        (true, "mnt-namespace", "mnt"),
        (network, "net-namespace", "net"),
        (pid, "pid-namespace", "pid"),
        (uts, "uts-namespace", "uts"),
    ];
    let found = wanted.into_iter().filter(|(wanted, ..)| *wanted).map(|(_, name, file)| {
        // The kernel calls it `pid_for_children` only where it is another one.
        Some((name, std::fs::metadata(format!("/proc/{number}/ns/{file}")).ok()?.ino()))
    });
    found.flatten().collect()
}

fn info_text(number: i32, made: &[Made]) -> String {
    let mut text = format!("{{\n    \"child-pid\": {number}");
    for (name, inode) in made {
        let _ = write!(text, ",\n    \"{name}\": {inode}");
    }
    text + "\n}\n"
}

fn status_text(number: i32, made: &[Made]) -> String {
    let mut text = format!("{{ \"child-pid\": {number}");
    for (name, inode) in made {
        let _ = write!(text, ", \"{name}\": {inode}");
    }
    text + " }\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spacing_is_bubblewraps() {
        let made = [("mnt-namespace", 4), ("pid-namespace", 5)];
        let info = "{\n    \"child-pid\": 7,\n    \"mnt-namespace\": 4,\n    \"pid-namespace\": 5\n}\n";
        assert_eq!(info_text(7, &made), info);
        assert_eq!(status_text(7, &made), "{ \"child-pid\": 7, \"mnt-namespace\": 4, \"pid-namespace\": 5 }\n");
    }
}

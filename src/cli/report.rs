//! Tells what a policy denied: one or two lines for people, JSON lines for programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::UNIX_EPOCH;

use serde_json::json;

use super::error::Error;
use super::output;
use crate::guard::{Denial, Denials};
use crate::launch::{self, Ended, Status};
use crate::plan::Plan;
use crate::policy::Target;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Say nothing about denials when the command fails
    #[arg(long)]
    quiet: bool,
    /// Write every denial to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write every denial to this descriptor, as JSON lines
    #[arg(long, value_name = "FD", conflicts_with = "report", value_parser = clap::value_parser!(i32).range(3..))]
    report_fd: Option<i32>,
}

/// How many denials people are told of.
const SHOWN: usize = 2;

/// Where denials are to be written.
pub(super) struct Report {
    quiet: bool,
    file: Option<File>,
}

impl Args {
    /// Open the report before anything is run: a report that cannot be written is an error then, not afterwards.
    pub(super) fn open(self) -> Result<Report, Error> {
        let file = match (self.report, self.report_fd) {
            (Some(path), _) => Some(File::create(&path).map_err(|source| Error::Report { path, source })?),
            (None, Some(fd)) => Some(
                launch::take_descriptor(fd).map_err(|source| Error::NoDescriptor { fd: fd.cast_unsigned(), source })?,
            ),
            (None, None) => None,
        };
        Ok(Report { quiet: self.quiet, file })
    }
}

impl Report {
    /// Write the denials of a job that is over, to its own file too.
    pub(super) fn keep(self, of_job: File, ended: &Ended) -> std::io::Result<()> {
        let denials = ended.denials.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.into_iter().chain([of_job]).try_for_each(|file| write(file, &denials))
    }

    /// Tell of the denials of a run that is over.
    pub(super) fn tell(self, plan: &Plan, ended: &Ended) -> Result<(), Error> {
        let denials = ended.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(reached), false) = (reached(plan, ended), self.quiet) {
            output::stockade(reached);
        }
        if !self.quiet && ended.status != Status::Exited(0) {
            show(plan, &denials);
            show_overlays(ended);
        }
        match self.file {
            Some(file) => Ok(write(file, &denials)?),
            None => Ok(()),
        }
    }
}

/// The limit for which a run was ended, in words.
pub(super) fn reached(plan: &Plan, ended: &Ended) -> Option<String> {
    let limit = ended.limit?;
    let value = plan.limits.get(limit).map_or_else(String::new, |value| limit.show(value));
    Some(format!("ended: the limit {limit} of {value} is reached"))
}

fn show(plan: &Plan, denials: &Denials) {
    for denial in denials.all().iter().take(SHOWN) {
        output::stockade(format_args!("denied by policy: {}", denial.relative_to(&plan.request.cwd)));
    }
    let more = denials.all().len().saturating_sub(SHOWN);
    if more > 0 {
        output::stockade(format_args!("and {more} more denials (--report FILE lists them)"));
    }
    for rule in plan.absent.iter().map(|&index| &plan.names.all()[index]) {
        if let Target::Path(path) = &rule.target
            && !exists(path)
        {
            output::stockade(format_args!(
                "write {} ({}): it does not exist, and only it may be created",
                path.display(),
                rule.origin
            ));
        }
    }
}

fn show_overlays(ended: &Ended) {
    for path in &ended.overlays.read_only {
        output::stockade(format_args!("{path} stayed read-only: its file system cannot be a layer of an overlay"));
    }
    for full in &ended.overlays.full {
        output::stockade(format_args!(
            "the overlay is full: {} ({}; `size` in the rule or under [overlay] sets the limit)",
            full.what,
            size(full.limit)
        ));
    }
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.iter().find(|(shift, _)| bytes >= 1 << shift);
    fits.map_or_else(|| format!("{bytes} bytes"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn write(file: File, denials: &Denials) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    for denial in denials.all() {
        writeln!(file, "{}", ascii(&line(denial).to_string()))?;
    }
    if denials.dropped() > 0 {
        writeln!(file, "{}", json!({ "dropped": denials.dropped() }))?;
    }
    file.flush()
}

/// JSON in ASCII alone, of which JSON itself escapes the control characters. Others are no less dangerous to who looks at
/// a report on a terminal: `U+009B` begins a command to it, `U+202E` turns the rest of the line round.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            text.push(c);
        } else {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

fn line(denial: &Denial) -> serde_json::Value {
    let time = denial.time.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    json!({
        "call": denial.call,
        "verb": denial.verb,
        "path": denial.path.to_string_lossy(),
        "other": denial.other.as_ref().map(|path| path.to_string_lossy()),
        "rule": denial.origin.to_string(),
        "reason": denial.reason,
        "text": denial.to_string(),
        "pid": denial.pid,
        "command": String::from_utf8_lossy(&denial.comm),
        "time": time,
        "count": denial.count,
    })
}

#[cfg(test)]
mod tests {
    use super::ascii;

    #[test]
    fn reports_are_ascii() {
        assert_eq!(ascii("{\"a\":\"é\u{9b}\u{7f}😀\"}"), r#"{"a":"\u00e9\u009b\u007f\ud83d\ude00"}"#);
    }
}

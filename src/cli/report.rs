//! Tells what a policy denied: one or two lines for people, JSON lines for programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use serde_json::{Value, json};

use super::error::Error;
use super::options::Asked;
use super::{lines, output, why};
use crate::guard::Denials;
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
/// For how many programs are told a cure: each is tried by some more looks at the host.
const CURED: usize = 8;

/// Where denials are to be written.
pub(super) struct Report {
    quiet: bool,
    file: Option<File>,
}

impl Args {
    /// The number of the descriptor that the caller gives.
    pub(super) fn number(&self) -> Option<i32> {
        self.report_fd
    }

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
    pub(super) fn keep(self, asked: &Asked, of_job: File, ended: &Ended) -> std::io::Result<()> {
        let denials = ended.denials.lock().unwrap_or_else(PoisonError::into_inner);
        let told = Told::new(asked, &denials, ended.status, CURED);
        self.file.into_iter().chain([of_job]).try_for_each(|file| told.write(file))
    }

    /// Tell of the denials of a run that is over.
    pub(super) fn tell(self, asked: &Asked, plan: &Plan, ended: &Ended) -> Result<(), Error> {
        let denials = ended.denials.lock().unwrap_or_else(PoisonError::into_inner);
        let most = if self.file.is_some() { CURED } else { SHOWN };
        let told = Told::new(asked, &denials, ended.status, most);
        if let (Some(reached), false) = (reached(plan, ended), self.quiet) {
            output::stockade(reached);
        }
        if !self.quiet && ended.status != Status::Exited(0) {
            told.show(&plan.request.cwd);
            show_absent(plan);
            show_overlays(ended);
        }
        match self.file {
            Some(file) => Ok(told.write(file)?),
            None => Ok(()),
        }
    }
}

/// Denials with what would allow them.
struct Told<'a> {
    denials: &'a Denials,
    /// Of the first of them, as far as there are any.
    cures: Vec<Option<String>>,
    network: Option<String>,
}

impl<'a> Told<'a> {
    /// With cures of at most the first `most`. Nothing needs one in a run that succeeded.
    fn new(asked: &Asked, denials: &'a Denials, status: Status, most: usize) -> Self {
        let failed = status != Status::Exited(0);
        let first = &denials.all()[..denials.all().len().min(most)];
        let cures = if failed && !first.is_empty() { why::cures(asked, first) } else { Vec::new() };
        let offline = failed && !denials.attempts().is_empty();
        Self { denials, cures, network: offline.then(|| why::network_cure(asked)).flatten() }
    }

    fn cure(&self, index: usize) -> Option<&str> {
        self.cures.get(index)?.as_deref()
    }

    /// For people: a line for each of the first denials, and one for the network.
    fn show(&self, cwd: &Path) {
        for (index, denial) in self.denials.all().iter().enumerate().take(SHOWN) {
            let denial = denial.relative_to(cwd);
            output::stockade(format_args!("denied by policy: {denial}{}", behind(self.cure(index))));
        }
        let more = self.denials.all().len().saturating_sub(SHOWN);
        if more > 0 {
            output::stockade(format_args!("and {more} more denials (--report FILE lists them)"));
        }
        if let [first, more @ ..] = self.denials.attempts() {
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let tried = format!("a connection to {}{more} was tried", first.address);
            output::stockade(format_args!(
                "network is off ({}): {tried}{}",
                first.origin,
                behind(self.network.as_deref())
            ));
        }
    }

    /// For programs: a line for each.
    fn write(&self, file: File) -> std::io::Result<()> {
        let mut file = BufWriter::new(file);
        let denials = self.denials.all().iter().map(lines::denial).enumerate();
        let denials = denials.map(|(index, line)| with_cure(line, self.cure(index)));
        let attempts = self.denials.attempts().iter().map(lines::attempt);
        for line in denials.chain(attempts.map(|line| with_cure(line, self.network.as_deref()))) {
            writeln!(file, "{}", lines::ascii(&line))?;
        }
        if self.denials.dropped() > 0 {
            writeln!(file, "{}", json!({ "dropped": self.denials.dropped() }))?;
        }
        file.flush()
    }
}

fn with_cure(mut line: Value, cure: Option<&str>) -> Value {
    line["cure"] = cure.into();
    line
}

fn behind(cure: Option<&str>) -> String {
    cure.map_or_else(String::new, |cure| format!("; {cure}"))
}

/// The limit for which a run was ended, in words.
pub(super) fn reached(plan: &Plan, ended: &Ended) -> Option<String> {
    let limit = ended.limit?;
    let (_, setting) = plan.limits.iter().find(|(set, _)| *set == limit)?;
    let (value, origin) = (limit.show(setting.value), &setting.origin);
    Some(format!("ended: the limit {limit} of {value} is reached ({origin}); raise it with --limit {limit}="))
}

fn show_absent(plan: &Plan) {
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

//! A supervisor that lives on by itself: a session of its own, no terminal, and nothing of its caller.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Failure, Step};
use crate::sys::fs::{self, OFlags};
use crate::sys::process::{self, Forked};
use crate::sys::{self, pipe, socket};

/// As much as an ordinary user may have in one pipe: a writer waits less often.
const PIPE: usize = 1 << 18;

/// Which side of the fork this is.
#[derive(Debug)]
pub enum Detached {
    Caller(Waiting),
    Supervisor(Supervisor),
}

/// The caller's side: it waits until the command runs, or cannot.
#[derive(Debug)]
pub struct Waiting(File);

/// The supervisor's side.
#[derive(Debug)]
pub struct Supervisor {
    report: File,
    /// What the command writes.
    output: OwnedFd,
}

fn at<T>(result: sys::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of(Step::Fork, &error))
}

/// Fork a supervisor that survives us. Descriptors from 3 on stay open there if they are ours or among the first
/// `preserve`. The process must have one thread.
///
/// # Errors
/// What the kernel says. What fails in the new process is told through [`Waiting::outcome`].
pub fn detach(preserve: u32) -> Result<Detached, Failure> {
    let (outcome, report) = at(socket::pipe())?;
    match at(process::fork())? {
        Forked::Parent(_) => Ok(Detached::Caller(Waiting(outcome.into()))),
        Forked::Child => {
            drop(outcome);
            let mut report = File::from(report);
            match leave(preserve) {
                Ok(output) => Ok(Detached::Supervisor(Supervisor { report, output })),
                Err(failure) => {
                    tell(&mut report, &Err(failure));
                    process::exit_now(super::STATUS_FAILED.into())
                }
            }
        }
    }
}

/// Leave everything of the caller behind; gives what the standard output is read from.
fn leave(preserve: u32) -> Result<OwnedFd, Failure> {
    at(process::new_session())?;
    // No file system of the caller is kept busy.
    std::env::set_current_dir("/").map_err(|error| Failure::because(Step::Fork, error.to_string()))?;
    at(process::close_inherited(3 + preserve.cast_signed()))?;
    let (output, input) = at(socket::pipe())?;
    // A smaller pipe works too.
    let _ = pipe::set_size(&input, PIPE);
    at(process::duplicate_to(null()?, 0))?;
    at(process::duplicate_to(&input, 1))?;
    at(process::duplicate_to(&input, 2))?;
    Ok(output)
}

fn null() -> Result<OwnedFd, Failure> {
    at(fs::open(Path::new("/dev/null"), OFlags::RDWR))
}

fn tell(report: &mut File, outcome: &Result<(), Failure>) {
    // A caller that is gone need not be told; a failure is plain text and numbers, which always can be written.
    let mut line = serde_json::to_vec(outcome).unwrap_or_default();
    line.push(b'\n');
    let _ = report.write_all(&line);
}

impl Waiting {
    /// Wait until the command runs.
    ///
    /// # Errors
    /// Why it does not.
    pub fn outcome(self) -> Result<(), Failure> {
        let mut text = String::new();
        // One line: the supervisor may keep its end open for longer.
        BufReader::new(self.0).read_line(&mut text).map_err(|e| Failure::because(Step::Fork, e.to_string()))?;
        let lost = |_| Err(Failure::because(Step::Fork, "the supervisor was killed before the command was started"));
        serde_json::from_str(&text).unwrap_or_else(lost)
    }
}

impl Supervisor {
    /// The launch has begun: from now on only the command holds its output open. Gives where that is read, and what tells
    /// the caller.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn release(self) -> Result<(OwnedFd, Report), Failure> {
        let null = null()?;
        at(process::duplicate_to(&null, 1))?;
        at(process::duplicate_to(&null, 2))?;
        Ok((self.output, Report(self.report)))
    }

    /// Nothing could be started.
    pub fn fail(mut self, failure: Failure) {
        tell(&mut self.report, &Err(failure));
    }
}

/// Tells the caller what became of the start.
#[derive(Debug)]
pub struct Report(File);

impl Report {
    /// A second one; whoever tells first is heard.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn try_clone(&self) -> Result<Self, Failure> {
        self.0.try_clone().map(Self).map_err(|error| Failure::because(Step::Fork, error.to_string()))
    }

    /// Tell, and be silent from then on.
    pub fn tell(mut self, outcome: &Result<(), Failure>) {
        tell(&mut self.0, outcome);
    }
}

//! `stockade doctor`

mod check;
mod disk;
mod guarding;
mod kernel;
mod leftovers;
mod logs;
mod namespaces;
mod overlays;
mod place;
mod runs;
mod sockets;
mod state;

use std::path::PathBuf;

use serde_json::Value;

use super::{Done, output};
use check::{Check, Severity};
use place::Place;

/// Try for real what a run needs; exit 1 if a run cannot work.
///
/// Nothing is made outside of the state directory, and nothing stays there.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Instead, count in these transcripts (files, or directories of them) the failures of tools that bubblewrap's races
    /// caused
    #[arg(long, value_name = "PATH", num_args = 1..)]
    logs: Vec<PathBuf>,
}

/// Everything that is looked at, in the order in which it is told: what is said first causes what comes later.
const CHECKS: [fn(&Place) -> Vec<Check>; 10] = [
    kernel::check,
    namespaces::check,
    guarding::check,
    state::check,
    overlays::check,
    runs::check,
    disk::check,
    disk::file_systems,
    sockets::check,
    leftovers::check,
];

pub(super) fn run(args: &Args) -> Done {
    if !args.logs.is_empty() {
        return logs::run(&args.logs, args.json);
    }
    let place = Place::look();
    let checks: Vec<Check> = CHECKS.iter().flat_map(|check| check(&place)).collect();
    if args.json {
        output::line(Value::from(checks.iter().map(Check::to_json).collect::<Vec<_>>()))?;
    } else {
        checks.iter().try_for_each(tell)?;
    }
    Ok(u8::from(checks.iter().any(|check| check.severity == Severity::Failure)))
}

fn tell(check: &Check) -> std::io::Result<()> {
    let word = match check.severity {
        Severity::Ok => "ok  ",
        Severity::Warning => "warn",
        Severity::Failure => "FAIL",
    };
    output::line(output::printable(format_args!("{word}  {}: {}", check.name, check.found)))?;
    match &check.cure {
        Some(cure) => output::line(output::printable(format_args!("      cure: {cure}"))),
        None => Ok(()),
    }
}

//! `stockade explain`

use super::options::{Asked, CommandLine, Options};
use super::{Done, output};
use crate::{plan, probe};

/// Print what a run would do, and do nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    options: Options,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    command: CommandLine,
}

pub(super) fn run(args: Args) -> Done {
    let Asked { policy, request, .. } = args.options.resolve(args.command)?;
    let facts = probe::facts(&policy)?;
    let plan = plan::build(&policy, facts, request)?;
    if args.json {
        output::line(plan.to_json())?;
    } else {
        output::line(&plan)?;
    }
    Ok(0)
}

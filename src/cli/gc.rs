//! `stockade gc`

use std::time::Duration;

use super::options;
use super::session::open_store;
use super::{Done, output};
use crate::session::{Reap, Reaped, RecordState, Scope};

/// Remove sessions whose owner is gone, that are of an earlier boot or idle, and what killed runs have left.
///
/// Nothing that a run uses is touched. The same happens by itself, at most once in ten minutes, while runs go on.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// How long a session without a run and an owner lives (the configuration's `idle`, else 7d)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    idle: Option<Duration>,
}

pub(super) fn run(args: &Args) -> Done {
    let idle = args.idle.map_or_else(options::idle, Ok)?;
    let how = Reap { scope: Scope::All, idle, dry_run: args.dry_run, within: None };
    let reaped = open_store()?.reap(how)?;
    tell(&reaped, args.dry_run)?;
    Ok(u8::from(!reaped.left.is_empty()))
}

fn tell(reaped: &Reaped, dry_run: bool) -> std::io::Result<()> {
    let verb = if dry_run { "would remove" } else { "removed" };
    for (id, why) in &reaped.sessions {
        output::line(format_args!("{verb} session {id}: {why}"))?;
    }
    if reaped.leftovers > 0 {
        output::line(format_args!("{verb} {} leftovers", reaped.leftovers))?;
    }
    for (id, record) in &reaped.unreadable {
        output::note(format_args!("session {id} stays until it is idle: {}", told(record)));
    }
    for left in &reaped.left {
        output::note(format_args!("cannot remove {left}"));
    }
    Ok(())
}

/// What is odd about a record.
pub(super) fn told(record: &RecordState) -> String {
    match record {
        RecordState::Readable(_) => "its record is whole".into(),
        RecordState::Torn(why) => format!("its record is torn ({why})"),
        RecordState::Newer(schema) => format!("its record was written by a newer stockade (schema {schema})"),
        RecordState::Foreign(id) => format!("its record is that of session {id}"),
    }
}

//! The command line: one file a command. The only place that writes to the terminal and where errors become text.
#![forbid(unsafe_code)]

mod detach;
mod doctor;
mod error;
mod explain;
mod gc;
mod job;
mod layers;
mod options;
mod output;
mod overlay;
mod ps;
mod report;
mod run;
mod session;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::launch::STATUS_FAILED;
use error::Error;

/// Run coding agents' commands in sandboxes that cannot see, break or weaken one another.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, disable_help_subcommand = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Explain(explain::Args),
    Why(why::Args),
    Session(session::Args),
    Job(job::Args),
    Ps(ps::Args),
    Gc(gc::Args),
    Overlay(overlay::Args),
    Doctor(doctor::Args),
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return output::usage(&usage),
    };
    let done = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Why(args) => why::run(args),
        Command::Session(args) => session::run(args),
        Command::Ps(args) => ps::run(&args),
        Command::Job(args) => job::run(args),
        Command::Gc(args) => gc::run(&args),
        Command::Overlay(args) => overlay::run(args),
        Command::Doctor(args) => doctor::run(&args),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        // Whoever read our output has had enough.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(141),
        Err(error) => {
            output::error(&error);
            ExitCode::from(error.status())
        }
    }
}

/// What a command gives: the exit status, or why it failed.
type Done = Result<u8, Error>;

/// The exit status of stockade's own failures.
fn failed() -> ExitCode {
    ExitCode::from(STATUS_FAILED)
}

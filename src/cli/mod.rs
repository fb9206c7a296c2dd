//! The command line: one file a command. The only place that writes to the terminal and where errors become text.
#![forbid(unsafe_code)]

mod basis;
mod bwrap;
mod completions;
mod detach;
mod doctor;
mod error;
mod events;
mod explain;
mod gc;
mod import;
mod init;
mod job;
mod layers;
mod lines;
mod man;
mod options;
mod output;
mod overlay;
mod ps;
mod report;
mod run;
mod session;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::launch::STATUS_FAILED;
pub use bwrap::bwrap;
use error::Error;

/// Run coding agents' commands in sandboxes that cannot see, break or weaken one another.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

/// The same for the one command that is started thousands of times: to describe all the others to the parser takes a tenth
/// of a millisecond.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, disable_help_subcommand = true)]
struct RunCli {
    #[command(subcommand)]
    command: RunCommand,
}

#[derive(Debug, Subcommand)]
enum RunCommand {
    Run(run::Args),
}

/// What is said without a command.
const BRIEF: &str = "\
Run coding agents' commands in sandboxes that cannot see, break or weaken one another.

Run a command; only the project can be written, /tmp is the session's own:
  stockade run --session s1 -- make test

Ask what a run may do with a path, which rule says so, and what would allow it:
  stockade why ./dist --write

See what is running, in which session:
  stockade ps

Write a commented configuration for rules of your own:
  stockade init

Find out whether runs work on this machine, and if not, why:
  stockade doctor

There are more commands and options:
  stockade --help";

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
    Init(init::Args),
    Import(import::Args),
    Man(man::Args),
    Completions(completions::Args),
    Bwrap(bwrap::Args),
}

fn parse() -> Result<Option<Command>, clap::Error> {
    if std::env::args_os().nth(1).is_some_and(|word| word == "run") {
        let RunCommand::Run(args) = RunCli::try_parse()?.command;
        return Ok(Some(Command::Run(args)));
    }
    Ok(Cli::try_parse()?.command)
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let command = match parse() {
        Ok(Some(command)) => command,
        Ok(None) => return output::brief(BRIEF),
        Err(usage) => return output::usage(&usage),
    };
    if let Command::Bwrap(args) = command {
        return bwrap::run("stockade bwrap", args.words);
    }
    let done = match command {
        Command::Run(args) => run::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Why(args) => why::run(args),
        Command::Session(args) => session::run(args),
        Command::Ps(args) => ps::run(&args),
        Command::Job(args) => job::run(args),
        Command::Gc(args) => gc::run(&args),
        Command::Overlay(args) => overlay::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Bwrap(_) => unreachable!("answered above"),
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

/// The options of a `stockade run` with this command line; `None`: it is something else.
fn run_options(words: Vec<OsString>) -> Option<options::Options> {
    match Cli::try_parse_from(words).ok()?.command? {
        Command::Run(args) => Some(args.into_options()),
        _ => None,
    }
}

/// What a command gives: the exit status, or why it failed.
type Done = Result<u8, Error>;

/// The exit status of stockade's own failures.
fn failed() -> ExitCode {
    ExitCode::from(STATUS_FAILED)
}

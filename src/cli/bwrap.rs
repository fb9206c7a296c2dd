//! `stockade bwrap`, and the whole program when it is started under the name `bwrap`.

use std::ffi::OsString;
use std::process::ExitCode;

use super::output;
use crate::bwrap::{self, Stop};

/// Take bubblewrap's options and give bubblewrap's view, without making anything on the host.
///
/// The same as starting this program under the name `bwrap`; see `stockade bwrap --help` for the options, and docs/bwrap.md
/// for what differs.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// bubblewrap's options, and the command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    pub(super) words: Vec<OsString>,
}

/// The program under the name of `bwrap`.
#[must_use]
pub fn bwrap() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    run(&name.to_string_lossy(), words.collect())
}

/// Messages begin with `bwrap:`, whatever the program is called: clients look for it.
pub(super) fn run(name: &str, words: Vec<OsString>) -> ExitCode {
    let done = bwrap::Run::prepare(words).and_then(|run| {
        let level = if run.has_level_prefix() { "<4>" } else { "" };
        run.warnings().iter().for_each(|text| output::bwrap(level, text));
        run.start()
    });
    match done {
        Ok(status) => ExitCode::from(status),
        Err(Stop::Usage { asked: true }) => ExitCode::from(u8::from(output::line(bwrap::help(name)).is_err())),
        Err(Stop::Usage { asked: false }) => {
            output::trace(bwrap::help(name));
            ExitCode::FAILURE
        }
        Err(Stop::Version) => ExitCode::from(u8::from(output::line(bwrap::VERSION).is_err())),
        Err(Stop::Failed { text, level_prefix }) => {
            output::bwrap(if level_prefix { "<3>" } else { "" }, &text);
            ExitCode::FAILURE
        }
    }
}

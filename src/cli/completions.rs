//! `stockade completions`

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Done, output};

/// Print what a shell needs to complete stockade's commands and options.
///
/// For bash: `source <(stockade completions bash)`, or keep it as ~/.local/share/bash-completion/completions/stockade.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "stockade", &mut script);
    output::stdout().write_all(&script)?;
    Ok(0)
}

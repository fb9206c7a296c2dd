//! `stockade man`

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use super::error::Error;
use super::{Cli, Done, output};

/// Write the manual pages into a directory, one for each command.
///
/// Prints their names; `man -l NAME` shows one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory, which is made when it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(args: &Args) -> Done {
    fs::create_dir_all(&args.directory).map_err(|source| failed(&args.directory, source))?;
    let mut top = Cli::command();
    top.build();
    write(&top, &args.directory)?;
    Ok(0)
}

/// The page of a command and of all below it.
fn write(command: &clap::Command, directory: &Path) -> Result<(), Error> {
    let page = Man::new(command.clone()).source(concat!("stockade ", env!("CARGO_PKG_VERSION"))).manual("stockade");
    let path = page.generate_to(directory).map_err(|source| failed(&directory.join(page.get_filename()), source))?;
    output::line(path.display())?;
    command.get_subcommands().try_for_each(|below| write(below, directory))
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Page { path: path.to_owned(), source }
}

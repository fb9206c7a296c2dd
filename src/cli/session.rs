//! `stockade session`

use std::path::PathBuf;

use clap::Subcommand;

use super::error::Error;
use super::{Done, output};
use crate::session::{self, End, Id, Store};

/// Look at sessions and end them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print where a session's directory, or a path below one of its private directories, is on the host
    Path {
        id: String,
        /// A path as commands of the session see it, such as /tmp/x
        path: Option<PathBuf>,
    },
    /// List the sessions of this machine
    List,
    /// Remove a session and its private directories; refused while a run uses it
    End {
        id: String,
        /// End its runs first: SIGTERM, after five seconds SIGKILL
        #[arg(long)]
        kill: bool,
        /// Wait until no run uses it
        #[arg(long, conflicts_with = "kill")]
        wait: bool,
    },
}

pub(super) fn run(args: Args) -> Done {
    let state = session::locate(|name| std::env::var_os(name))?;
    let store = Store::open(&state)?;
    match args.command {
        Command::Path { id, path } => print_path(&store, &parse(id)?, path),
        Command::List => list(&store),
        Command::End { id, kill, wait } => end(&store, &parse(id)?, kill, wait),
    }
}

fn parse(text: String) -> Result<Id, Error> {
    text.parse().map_err(|source| Error::Id { text, origin: "ID".into(), source })
}

fn print_path(store: &Store, id: &Id, path: Option<PathBuf>) -> Done {
    let host = match path {
        Some(path) => store.path_of(id, &path)?,
        None => match store.find(id)? {
            Some(found) => found.path,
            None => return Err(session::Error::NoSession(id.clone()).into()),
        },
    };
    output::line(host.display())?;
    Ok(0)
}

fn list(store: &Store) -> Done {
    for found in store.list()?.sessions {
        let runs = found.runs.len();
        let state = if found.in_use { "in use" } else { "idle" };
        output::line(format_args!("{}\t{state}\t{runs} runs\t{}", found.id.as_str(), found.path.display()))?;
    }
    Ok(0)
}

fn end(store: &Store, id: &Id, kill: bool, wait: bool) -> Done {
    let how = match (kill, wait) {
        (true, _) => End::Kill,
        (_, true) => End::Wait,
        _ => End::Refuse,
    };
    for left in store.end(id, how)?.left {
        output::note(left);
    }
    Ok(0)
}

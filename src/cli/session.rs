//! `stockade session`

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Subcommand;
use serde_json::{Value, json};

use super::error::Error;
use super::{Done, gc, options, output};
use crate::session::{self, End, Found, Id, Owner, Store};

/// Look at sessions, make them and end them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a session, or give an existing one an owner; prints its id
    Start {
        /// Its id; without one a new id is made up
        id: Option<String>,
        /// The process that it belongs to: when it has ended, and nothing runs any more, the session ends
        #[arg(long, value_name = "PID")]
        owner: Option<u32>,
        /// Share the private directories of this session
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
    },
    /// Print where a session's directory, or a path below one of its private directories, is on the host
    Path {
        /// The id of a session
        id: String,
        /// A path as commands of the session see it, such as /tmp/x
        path: Option<PathBuf>,
    },
    /// Copy files into a session or out of it; links are never followed
    Cp {
        /// A path on the host, or `SESSION:/path` as commands of the session see it
        from: String,
        /// Likewise; one of the two is in a session
        to: String,
    },
    /// List the sessions of this machine
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one session: its owner, runs and private directories
    Show {
        /// The id of a session
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a session, its children and their private directories; refused while a run uses it
    End {
        /// The id of a session
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
    let store = open_store()?;
    match args.command {
        Command::Start { id, owner, parent } => start(&store, id, owner, parent),
        Command::Path { id, path } => print_path(&store, &parse(id)?, path),
        Command::Cp { from, to } => copy(&store, &from, &to),
        Command::List { json } => list(&store, json),
        Command::Show { id, json } => show(&store, &parse(id)?, json),
        Command::End { id, kill, wait } => end(&store, &parse(id)?, kill, wait),
    }
}

/// The store that the environment names.
pub(super) fn open_store() -> Result<Store, Error> {
    let state = session::locate(|name| std::env::var_os(name))?;
    Ok(Store::open(&state)?)
}

fn parse(text: String) -> Result<Id, Error> {
    options::parse_id(text, "ID")
}

fn start(store: &Store, id: Option<String>, owner: Option<u32>, parent: Option<String>) -> Done {
    let want = options::want(parent, owner)?;
    let id = id.map(parse).transpose()?.map_or_else(Id::random, Ok)?;
    store.session(&id, &want)?;
    output::line(&id)?;
    Ok(0)
}

fn print_path(store: &Store, id: &Id, path: Option<PathBuf>) -> Done {
    let host = match path {
        Some(path) => store.path_of(id, &path)?,
        None => find(store, id)?.path,
    };
    output::line(host.display())?;
    Ok(0)
}

fn copy(store: &Store, from: &str, to: &str) -> Done {
    let left_out = match (in_session(from), in_session(to)) {
        (Some((id, inside)), None) => store.copy_out(&id, inside, Path::new(to))?,
        (None, Some((id, inside))) => store.copy_in(&id, Path::new(from), inside)?,
        _ => return Err(Error::CopyWhat),
    };
    for path in &left_out {
        output::note(format_args!("{} is no file, directory or link: left out", path.display()));
    }
    Ok(u8::from(!left_out.is_empty()))
}

/// `ID:/path`, or nothing of the kind.
fn in_session(text: &str) -> Option<(Id, &Path)> {
    let (id, path) = text.split_once(':')?;
    Some((id.parse().ok()?, Path::new(path))).filter(|(_, path)| path.is_absolute())
}

/// A session that exists.
pub(super) fn find(store: &Store, id: &Id) -> Result<Found, Error> {
    store.find(id)?.ok_or_else(|| session::Error::NoSession(id.clone()).into())
}

fn list(store: &Store, json: bool) -> Done {
    let listing = store.list()?;
    if json {
        let sessions: Vec<Value> = listing.sessions.iter().map(to_json).collect();
        output::line(Value::from(sessions))?;
        return Ok(0);
    }
    for found in &listing.sessions {
        let (id, runs, path) = (&found.id, found.runs.len(), found.path.display());
        output::line(format_args!("{id}\t{}\t{runs} runs\t{}\t{path}", state(found), ago(found.last_used)))?;
    }
    for path in listing.odd {
        output::note(format_args!("{} is no session and is left alone", path.display()));
    }
    Ok(0)
}

/// In one word, what a session is at this moment.
pub(super) fn state(found: &Found) -> &'static str {
    if found.in_use { "in use" } else { "idle" }
}

/// A time as an age.
pub(super) fn ago(time: SystemTime) -> String {
    let seconds = time.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

fn show(store: &Store, id: &Id, json: bool) -> Done {
    let found = find(store, id)?;
    if json {
        output::line(to_json(&found))?;
        return Ok(0);
    }
    output::line(format_args!("session:  {} ({})", found.id, state(&found)))?;
    output::line(format_args!("path:     {}", found.path.display()))?;
    match found.record.readable() {
        Some(record) => {
            output::line(format_args!("owner:    {}", record.owner.as_ref().map_or("nobody".into(), owner)))?;
            output::line(format_args!("parent:   {}", record.parent.as_ref().map_or("none", Id::as_str)))?;
        }
        None => output::line(format_args!("record:   {}", gc::told(&found.record)))?,
    }
    output::line(format_args!("used:     {} ago", ago(found.last_used)))?;
    for run in &found.runs {
        output::line(format_args!("run:      {run}"))?;
    }
    for path in &found.private {
        output::line(format_args!("private:  {}", path.display()))?;
    }
    Ok(0)
}

fn owner(owner: &Owner) -> String {
    match owner.is_present() {
        Some(true) => format!("process {}, alive", owner.pid),
        Some(false) => format!("process {}, which is gone", owner.pid),
        None => format!("process {} of another pid namespace", owner.pid),
    }
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn to_json(found: &Found) -> Value {
    let record = found.record.readable();
    let owner = record.and_then(|record| record.owner.as_ref());
    let runs: Vec<Value> = found
        .runs
        .iter()
        .map(|run| {
            json!({
                "run": run.run,
                "pid": run.supervisor.as_ref().map(|owner| owner.pid),
                "command": run.command,
                "created": seconds(run.created),
            })
        })
        .collect();
    json!({
        "id": found.id,
        "state": state(found),
        "owner": owner.map(|owner| owner.pid),
        "owner_alive": owner.and_then(Owner::is_present),
        "parent": record.and_then(|record| record.parent.as_ref()),
        "created": record.map(|record| record.created),
        "last_used": seconds(found.last_used),
        "record": record.is_none().then(|| gc::told(&found.record)),
        "runs": runs,
        "private": found.private,
        "path": found.path,
    })
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

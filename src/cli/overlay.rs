//! `stockade overlay`

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Subcommand;
use serde_json::{Value, json};

use super::layers::{KEPT, remove};
use super::{Done, error::Error, output};
use crate::overlay::{self, Change, Kept, What};
use crate::session::{self, Store};

/// Look at what a run with --keep-overlay or --try wrote, take it over, or throw it away.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what is kept
    List,
    /// Show what would change on the host
    Diff {
        /// The name under which it is kept
        name: String,
        /// Only what lies at or below these paths
        path: Vec<PathBuf>,
        /// One line a change, without contents
        #[arg(long)]
        stat: bool,
        /// Print JSON
        #[arg(long, conflicts_with = "stat")]
        json: bool,
    },
    /// Make the changes on the host; refused where the host has changed the same since the run began
    Apply {
        /// The name under which it is kept
        name: String,
        /// Only what lies at or below these paths
        path: Vec<PathBuf>,
        /// Apply although the host has changed the same
        #[arg(long)]
        force: bool,
    },
    /// Throw it away
    Discard {
        /// The name under which it is kept
        name: String,
    },
}

pub(super) fn run(args: Args) -> Done {
    let store = Store::open(&session::locate(|name| std::env::var_os(name))?)?;
    match args.command {
        Command::List => list(&store),
        Command::Diff { name, path, stat, json } => {
            let changes = select(open(&store, &name)?.changes()?, &path)?;
            if json {
                output::line(Value::Array(changes.iter().map(to_json).collect()))?;
            } else {
                show(&changes, stat)?;
            }
            Ok(0)
        }
        Command::Apply { name, path, force } => apply(&open(&store, &name)?, &path, force),
        Command::Discard { name } => discard(&store, &name),
    }
}

fn directory(store: &Store) -> PathBuf {
    store.path().join(KEPT)
}

fn open(store: &Store, name: &str) -> Result<Kept, Error> {
    Ok(Kept::open(&directory(store), name)?)
}

fn list(store: &Store) -> Done {
    for found in Kept::list(&directory(store))? {
        let (command, age, paths) = match &found.made {
            Some((command, created, paths)) => (command.as_str(), age(*created), paths.as_slice()),
            None => ("(its record cannot be read)", String::new(), &[][..]),
        };
        let paths = match paths {
            [] => String::new(),
            [one] => one.display().to_string(),
            [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
        };
        let state = if found.in_use { "in use" } else { "kept" };
        let line = format!("{}\t{state}\t{age}\t{paths}\t{command}", found.name);
        output::line(output::printable_lines(&line))?;
    }
    Ok(0)
}

fn age(created: SystemTime) -> String {
    let seconds = created.elapsed().unwrap_or_default().as_secs();
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

/// The changes at or below some of the paths, with the new directories above them.
fn select(changes: Vec<Change>, paths: &[PathBuf]) -> Result<Vec<Change>, Error> {
    if paths.is_empty() {
        return Ok(changes);
    }
    let cwd = std::env::current_dir().map_err(|source| Error::NoCwd { path: ".".into(), source })?;
    let paths: Vec<PathBuf> = paths.iter().map(|path| cwd.join(path).components().collect()).collect();
    let selected: Vec<PathBuf> = changes
        .iter()
        .map(|change| change.path.clone())
        .filter(|path| paths.iter().any(|selected| path.starts_with(selected)))
        .collect();
    let is_way = |change: &Change| {
        matches!(change.what, What::Added | What::Replaced)
            && selected.iter().any(|path| path.starts_with(&change.path))
    };
    let wanted = |change: &Change| selected.contains(&change.path) || is_way(change);
    Ok(changes.into_iter().filter(wanted).collect())
}

fn apply(kept: &Kept, paths: &[PathBuf], force: bool) -> Done {
    let changes = select(kept.changes()?, paths)?;
    let conflicts: Vec<_> = changes.iter().filter(|change| change.conflict.is_some()).collect();
    if !force && !conflicts.is_empty() {
        for change in conflicts {
            let reason = change.conflict.as_ref().map(ToString::to_string).unwrap_or_default();
            output::line(output::printable(format_args!("conflict: {}: {reason}", change.path.display())))?;
        }
        output::note("nothing was applied; --force applies what the run wrote in spite of these");
        return Ok(1);
    }
    let done = overlay::apply(&changes, kept.token())?;
    for path in done.skipped {
        output::note(output::printable(format_args!("{} is a socket or device and was left out", path.display())));
    }
    output::line(format_args!("{} changes applied", done.changes))?;
    Ok(0)
}

fn discard(store: &Store, name: &str) -> Done {
    let lock = Kept::lock(&directory(store), name)?;
    remove(store, name)?;
    drop(lock);
    Ok(0)
}

/// After a run: say that something was kept; after `--try`, show it and ask.
pub(super) fn tell_kept(store: &Store, name: &str, trying: bool) -> Result<(), Error> {
    if !trying {
        return Ok(());
    }
    let kept = open(store, name)?;
    let changes = kept.changes()?;
    if changes.is_empty() {
        output::stockade("nothing outside of what is writable would have changed");
        drop(kept);
        return discard(store, name).map(drop);
    }
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !terminal {
        output::stockade(format_args!("{} changes are kept: stockade overlay diff {name}", changes.len()));
        return Ok(());
    }
    show(&changes, false)?;
    output::stockade("[a]pply, [d]iscard, or keep (anything else)?");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "a" | "apply" if apply(&kept, &[], false)? != 0 => {}
        "a" | "apply" | "d" | "discard" => {
            drop(kept);
            return discard(store, name).map(drop);
        }
        _ => {}
    }
    output::stockade(format_args!("kept: stockade overlay diff|apply|discard {name}"));
    Ok(())
}

fn show(changes: &[Change], stat: bool) -> Result<(), Error> {
    for change in changes {
        output::line(output::printable(summary(change)))?;
        if !stat && let Some(text) = text_diff(change) {
            output::line(text.trim_end())?;
        }
    }
    Ok(())
}

fn summary(change: &Change) -> String {
    let what = match change.what {
        What::Added => "added",
        What::Changed => "changed",
        What::Replaced => "replaced",
        What::Removed => "removed",
        What::Attributes => "attributes",
    };
    let slash = if change.new.or(change.old).is_some_and(|meta| meta.is_dir()) { "/" } else { "" };
    let mode = match (change.old, change.new) {
        (Some(old), Some(new)) if old.mode & 0o7777 != new.mode & 0o7777 => {
            format!(" (mode {:o} -> {:o})", old.mode & 0o7777, new.mode & 0o7777)
        }
        _ => String::new(),
    };
    let size = match (change.old, change.new) {
        (Some(old), Some(new)) if old.size != new.size && slash.is_empty() => {
            format!(" ({} -> {} bytes)", old.size, new.size)
        }
        (None, Some(new)) if slash.is_empty() => format!(" ({} bytes)", new.size),
        _ => String::new(),
    };
    let conflict = change.conflict.as_ref().map(|conflict| format!("  CONFLICT: {conflict}")).unwrap_or_default();
    format!("{what:<10} {}{slash}{mode}{size}{conflict}", change.path.display())
}

/// Contents are compared up to this size.
const TEXT: u64 = 1 << 20;

fn text_diff(change: &Change) -> Option<String> {
    let new = change.upper.as_deref().map_or(Some(String::new()), |path| overlay::text(path, TEXT))?;
    let old = change.old.map_or(Some(String::new()), |_| overlay::text(&change.path, TEXT))?;
    if old == new {
        return None;
    }
    let path = change.path.display().to_string();
    let name = |there: bool| output::printable(if there { path.as_str() } else { "/dev/null" });
    let diff = similar::TextDiff::from_lines(&old, &new);
    let text = diff.unified_diff().header(&name(change.old.is_some()), &name(change.new.is_some())).to_string();
    Some(output::printable_lines(&text))
}

fn to_json(change: &Change) -> Value {
    let side = |meta: Option<crate::overlay::Meta>| {
        meta.map(|meta| {
            json!({ "type": kind(&meta), "mode": format!("{:o}", meta.mode & 0o7777), "size": meta.size,
                    "modified": meta.modified.0 })
        })
    };
    json!({
        "path": change.path.to_string_lossy(),
        "change": change.what,
        "old": side(change.old),
        "new": side(change.new),
        "conflict": change.conflict.as_ref().map(ToString::to_string),
    })
}

fn kind(meta: &crate::overlay::Meta) -> &'static str {
    match meta.mode >> 12 {
        0o4 => "directory",
        0o10 => "file",
        0o12 => "link",
        0o1 => "fifo",
        0o14 => "socket",
        _ => "device",
    }
}

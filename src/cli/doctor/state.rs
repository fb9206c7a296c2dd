//! The state directory: made, locked, written.

use std::path::PathBuf;

use super::check::Check;
use super::place::Place;
use crate::cli::error::Error;
use crate::probe::trial;
use crate::session::{self, Lease, Store};

const NAME: &str = "state directory";
const TRIED: &str = "made a session in it, and locks that keep others out";

pub(super) fn check(place: &Place) -> Vec<Check> {
    let check = match attempt() {
        Ok((path, true)) => Check::ok(NAME, TRIED, path.display().to_string()),
        Ok((path, false)) => no_locks(&format!("a lock in {} keeps nobody out", path.display())),
        Err(Failed::Ours(error)) => Check::failed(NAME, TRIED, &error),
        Err(Failed::Locks(why)) => no_locks(&format!("files cannot be locked there: {why}")),
    };
    vec![check.after(place.hopeless())]
}

enum Failed {
    Ours(Error),
    Locks(String),
}

fn no_locks(cause: &str) -> Check {
    Check::failure(NAME, TRIED, cause).cured_by("set STOCKADE_STATE to a directory on a local disk")
}

fn attempt() -> Result<(PathBuf, bool), Failed> {
    let ours = |error: session::Error| Failed::Ours(error.into());
    let store = open().map_err(Failed::Ours)?;
    let path = store.path().to_owned();
    let lease = store.anonymous(None).map_err(ours)?;
    let held = lease
        .private("/doctor".as_ref())
        .map_err(ours)
        .and_then(|(_, dir)| trial::locks(&dir).map_err(|error| Failed::Locks(format!("{error}: {}", error.errno()))));
    lease.end().map_err(ours)?;
    Ok((path, held?))
}

/// The state directory as a run would open it.
fn open() -> Result<Store, Error> {
    let path = session::locate(|name| std::env::var_os(name))?;
    Ok(Store::open(&path)?)
}

/// Does something with a session of its own, which ends with it.
pub(super) fn with_session<T>(work: impl FnOnce(&Store, &Lease) -> Result<T, Error>) -> Result<T, Error> {
    let store = open()?;
    let lease = store.anonymous(None)?;
    let done = work(&store, &lease);
    lease.end()?;
    done
}

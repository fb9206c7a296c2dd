//! The policy that a run goes by which was started earlier.
//!
//! A run keeps no copy of its policy. What it was made of is still there: the command line and the environment with its
//! supervisor, the rest in the run's record. It is made again from these, and told only if every file and directory that
//! it came from is as it was.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::basis;
use crate::cli::error::Error;
use crate::cli::options::Asked;
use crate::cli::session::{find, open_store};
use crate::session::{Holder, Id};

/// A run that goes on, and what it was started with.
pub(super) struct Running {
    pub(super) run: Holder,
    pub(super) asked: Asked,
}

/// The runs that go on in a session.
///
/// # Errors
/// When there are none, and when the policy of one of them cannot be told.
pub(super) fn runs(session: &Id) -> Result<Vec<Running>, Error> {
    let mut runs = Vec::new();
    for run in find(&open_store()?, session)?.runs {
        match again(&run) {
            Ok(asked) => runs.push(Running { run, asked }),
            // It has ended since.
            Err(_) if run.supervisor.as_ref().and_then(crate::session::Owner::is_present) == Some(false) => {}
            Err(why) => return Err(Error::RunUntold { run: run.to_string(), why }),
        }
    }
    if runs.is_empty() { Err(Error::NothingRuns(session.clone())) } else { Ok(runs) }
}

fn again(run: &Holder) -> Result<Asked, String> {
    let supervisor = run.supervisor.as_ref().ok_or("its record cannot be read")?;
    let basis = run.basis.as_ref().ok_or("it was not written down what its policy was made of")?;
    let process = Path::new("/proc").join(supervisor.pid.to_string());
    let unreadable = |error: io::Error| format!("its supervisor cannot be looked at: {error}");
    if !is_same_program(&process).map_err(unreadable)? {
        return Err("it was started by another stockade than this one".into());
    }
    let words = strings(&process.join("cmdline")).map_err(unreadable)?;
    let env = strings(&process.join("environ")).map_err(unreadable)?;
    // From here on: what was read is the run's, and not that of a process which has its number since.
    if supervisor.is_present() != Some(true) {
        return Err("it has ended".into());
    }
    let options = crate::cli::run_options(words).ok_or("its command line is not that of `stockade run`")?;
    let asked = options.resolve_again(variables(env), PathBuf::from(&basis.cwd)).map_err(|error| in_words(&error))?;
    if basis::of(&asked.policy).as_ref() != Some(basis) {
        return Err("a policy file, or what the project is, has changed since it was started".into());
    }
    Ok(asked)
}

fn is_same_program(process: &Path) -> io::Result<bool> {
    let program = |process: &Path| process.join("exe").metadata().map(|found| (found.dev(), found.ino()));
    Ok(program(process)? == program(Path::new("/proc/self"))?)
}

/// The strings of a file in which each ends with a NUL (`proc_pid_cmdline(5)`, `proc_pid_environ(5)`).
fn strings(path: &Path) -> io::Result<Vec<OsString>> {
    let mut bytes = std::fs::read(path)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
}

fn variables(env: Vec<OsString>) -> BTreeMap<OsString, OsString> {
    let split = |variable: OsString| {
        let at = variable.as_bytes().iter().skip(1).position(|byte| *byte == b'=')? + 1;
        let (name, value) = (&variable.as_bytes()[..at], &variable.as_bytes()[at + 1..]);
        Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
    };
    env.into_iter().filter_map(split).collect()
}

pub(super) fn in_words(error: &Error) -> String {
    std::iter::once(error.to_string()).chain(error.causes()).collect::<Vec<_>>().join(": ")
}

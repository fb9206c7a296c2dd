//! `stockade bwrap`, and the whole program when it is started under the name `bwrap`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::error::Error;
use super::{options, output};
use crate::bwrap::{self, Extras, Log, PrivateTmp, Stop};
use crate::policy::{self, Context, ReportTo, Setting};
use crate::session::{self, Id, Lease, Reap, Store, Want};

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
    let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let extras = || {
        extras(line)
            .map_err(|error| std::iter::once(error.to_string()).chain(error.causes()).collect::<Vec<_>>().join(": "))
    };
    let done = bwrap::Run::prepare(words, extras).and_then(|run| {
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

/// What the user's configuration wants besides bubblewrap's view.
fn extras(line: String) -> Result<Extras, Error> {
    let env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let get = |name: &str| env.get(OsStr::new(name)).cloned();
    let Some(home) = get("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) else {
        // Nobody's configuration.
        return Ok(Extras::default());
    };
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let context = Context { home, project: cwd.clone(), cwd, env: env.clone(), ..Context::default() };
    let config = policy::Bwrap::read(&options::config_file(&context), &context)?;
    let report = config.report.as_ref().map(report).transpose()?;
    let id = session_id(&config, get)?;
    if id.is_none() && config.private_tmp.is_none() {
        return Ok(Extras { report, ..Extras::default() });
    }
    let store = Store::open(&session::locate(|name| env.get(OsStr::new(name)).cloned())?)?;
    let lease = match &id {
        Some(id) => store.session(id, &Want::default())?,
        None => store.anonymous(None)?,
    };
    let tmp = config.private_tmp.map(|origin| {
        let (_, host) = lease.private(Path::new("/tmp"))?;
        Ok::<_, session::Error>(PrivateTmp { host, option: format!("private-tmp ({origin})") })
    });
    let tmp = tmp.transpose()?;
    Ok(Extras { tmp, report, hold: Some(Box::new(move || hold(store, lease, &line, config.idle))) })
}

/// The first variable of those that name the session.
fn session_id(config: &policy::Bwrap, get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Id>, Error> {
    let mut named = config.id_from.iter().filter_map(|name| Some((name, get(name).filter(|id| !id.is_empty())?)));
    let id = named.next().map(|(name, id)| options::parse_id(id.to_string_lossy().into_owned(), &format!("${name}")));
    id.transpose()
}

fn report(setting: &Setting<ReportTo>) -> Result<Log, Error> {
    let log = |file, prefix, until_end| Log { file, guarded: false, prefix, until_end };
    match &setting.value {
        ReportTo::Stderr => {
            let file = output::copy_of_stderr().map_err(|source| Error::Report { path: "stderr".into(), source })?;
            Ok(log(file, "bwrap: ", false))
        }
        ReportTo::File(path) => {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            let file = opened.map_err(|source| Error::Report { path: path.clone(), source })?;
            Ok(log(file, "", true))
        }
    }
}

/// In the process that lives as long as the sandbox: the session is in use, and afterwards put in order.
fn hold(store: Store, lease: Lease, line: &str, idle: Duration) -> Box<dyn FnOnce()> {
    // Only for others to see.
    let record = lease.run_record(line, None);
    Box::new(move || {
        drop(record);
        if let Ok(Some(scope)) = store.needs_reaping(&lease) {
            // What cannot be removed stays for the next; nobody is left to be told.
            let _ = store.reap(Reap { scope, idle, dry_run: false, within: Some(Duration::from_secs(1)) });
        }
        let _ = lease.end();
    })
}

//! A drop-in for bubblewrap: its options, its view, its messages, and nothing is ever made on the host.
//!
//! What was typed ([`options`]) becomes a tree of steps and guarded names ([`layout`]), which is a
//! [`plan`](crate::plan::ordered) that [`launch`](crate::launch::ordered) carries out.
#![forbid(unsafe_code)]

mod capability;
mod help;
mod host;
mod layout;
mod options;
mod parse;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::launch::ordered;
use crate::plan::Caller;
use crate::plan::ordered::{Command, Guard, Ids, Joined, Namespaces, Ordered, Process};
use crate::policy::Target;
use crate::probe;
use options::{Misuse, Options, Unshare};

pub use crate::launch::ordered::{Hold, Log};
pub use help::{VERSION, help};

/// The variable that names a file for what was guarded and denied.
const LOG: &str = "BWRAP_STOCKADE_LOG";

/// Why nothing was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Help, whether it was asked for or nothing was.
    Usage { asked: bool },
    /// The version was asked for.
    Version,
    /// A message in bubblewrap's words; it is to begin with the priority of a log if that was asked for.
    Failed { text: String, level_prefix: bool },
}

/// A failure with bubblewrap's message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure(String);

impl Failure {
    fn new(text: String) -> Self {
        Self(text)
    }
}

/// The session's own `/tmp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateTmp {
    /// Where it lies on the host.
    pub host: PathBuf,
    /// Who asks for it.
    pub option: String,
}

/// What is wanted besides bubblewrap's view; nothing by default.
#[derive(Default)]
pub struct Extras {
    pub tmp: Option<PrivateTmp>,
    /// Where denials are told besides.
    pub report: Option<Log>,
    /// Holds the session as long as a process of the sandbox lives.
    pub hold: Option<Hold>,
}

/// A sandbox that can be started.
pub struct Run {
    options: Options,
    plan: Ordered,
    logs: Vec<Log>,
    hold: Option<Hold>,
}

impl Run {
    /// Read the words of a command line, without the program's name, and look at the host. `extras` are made once the words
    /// are known to be a command line.
    ///
    /// # Errors
    /// What is wrong with the options, or cannot be done here.
    pub fn prepare(words: Vec<OsString>, extras: impl FnOnce() -> Result<Extras, String>) -> Result<Self, Stop> {
        let options = parse::parse(words, std::env::vars_os().collect(), &ordered::read_descriptor)?;
        let failed = |Failure(text)| Stop::Failed { text, level_prefix: options.level_prefix };
        let extras = extras().map_err(Failure::new).map_err(failed)?;
        let plan = plan(&options, extras.tmp.as_ref()).map_err(failed)?;
        let log = open_log().map_err(failed)?;
        let log = log.map(|file| Log { file, guarded: true, prefix: "", until_end: true });
        Ok(Self { options, plan, logs: log.into_iter().chain(extras.report).collect(), hold: extras.hold })
    }

    /// What is worth saying and stops nothing.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.options.warnings
    }

    /// Do messages begin with the priority of a log?
    #[must_use]
    pub fn has_level_prefix(&self) -> bool {
        self.options.level_prefix
    }

    /// Run the command; gives its exit status as a shell does.
    ///
    /// # Errors
    /// What kept the command from being executed.
    pub fn start(self) -> Result<u8, Stop> {
        let level_prefix = self.options.level_prefix;
        let done = match self.hold {
            Some(hold) => ordered::run_held(&self.plan, self.logs, hold),
            None => ordered::run(&self.plan, self.logs),
        };
        done.map_err(|failure| Stop::Failed { text: failure.0, level_prefix })
    }
}

impl From<Misuse> for Stop {
    fn from(misuse: Misuse) -> Self {
        match misuse {
            Misuse::Usage { asked } => Self::Usage { asked },
            Misuse::Version => Self::Version,
            Misuse::Message { text, level_prefix } => Self::Failed { text, level_prefix },
        }
    }
}

/// What `strerror(3)` says of an error.
fn reason(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

fn open_log() -> Result<Option<File>, Failure> {
    let Some(path) = std::env::var_os(LOG).filter(|path| !path.is_empty()) else { return Ok(None) };
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.map(Some).map_err(|error| Failure(format!("Can't open ${LOG} {}: {}", path.display(), reason(&error))))
}

fn plan(options: &Options, tmp: Option<&PrivateTmp>) -> Result<Ordered, Failure> {
    let caller = probe::caller().map_err(|error| Failure(error.to_string()))?;
    let layout = layout::lay_out(&options.steps, tmp, &host::ThisHost::new(&caller))?;
    if let Some(guard) = &layout.guard {
        check_made_here(options, guard)?;
    }
    Ok(Ordered {
        steps: layout.steps,
        guard: layout.guard,
        namespaces: namespaces(options),
        ids: ids(options, &caller)?,
        joined: joined(options, &caller),
        capabilities: capabilities(options, &caller),
        hostname: options.hostname.clone(),
        command: command(options),
        process: process(options),
    })
}

/// Where names are guarded all namespaces have to be made here.
fn check_made_here(options: &Options, guard: &Guard) -> Result<(), Failure> {
    let Options { userns, userns2, pidns, userns_block_fd, .. } = options;
    let given =
        [("--userns", userns), ("--userns2", userns2), ("--pidns", pidns), ("--userns-block-fd", userns_block_fd)];
    let Some((name, _)) = given.into_iter().find(|(_, fd)| fd.is_some()) else { return Ok(()) };
    let guards =
        guard.rules.all().iter().find(|rule| !matches!(&rule.target, Target::Path(path) if path == Path::new("/")));
    let option = guards.map(|rule| rule.origin.to_string()).unwrap_or_default();
    Err(Failure(format!(
        "{name} cannot be had together with a guarded name ({option}): who owns the namespace, or the numbers in it, could \
         change the mounts or end who looks after them. Leave {name} out, or the denials in writable binds"
    )))
}

fn joined(options: &Options, caller: &Caller) -> Joined {
    let other = |id: Option<u32>, own: u32| id.filter(|id| *id != own && options.userns.is_some());
    Joined {
        users: options.userns,
        as_user: (other(options.uid, caller.uid), other(options.gid, caller.gid)),
        later_users: options.userns2,
        pid: options.pidns,
    }
}

fn namespaces(options: &Options) -> Namespaces {
    let Unshare { pid, net, ipc, uts, cgroup, cgroup_try, .. } = options.unshare;
    let has_cgroup = || Path::new("/proc/self/ns/cgroup").exists();
    Namespaces {
        pid,
        network: net,
        ipc,
        uts,
        cgroup: cgroup || (cgroup_try && has_cgroup()),
        no_more_users: options.disable_userns,
        assert_no_more_users: options.assert_userns_disabled,
    }
}

/// An ordinary caller has only itself. Root has all users unless it asks for a user namespace; it always gets one, in which
/// they have their own numbers.
fn ids(options: &Options, caller: &Caller) -> Result<Ids, Failure> {
    if options.userns.is_some() || options.userns_block_fd.is_some() {
        return Ok(Ids::Given);
    }
    let asked = options.unshare.user || options.unshare.user_try;
    if caller.uid == 0 && caller.can_map && !asked {
        for (name, id, own) in [("--uid", options.uid, caller.uid), ("--gid", options.gid, caller.gid)] {
            if id.is_some_and(|id| id != own) {
                return Err(Failure(format!("Specifying {name} requires --unshare-user or --userns")));
            }
        }
        return Ok(Ids::Same { users: caller.uids.clone(), groups: caller.gids.clone() });
    }
    let user = (options.uid.unwrap_or(caller.uid), caller.uid);
    Ok(Ids::One { user, group: (options.gid.unwrap_or(caller.gid), caller.gid) })
}

/// Root keeps what it has, others nothing; then the options hold in order.
fn capabilities(options: &Options, caller: &Caller) -> u64 {
    let own = if caller.uid == 0 { ordered::capabilities() } else { 0 };
    options.capabilities.iter().fold(own, |set, (add, one)| if *add { set | one.0 } else { set & !one.0 })
}

fn command(options: &Options) -> Command {
    let get = |name: &str| options.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let program = options.command.first().cloned().unwrap_or_default();
    let mut words = options.command.clone();
    if let (Some(first), Some(name)) = (words.first_mut(), &options.argv0) {
        first.clone_from(name);
    }
    let otherwise = working_directory(get("PWD").as_deref()).into_iter().chain(get("HOME").map(PathBuf::from));
    Command {
        program,
        words,
        environment: options.environment.clone(),
        directory: options.chdir.clone(),
        otherwise: otherwise.collect(),
    }
}

/// As the caller names it, if that is what it is (`get_current_dir_name(3)`).
fn working_directory(pwd: Option<&OsStr>) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let cwd = std::env::current_dir().ok()?;
    let file = |path: &Path| path.metadata().map(|stat| (stat.dev(), stat.ino())).ok();
    let named =
        pwd.map(PathBuf::from).filter(|pwd| pwd.is_absolute() && file(pwd).is_some_and(|it| Some(it) == file(&cwd)));
    Some(named.unwrap_or(cwd))
}

fn process(options: &Options) -> Process {
    Process {
        new_session: options.new_session,
        die_with_parent: options.die_with_parent,
        as_pid_1: options.as_pid_1,
        sync: options.sync_fd,
        block: options.block_fd,
        block_maps: options.userns_block_fd,
        info: options.info_fd,
        status: options.json_status_fd,
        filters: options.seccomp.into_iter().chain(options.seccomps.iter().copied()).collect(),
        locks: options.lock_files.clone(),
    }
}

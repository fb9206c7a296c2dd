//! What `run`, `explain` and `why` share: from what was typed to a policy and a request.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};

use super::error::Error;
use crate::plan::{ProcView, Request};
use crate::policy::{self, Access, Context, Flag, GitLacks, GitMode, Network, Origin, Policy, Sources};
use crate::session::{self, Id, Owner, Want};
use crate::{launch, probe};

#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Options {
    /// Run in this session: its /tmp, /var/tmp and other private directories are kept between runs
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Share the private directories of this session, and keep it alive
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// The process that the session belongs to: when it has ended, and nothing runs any more, the session ends
    #[arg(long, value_name = "PID")]
    owner: Option<u32>,
    /// Read a policy file (after the user's own); may be given several times, later files win
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// Do not read the user's own config.toml
    #[arg(long)]
    no_config: bool,
    #[command(flatten)]
    rules: RuleFlags,
    /// The network that the command sees
    #[arg(long, value_name = "MODE")]
    network: Option<NetworkArg>,
    /// Guard the project's .git (only what git's everyday commands write is writable), close it, or leave it open
    #[arg(long, value_name = "MODE")]
    git: Option<GitArg>,
    /// Start the command's programs with a library that spares most questions to the supervisor (default: on)
    #[arg(long, value_name = "SWITCH")]
    fast_path: Option<Switch>,
    /// Refuse or end a run where the default is to state a known limit
    #[arg(long)]
    strict: bool,
    /// Limit what the run may use: pids, memory, cpu-time, open-files, file-size, wall-time or tmp-bytes
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<String>,
    /// Let writes succeed everywhere: outside of what is writable they go to a layer that ends with the run
    #[arg(long)]
    redirect: bool,
    /// Show the usual tool caches of the home directory as overlays: filled, and never changed by the run
    #[arg(long)]
    caches: bool,
    /// Keep what is written to overlays under this name (see `stockade overlay`)
    #[arg(long, value_name = "NAME")]
    keep_overlay: Option<String>,
    /// Change nothing but what is writable, show afterwards what would have changed, and ask what to do with it
    #[arg(long = "try")]
    try_first: bool,
    /// Start the command in this directory
    #[arg(long, value_name = "DIR")]
    chdir: Option<PathBuf>,
    /// Set a variable of the command's environment
    #[arg(long, value_name = "NAME=VALUE")]
    setenv: Vec<OsString>,
    /// Leave user namespaces usable inside
    #[arg(long)]
    allow_userns: bool,
    /// Become this user first (root only)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Show a new /proc, or the host's where a new one is refused
    #[arg(long, value_name = "VIEW", default_value = "fresh")]
    proc: ProcArg,
    /// Pass this many descriptors, from 3 on, to the command
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    preserve_fds: u32,
    /// End the run when the process that started stockade ends
    #[arg(long)]
    die_with_parent: bool,
}

/// What is run: not for commands that take a path in its place.
#[derive(Debug, Default, clap::Args)]
pub(super) struct CommandLine {
    /// The command and its arguments; without one, $SHELL
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The flags that make rules.
#[derive(Debug, Default)]
struct RuleFlags(Vec<Flag>);

const RULE_FLAGS: [(&str, Access, &str); 5] = [
    ("write", Access::Write, "Make a path writable"),
    ("read", Access::Read, "Make a path readable and not writable, whether it exists or not"),
    ("hide", Access::Hide, "Hide a path"),
    ("private", Access::Private, "Show a directory of the session's own at a path"),
    ("overlay", Access::Overlay, "Let writes to a path go to a layer that ends with the run"),
];

impl clap::FromArgMatches for RuleFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Vec::new();
        for (name, access, _) in RULE_FLAGS {
            let values = matches.get_many::<OsString>(name).into_iter().flatten();
            flags.extend(values.map(|value| Flag { access, value: value.clone() }));
        }
        Ok(Self(flags))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for RuleFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        RULE_FLAGS.into_iter().fold(command, |command, (name, _, help)| {
            command.arg(
                clap::Arg::new(name)
                    .long(name)
                    .value_name("PATH")
                    .help(help)
                    .action(clap::ArgAction::Append)
                    .value_parser(clap::value_parser!(OsString)),
            )
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NetworkArg {
    None,
    Host,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GitArg {
    Guarded,
    Closed,
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProcArg {
    Fresh,
    Host,
}

/// What was asked for, in full.
pub(super) struct Asked {
    /// What the policy was made of.
    pub(super) sources: Sources,
    pub(super) policy: Policy,
    pub(super) request: Request,
    pub(super) session: Option<Id>,
    pub(super) want: Want,
    /// Show what would have changed, and ask.
    pub(super) trying: bool,
}

impl Options {
    /// Become the user, find the circumstances, read the policy.
    pub(super) fn resolve(self, command: CommandLine) -> Result<Asked, Error> {
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        if let Some(name) = &self.user {
            env = launch::become_user(name, env).map_err(Error::User)?;
        }
        self.check_preserved()?;
        let context = context(env, self.chdir.as_deref())?;
        let sources = self.sources(context);
        let mut policy = load(&sources)?;
        for text in &self.setenv {
            policy.environment.set.push(variable(text)?);
        }
        let session = self.session_id(&policy)?;
        let want = want(self.parent.clone(), self.owner)?;
        if session.is_none() && want.owner.is_some() {
            return Err(Error::OwnerOfNothing);
        }
        let trying = self.try_first;
        let request = self.into_request(command, &policy, session.as_ref());
        Ok(Asked { sources, policy, request, session, want, trying })
    }

    /// The policy of a run that was started with these options, in other circumstances than ours. Of what a run is besides
    /// its policy only that is there which a plan needs.
    pub(super) fn resolve_again(self, env: BTreeMap<OsString, OsString>, cwd: PathBuf) -> Result<Asked, Error> {
        if self.user.is_some() {
            return Err(Error::OtherUser);
        }
        let sources = self.sources(context_at(env, cwd)?);
        let policy = load(&sources)?;
        let request = self.into_request(CommandLine::default(), &policy, None);
        Ok(Asked { sources, policy, request, session: None, want: Want::default(), trying: false })
    }

    /// `--session`, as it was given.
    pub(super) fn named_session(&self) -> Option<Result<Id, Error>> {
        self.session.clone().map(|text| parse_id(text, "--session"))
    }

    /// How many descriptors, from 3 on, are the command's.
    pub(super) fn preserved(&self) -> u32 {
        self.preserve_fds
    }

    /// Does an option make a rule?
    pub(super) fn has_rules(&self) -> bool {
        !self.rules.0.is_empty()
    }

    fn sources(&self, context: Context) -> Sources {
        let flag = |text: &str| Origin::Flag(text.to_owned());
        let config = (!self.no_config).then(|| config_file(&context));
        Sources {
            context,
            config,
            files: self.policy.clone(),
            flags: self.rules.0.clone(),
            network: self.network.map(|mode| match mode {
                NetworkArg::None => (Network::None, flag("--network none")),
                NetworkArg::Host => (Network::Host, flag("--network host")),
            }),
            git: self.git.map(|mode| match mode {
                GitArg::Guarded => (GitMode::Guarded, flag("--git guarded")),
                GitArg::Closed => (GitMode::Closed, flag("--git closed")),
                GitArg::Open => (GitMode::Open, flag("--git open")),
            }),
            fast_path: self.fast_path.map(|switch| match switch {
                Switch::On => (true, flag("--fast-path on")),
                Switch::Off => (false, flag("--fast-path off")),
            }),
            limits: self.limit.clone(),
            strict: self.strict,
            redirect: self.redirected().map(flag),
            caches: self.caches,
        }
    }

    fn redirected(&self) -> Option<&'static str> {
        let flags = [(self.redirect, "--redirect"), (self.try_first, "--try")];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }

    /// `--session`, `$STOCKADE_SESSION`, or the first variable of `id-from` that is set.
    fn session_id(&self, policy: &Policy) -> Result<Option<Id>, Error> {
        let env = &policy.context.env;
        let variable = |name: &str| {
            let value = env.get(std::ffi::OsStr::new(name)).filter(|value| !value.is_empty())?;
            Some((value.to_string_lossy().into_owned(), format!("${name}")))
        };
        let named = std::iter::once("STOCKADE_SESSION").chain(policy.session.id_from.iter().map(String::as_str));
        let given = self.session.clone().map(|id| (id, "--session".to_owned()));
        let Some((text, origin)) = given.or_else(|| named.into_iter().find_map(variable)) else { return Ok(None) };
        parse_id(text, &origin).map(Some)
    }

    fn into_request(self, CommandLine { command }: CommandLine, policy: &Policy, session: Option<&Id>) -> Request {
        let shell = || policy.context.env.get(std::ffi::OsStr::new("SHELL")).cloned();
        let argv = if command.is_empty() {
            vec![shell().filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())]
        } else {
            command
        };
        Request {
            argv,
            session: session.map(|id| id.as_str().to_owned()),
            cwd: policy.context.cwd.clone(),
            proc: match self.proc {
                ProcArg::Fresh => ProcView::Fresh,
                ProcArg::Host => ProcView::Host,
            },
            nested_userns: self.allow_userns,
            preserve_fds: self.preserve_fds,
            die_with_parent: self.die_with_parent,
            keep: self.keep_overlay.or_else(|| self.try_first.then(name_of_try)),
        }
    }

    /// What is passed on must be open, and no directory: through one the command could leave the sandbox.
    fn check_preserved(&self) -> Result<(), Error> {
        for fd in 3..3 + self.preserve_fds {
            let path = Path::new("/proc/self/fd").join(fd.to_string());
            let stat = std::fs::metadata(&path).map_err(|source| Error::NoDescriptor { fd, source })?;
            if stat.is_dir() {
                return Err(Error::Preserve { what: "--preserve-fds", fd, is: "a directory" });
            }
        }
        Ok(())
    }
}

/// What is wanted of a session by `--parent` and `--owner`.
pub(super) fn want(parent: Option<String>, owner: Option<u32>) -> Result<Want, Error> {
    let parent = parent.map(|text| parse_id(text, "--parent")).transpose()?;
    let find = |pid| Owner::of(pid)?.ok_or(Error::NoOwner(pid));
    Ok(Want { parent, owner: owner.map(find).transpose()?, ..Want::default() })
}

/// A session id as it was given by `origin`.
pub(super) fn parse_id(text: String, origin: &str) -> Result<Id, Error> {
    text.parse().map_err(|source| Error::Id { text, origin: origin.to_owned(), source })
}

/// The policy of a run here without flags.
pub(super) fn own_policy() -> Result<Policy, Error> {
    let context = context(std::env::vars_os().collect(), None)?;
    let config = Some(config_file(&context));
    Ok(policy::load(&Sources { context, config, ..Sources::default() })?)
}

/// The policy. What a rule needs that gets into the project's `.git` by a link is known only when that was followed.
pub(super) fn load(sources: &Sources) -> Result<Policy, policy::Error> {
    let policy = policy::load(sources)?;
    if !probe::opens_what_git_lacks(&policy) {
        return Ok(policy);
    }
    let context = Context { git_lacks: GitLacks::default(), ..sources.context.clone() };
    policy::load(&Sources { context, ..sources.clone() })
}

/// Where the user's own configuration is, or would be.
pub(super) fn own_config() -> Result<PathBuf, Error> {
    Ok(config_file(&own_context()?))
}

/// The circumstances of a run that would start here and now.
pub(super) fn own_context() -> Result<Context, Error> {
    context(std::env::vars_os().collect(), None)
}

/// How long an unused session lives by the user's own configuration.
pub(super) fn idle() -> Result<Duration, Error> {
    let context = context(std::env::vars_os().collect(), None)?;
    let config = Some(config_file(&context));
    Ok(policy::load(&Sources { context, config, ..Sources::default() })?.session.idle)
}

fn name_of_try() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("try-{}-{}", since.as_secs(), std::process::id())
}

fn variable(text: &OsString) -> Result<(OsString, OsString), Error> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = text.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) if at > 0 => {
            Ok((OsString::from_vec(bytes[..at].to_vec()), OsString::from_vec(bytes[at + 1..].to_vec())))
        }
        _ => Err(Error::Variable(text.to_string_lossy().into_owned())),
    }
}

fn context(env: BTreeMap<OsString, OsString>, chdir: Option<&Path>) -> Result<Context, Error> {
    if let Some(path) = chdir {
        std::env::set_current_dir(path).map_err(|source| Error::Chdir { path: path.to_owned(), source })?;
    }
    context_at(env, current_dir()?)
}

/// The working directory.
pub(super) fn current_dir() -> Result<PathBuf, Error> {
    std::env::current_dir().map_err(|source| Error::NoCwd { path: lost_cwd(), source })
}

fn context_at(env: BTreeMap<OsString, OsString>, cwd: PathBuf) -> Result<Context, Error> {
    let get = |name: &str| env.get(std::ffi::OsStr::new(name)).cloned();
    let state = session::locate(get)?;
    let home = get("HOME").map(PathBuf::from).filter(|home| home.is_absolute()).ok_or(Error::NoHome)?;
    let project = project(&cwd);
    let linked = probe::linked(&project);
    let git_lacks = probe::git_lacks(&project);
    Ok(Context { home, cwd, project, linked, git_lacks, state, env })
}

/// What a working directory that was deleted was called; the kernel adds " (deleted)".
fn lost_cwd() -> PathBuf {
    let link = std::fs::read_link("/proc/self/cwd").unwrap_or_default();
    link.to_str().and_then(|text| text.strip_suffix(" (deleted)")).map(PathBuf::from).unwrap_or(link)
}

/// The git work tree around a directory, else the directory.
fn project(cwd: &Path) -> PathBuf {
    let work_tree = cwd.ancestors().find(|dir| std::fs::symlink_metadata(dir.join(".git")).is_ok());
    work_tree.unwrap_or(cwd).to_owned()
}

pub(super) fn config_file(context: &Context) -> PathBuf {
    let base = context.env.get(std::ffi::OsStr::new("XDG_CONFIG_HOME")).map(PathBuf::from);
    base.filter(|base| base.is_absolute()).unwrap_or_else(|| context.home.join(".config")).join("stockade/config.toml")
}

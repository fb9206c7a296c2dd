//! From files and flags to a [`Policy`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::Problem;
use super::expand::{expand, normalise, unescape};
use super::file::{Element, PolicyFile};
use super::layers::Layers;
use super::settings::Settings;
use super::{
    Access, Backing, Context, Error, GitMode, Network, Origin, Pattern, Policy, Rule, Rules, Scope, Target, builtin,
};

/// Everything that a policy is made of, in the order of the layers.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// What `~`, variables and relative paths refer to.
    pub context: Context,
    /// The user's own file; it need not exist.
    pub config: Option<PathBuf>,
    /// Files named by the caller, each a layer of its own; they must exist.
    pub files: Vec<PathBuf>,
    /// Rules from the command line, in the order typed; together one layer.
    pub flags: Vec<Flag>,
    /// The network, if the command line or the environment says which.
    pub network: Option<(Network, Origin)>,
    /// The treatment of `.git`, likewise.
    pub git: Option<(GitMode, Origin)>,
    /// Limits from the command line, as `name=value`.
    pub limits: Vec<String>,
    /// The fast path, if the command line says.
    pub fast_path: Option<(bool, Origin)>,
    /// `--strict` was given.
    pub strict: bool,
    /// Who asks for everything outside of what is writable to be an overlay.
    pub redirect: Option<Origin>,
    /// Add the usual tool caches as overlays.
    pub caches: bool,
}

/// A flag that makes a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// What the flag is called after.
    pub access: Access,
    /// The path or pattern.
    pub value: OsString,
}

/// Reads the files and puts every layer together.
///
/// # Errors
/// A file that must exist and cannot be read; anything in a file or flag that is malformed, contradicts its own layer,
/// or would open stockade's own state.
pub fn load(sources: &Sources) -> Result<Policy, Error> {
    let mut files = read_files(sources)?;
    let mut settings = Settings::built_in();
    for file in &files {
        settings.add_file(file)?;
    }
    settings.add_flags(sources)?;
    let rules = gather_rules(sources, &settings, &mut files)?;
    let Settings { network, environment, session, git, strict, fast_path, overlay, redirect, limits } = settings;
    let context = sources.context.clone();
    let files = files.into_iter().map(|file| file.stamp).collect();
    Ok(Policy {
        rules,
        network,
        environment,
        session,
        git,
        strict,
        fast_path,
        limits,
        overlay,
        redirect,
        files,
        context,
    })
}

/// Would a policy file with this text be taken, as far as can be told without a run?
///
/// # Errors
/// As [`load`].
pub fn check(name: &Path, text: &str, context: &Context) -> Result<(), Error> {
    let mut file = PolicyFile::parse(name, context.cwd.clone(), text.to_owned())?;
    let sources = Sources { context: context.clone(), ..Sources::default() };
    let mut settings = Settings::built_in();
    settings.add_file(&file)?;
    gather_rules(&sources, &settings, std::slice::from_mut(&mut file)).map(|_| ())
}

fn read_files(sources: &Sources) -> Result<Vec<PolicyFile>, Error> {
    let cwd = &sources.context.cwd;
    let config = sources.config.as_ref().map(|path| PolicyFile::read_if_present(path, cwd)).transpose()?.flatten();
    let named = sources.files.iter().map(|path| {
        let file = PolicyFile::read(path, cwd)?;
        let bwrap = file.document.bwrap.as_ref().map(|table| table.span().start);
        bwrap.map_or(Ok(()), |at| Err(file.fault(at, Problem::NotHere))).map(|()| file)
    });
    config.map(Ok).into_iter().chain(named).collect()
}

fn gather_rules(sources: &Sources, settings: &Settings, files: &mut [PolicyFile]) -> Result<Rules, Error> {
    let context = &sources.context;
    let mut layers = Layers::new(&context.state);
    let built_in = builtin::Choices { git: settings.git.value, network: settings.network.value };
    for rule in builtin::rules(context, &built_in) {
        layers.add_built_in(rule);
    }
    for file in files {
        layers.begin();
        add_file(file, context, &mut layers)?;
    }
    if sources.caches {
        layers.begin();
        for rule in builtin::caches(context) {
            layers.add(rule).map_err(|problem| Error::written(Origin::Flag("--caches".into()), problem))?;
        }
    }
    layers.begin();
    for flag in &sources.flags {
        add_flag(flag, context, &mut layers)?;
    }
    let late: Vec<Rule> = builtin::late_rules(context, &built_in, |dir| layers.opens(dir)).collect();
    Ok(layers.finish(late))
}

fn add_file(file: &mut PolicyFile, context: &Context, layers: &mut Layers) -> Result<(), Error> {
    for (access, element) in file.take_elements() {
        let offset = element.span().start;
        let origin = file.origin(offset);
        let rule = element_rule(access, element.into_inner(), origin, &file.base, context);
        let added = rule.and_then(|rule| rule.map_or(Ok(()), |rule| layers.add(rule)));
        added.map_err(|problem| file.fault(offset, problem))?;
    }
    Ok(())
}

/// The rule of a list element; none if it is optional and speaks of a variable that is not set, so of no path at all.
fn element_rule(
    access: Access,
    element: Element,
    origin: Origin,
    base: &Path,
    context: &Context,
) -> Result<Option<Rule>, Problem> {
    let Element { path, optional, size, backing, scope, reason } = element;
    if access != Access::Overlay {
        refuse_overlay_keys(size, backing, scope)?;
    }
    if size.is_some() && (backing == Some(Backing::Disk) || scope == Some(Scope::Session)) {
        return Err(Problem::DiskSize);
    }
    let target = match target(access, OsStr::new(&path), base, context) {
        Err(Problem::UnsetVariable(_)) if optional => return Ok(None),
        other => other?,
    };
    let (plain, backing) = (false, backing.unwrap_or_default());
    let reason = reason.map(Into::into);
    Ok(Some(Rule { target, access, origin, optional, reason, plain, size, backing, scope }))
}

fn refuse_overlay_keys(size: Option<u64>, backing: Option<Backing>, scope: Option<Scope>) -> Result<(), Problem> {
    let keys = [("size", size.is_some()), ("backing", backing.is_some()), ("scope", scope.is_some())];
    keys.iter().find(|(_, said)| *said).map_or(Ok(()), |(key, _)| Err(Problem::OnlyOverlay(key)))
}

fn add_flag(flag: &Flag, context: &Context, layers: &mut Layers) -> Result<(), Error> {
    let Flag { access, value } = flag;
    let origin = Origin::Flag(format!("--{access} {}", value.display()));
    let added = target(*access, value, &context.cwd, context).and_then(|target| {
        let (access, origin) = (*access, origin.clone());
        let (optional, reason, plain, size, backing, scope) = (false, None, false, None, Backing::default(), None);
        layers.add(Rule { target, access, origin, optional, reason, plain, size, backing, scope })
    });
    added.map_err(|problem| Error::written(origin, problem))
}

fn target(access: Access, written: &OsStr, base: &Path, context: &Context) -> Result<Target, Problem> {
    let expanded = expand(written.as_bytes(), context)?;
    if !expanded.is_pattern {
        return normalise(&unescape(&expanded.text), base).map(Target::Path);
    }
    if !matches!(access, Access::Read | Access::Write) {
        return Err(Problem::PatternAccess(access));
    }
    Pattern::parse(&expanded.text, base, &written.to_string_lossy()).map(Target::Pattern)
}

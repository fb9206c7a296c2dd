//! The environment of the command.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::{PRELOAD, Request};
use crate::policy::{Environment, GitMode, Policy};

/// What the command gets, and what that asks of the file system.
pub(super) struct Built {
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Directories that we name to the command, and the variable that names each.
    pub(super) promised: Vec<(PathBuf, &'static str)>,
    /// Directories that inherited variables name and that must exist where they lie below a private one.
    pub(super) wanted: Vec<PathBuf>,
}

impl Built {
    /// The job's temporary directory is private and lies here: it has to be writable, and the variable must lead to it.
    pub(super) fn name_job_tmp(&mut self, tmp: Option<PathBuf>) {
        let Some(tmp) = tmp else { return };
        let variable = self.variables.iter_mut().find(|(name, _)| name == JOB_DIR);
        if let (Some((_, value)), true) = (variable, tmp.starts_with(MOVED_JOBS)) {
            *value = tmp.parent().unwrap_or(&tmp).into();
        }
        self.promised.push((tmp, JOB_DIR));
    }

    /// Have programs started with the fast path's library, behind those that they are started with anyway.
    pub(super) fn preload(&mut self) {
        for (name, added) in PRELOADING {
            match self.variables.iter_mut().find(|(other, _)| other == name) {
                Some((_, value)) if !value.is_empty() => value.push([":", added].concat()),
                Some((_, value)) => *value = added.into(),
                None => self.variables.push((name.into(), added.into())),
            }
        }
    }
}

/// Variables to which the fast path adds something, after what is there. The first is a list of libraries (`ld.so(8)`). In
/// the second a sanitizer that is a library is told not to insist on being the first one.
const PRELOADING: [(&str, &str); 2] = [("LD_PRELOAD", PRELOAD), ("ASAN_OPTIONS", "verify_asan_link_order=0")];

const JOB_DIR: &str = "CLAUDE_JOB_DIR";
/// Below this lies what stands in for a job directory that cannot be changed at its own place.
pub(super) const MOVED_JOBS: &str = "/tmp/.job";

/// The variables of the command. `PWD` stays as the caller spelt it while it leads to the working directory (`environ(7)`).
pub(super) fn build(policy: &Policy, request: &Request, pwd_is_cwd: bool) -> Built {
    let mut env = inherited(&policy.context.env, &policy.environment);
    add_ours(&mut env, request);
    if policy.git.value == GitMode::Guarded {
        add_git_configuration(&mut env);
    }
    if !pwd_is_cwd {
        env.insert("PWD".into(), request.cwd.clone().into());
    }
    for (name, value) in &policy.environment.set {
        env.insert(name.clone(), value.clone());
    }
    let set_by_user = policy.environment.set.iter().any(|(name, _)| name == "TMPDIR");
    let promised = if set_by_user { Vec::new() } else { vec![(PathBuf::from("/tmp"), "TMPDIR")] };
    let wanted = env.get(OsStr::new("XDG_RUNTIME_DIR")).map(PathBuf::from).filter(|path| path.is_absolute());
    Built { variables: env.into_iter().collect(), promised, wanted: wanted.into_iter().collect() }
}

fn inherited(env: &BTreeMap<OsString, OsString>, rules: &Environment) -> BTreeMap<OsString, OsString> {
    let kept = |name: &OsStr| rules.keep.as_ref().is_none_or(|keep| keep.iter().any(|pattern| matches(pattern, name)));
    let removed = |name: &OsStr| rules.unset.iter().any(|pattern| matches(pattern, name));
    env.iter()
        .filter(|(name, _)| kept(name) && !removed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A name, or a name with a final `*` for any rest.
fn matches(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
        None => name == pattern,
    }
}

fn add_ours(env: &mut BTreeMap<OsString, OsString>, request: &Request) {
    env.insert("TMPDIR".into(), "/tmp".into());
    for name in ["TMP", "TEMP"] {
        if env.contains_key(OsStr::new(name)) {
            env.insert(name.into(), "/tmp".into());
        }
    }
    env.insert("STOCKADE".into(), "1".into());
    match &request.session {
        Some(id) => env.insert("STOCKADE_SESSION".into(), id.into()),
        None => env.remove(OsStr::new("STOCKADE_SESSION")),
    };
}

/// Settings with which git's everyday commands need nothing that a guarded `.git` refuses.
const GIT_CONFIGURATION: [(&str, &str); 2] = [
    // By `git am`. The other way writes a todo list whose `exec` lines git outside would run.
    ("rebase.backend", "apply"),
    // A branch made from a remote one is not noted in `.git/config` as following it.
    ("branch.autoSetupMerge", "false"),
];

/// Adds to the settings that the caller gives git by the environment (`git(1)`, `GIT_CONFIG_COUNT`).
fn add_git_configuration(env: &mut BTreeMap<OsString, OsString>) {
    let count = match env.get(OsStr::new("GIT_CONFIG_COUNT")).map(|count| count.to_str().map(str::parse::<usize>)) {
        None => 0,
        Some(Some(Ok(count))) => count,
        // git will say what is wrong with it.
        Some(_) => return,
    };
    for (index, (key, value)) in (count..).zip(GIT_CONFIGURATION) {
        env.insert(format!("GIT_CONFIG_KEY_{index}").into(), key.into());
        env.insert(format!("GIT_CONFIG_VALUE_{index}").into(), value.into());
        env.insert("GIT_CONFIG_COUNT".into(), (index + 1).to_string().into());
    }
}

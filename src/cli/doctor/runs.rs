//! Whole runs, of real commands.

use std::ffi::OsString;
use std::path::Path;

use super::check::Check;
use super::namespaces;
use super::place::Place;
use super::state::with_session;
use crate::cli::error::Error;
use crate::launch::{self, Failure, Status};
use crate::plan::{self, Request};
use crate::policy::{self, Context, Network, Origin, Policy, Sources};
use crate::{probe, session};

const ANYWHERE: &str = "ran a command that wrote to its /tmp, without network";
const HERE: &str = "ran a command with the rules of this place, which asked whether it may write here";

pub(super) fn check(place: &Place) -> Vec<Check> {
    let cause = place.hopeless().or_else(|| namespaces::refused(place));
    let anywhere = anywhere().after(cause);
    let works = anywhere.severity == super::Severity::Ok;
    // What fails everywhere need not be said of this place too.
    std::iter::once(anywhere).chain(works.then(|| here(place))).collect()
}

/// Only the built-in rules, from the root directory.
fn anywhere() -> Check {
    let name = "a run";
    let attempt = |network| {
        let state = session::locate(|name| std::env::var_os(name))?;
        let context = Context { home: "/".into(), cwd: "/".into(), project: "/".into(), state, ..Context::default() };
        let network = Some((network, Origin::Flag("doctor".into())));
        let policy = policy::load(&Sources { context, network, ..Sources::default() })?;
        attempt(&policy, ": > /tmp/doctor && test -w /tmp/doctor && test \"$$\" -gt 1")
    };
    match attempt(Network::None) {
        Ok(()) => Check::ok(name, ANYWHERE, "a command ran in a sandbox of its own"),
        Err(error) if attempt(Network::Host).is_ok() => {
            Check { cure: Some("`stockade run --network host` works".into()), ..Check::failed(name, ANYWHERE, &error) }
        }
        Err(error) => Check::failed(name, ANYWHERE, &error),
    }
}

/// As `stockade run` without flags would, here. Nothing is written: the question goes the same way as a write.
fn here(place: &Place) -> Check {
    let name = "a run here";
    let policy = match &place.policy {
        Ok(policy) => policy,
        Err(error) => return Check::failed(name, HERE, error),
    };
    let project = &policy.context.project;
    let script = if probe::trial::writable(&policy.context.cwd) { "test -r . && test -w ." } else { "test -d ." };
    match attempt(policy, script) {
        Ok(()) => Check::ok(name, HERE, format!("a command ran in {}", project.display())),
        Err(error) => Check::failed(name, HERE, &error),
    }
}

fn attempt(policy: &Policy, script: &str) -> Result<(), Error> {
    let argv = command(script);
    with_session(|_, lease| {
        let facts = probe::facts(policy)?;
        let request = Request { argv, cwd: policy.context.cwd.clone(), ..Request::default() };
        let plan = plan::build(policy, facts, request)?;
        match launch::start(&plan, lease, &[], None).and_then(launch::Running::wait)?.status {
            Status::Exited(0) => Ok(()),
            other => {
                let cause = format!("the trial command ({script}) ended with {other:?}");
                Err(Failure::because(launch::Step::Exec, cause).into())
            }
        }
    })
}

/// Where there is no shell, at least something is executed.
fn command(script: &str) -> Vec<OsString> {
    if Path::new("/bin/sh").exists() {
        return vec!["/bin/sh".into(), "-c".into(), script.into()];
    }
    let ourselves = std::env::current_exe().map_or_else(|_| "stockade".into(), OsString::from);
    vec![ourselves, "--version".into()]
}

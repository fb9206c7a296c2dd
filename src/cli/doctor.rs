//! `stockade doctor`

use std::ffi::OsString;
use std::path::Path;

use super::error::Error;
use super::{Done, output};
use crate::launch::{self, Failure, Status};
use crate::plan::Request;
use crate::policy::{self, Context, Network, Origin, Sources};
use crate::session::{self, Store};
use crate::{plan, probe};

/// Try for real what a run needs; exit 1 if a run cannot work.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// The result of one check: what it found, or why a run cannot work and what to do.
struct Check {
    name: &'static str,
    found: Result<String, (String, Option<String>)>,
}

pub(super) fn run(_args: &Args) -> Done {
    let checks = [kernel(), proc_mounted(), namespaces(), notification(), state(), whole_run()];
    let mut works = true;
    for check in checks {
        match check.found {
            Ok(found) => output::line(format_args!("ok    {}: {found}", check.name))?,
            Err((cause, cure)) => {
                works = false;
                output::line(format_args!("FAIL  {}: {cause}", check.name))?;
                if let Some(cure) = cure {
                    output::line(format_args!("      cure: {cure}"))?;
                }
            }
        }
    }
    Ok(u8::from(!works))
}

fn kernel() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.trim().split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let found = if version >= (5, 14) {
        Ok(format!("Linux {}", release.trim()))
    } else {
        Err((format!("Linux {:?} is older than 5.14", release.trim()), Some("use a newer kernel".into())))
    };
    Check { name: "kernel", found }
}

fn proc_mounted() -> Check {
    let found = match std::fs::read_link("/proc/self") {
        Ok(_) => Ok("mounted".into()),
        Err(error) => Err((format!("/proc is not usable: {error}"), Some("mount -t proc proc /proc".into()))),
    };
    Check { name: "/proc", found }
}

/// The settings that forbid user namespaces, in words of cause and cure.
fn namespaces() -> Check {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let set_to = |path: &str, value: &str| read(path).as_deref() == Some(value);
    let found = if set_to("/proc/sys/user/max_user_namespaces", "0") {
        Err((
            "user.max_user_namespaces is 0: no user namespace can be made".to_owned(),
            Some("sysctl user.max_user_namespaces=10000 (as root, outside of any sandbox)".to_owned()),
        ))
    } else if set_to("/proc/sys/kernel/unprivileged_userns_clone", "0")
        && !probe::caller().is_ok_and(|caller| caller.can_map)
    {
        Err((
            "kernel.unprivileged_userns_clone is 0".to_owned(),
            Some("sysctl kernel.unprivileged_userns_clone=1".to_owned()),
        ))
    } else if set_to("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        Ok("restricted by AppArmor (kernel.apparmor_restrict_unprivileged_userns = 1): see whether a run works".into())
    } else {
        Ok("no setting forbids user namespaces".into())
    };
    Check { name: "user namespaces", found }
}

fn notification() -> Check {
    let found = if probe::can_guard() {
        Ok("seccomp can ask a supervisor".into())
    } else {
        Err((
            "seccomp user notification is not available: a stricter rule inside a writable place cannot be enforced"
                .into(),
            Some("a kernel with CONFIG_SECCOMP_FILTER, and no outer sandbox that uses notification itself".into()),
        ))
    };
    Check { name: "notification", found }
}

fn state() -> Check {
    let opened = session::locate(|name| std::env::var_os(name)).and_then(|path| Store::open(&path));
    let found = match opened {
        Ok(store) => Ok(store.path().display().to_string()),
        Err(error) => {
            let hint = error.hint();
            Err((Error::from(error).to_string(), hint))
        }
    };
    Check { name: "state directory", found }
}

/// A real run of a real command, without network and with it.
fn whole_run() -> Check {
    let found = match [Network::None, Network::Host].map(try_run) {
        [Ok(()), _] => Ok("a command ran in a sandbox of its own".into()),
        [Err(error), Ok(())] => {
            Err((text(&error), Some("only a network namespace is refused: `--network host` works".into())))
        }
        [Err(error), Err(_)] => {
            let hint = error.hint();
            Err((text(&error), hint))
        }
    };
    Check { name: "a run", found }
}

fn text(error: &Error) -> String {
    std::iter::once(error.to_string()).chain(error.causes()).collect::<Vec<_>>().join(": ")
}

fn try_run(network: Network) -> Result<(), Error> {
    let state = session::locate(|name| std::env::var_os(name))?;
    let context = Context { home: "/".into(), cwd: "/".into(), project: "/".into(), state, ..Context::default() };
    let cwd = context.cwd.clone();
    let sources = Sources { context, network: Some((network, Origin::Flag("doctor".into()))), ..Sources::default() };
    let policy = policy::load(&sources)?;
    let argv = vec![std::env::current_exe().map(OsString::from)?, "--version".into()];
    let facts = probe::facts(&policy)?;
    let plan = plan::build(&policy, facts, Request { argv: quiet(argv), cwd, ..Request::default() })?;
    let lease = Store::open(&policy.context.state)?.anonymous(None)?;
    let status = launch::start(&plan, &lease, &[], None).and_then(launch::Running::wait);
    lease.end()?;
    match status?.status {
        Status::Exited(0) => Ok(()),
        other => Err(Failure::because(launch::Step::Exec, format!("the trial command ended with {other:?}")).into()),
    }
}

/// The command through a shell that throws its output away.
fn quiet(argv: Vec<OsString>) -> Vec<OsString> {
    if !Path::new("/bin/sh").exists() {
        return argv;
    }
    vec!["/bin/sh".into(), "-c".into(), ": > /tmp/doctor && test -w /tmp/doctor && test \"$$\" -gt 1".into()]
}

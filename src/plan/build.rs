//! From what was asked and what is there to what will be done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Problem;
use super::overlay::Overlaying;
use super::{Error, Extent, Facts, Identity, Op, Plan, Request, State, environment, mounts};
use crate::policy::{Access, GitMode, Limit, Origin, Policy, Rule, Target};

/// The plan for one run.
///
/// # Errors
/// Names the first rule that cannot be enforced on this host, and its origin.
pub fn build(policy: &Policy, facts: Facts, request: Request) -> Result<Plan, Error> {
    check_links(policy, &facts)?;
    check_limits(policy, &facts)?;
    check_repository(policy, &facts)?;
    let mut environment = environment::build(policy, &request, facts.pwd_is_cwd);
    let overlaying = Overlaying::of(policy, &request);
    let mut layout =
        mounts::layout(&facts, &request, &environment.wanted, overlaying, policy.context.job_dir().as_deref())?;
    environment.name_job_tmp(layout.job_tmp);
    if spares_questions(policy, &layout.guarded, &request) && add_preload(&mut layout.ops) {
        environment.preload();
    }
    let mut notes = layout.notes;
    note_hard_links(policy, &facts, &mut notes)?;
    Ok(Plan {
        identity: identity(&facts),
        root: layout.root,
        mounts: layout.ops,
        network: policy.network.clone(),
        environment: environment.variables,
        names: Arc::new(facts.names),
        guarded: layout.guarded,
        hidden: layout.hidden,
        absent: layout.absent,
        promised: environment.promised,
        limits: policy.limits.clone(),
        memory_group: facts.memory_group,
        overlay_size: policy.overlay.size,
        strict: policy.strict.value,
        notes,
        request,
    })
}

/// Only where names are guarded is anybody asked. An inner sandbox may have another `/dev`, and the loader complains of a
/// library that it does not find.
fn spares_questions(policy: &Policy, guarded: &[PathBuf], request: &Request) -> bool {
    policy.fast_path.value && !guarded.is_empty() && !request.nested_userns
}

/// Gives false where there is no library for this processor, or no place for it.
fn add_preload(ops: &mut [Op]) -> bool {
    let dev = ops.iter_mut().find_map(|op| if let Op::Dev { preload, .. } = op { Some(preload) } else { None });
    match dev {
        Some(preload) if cfg!(preload) => {
            *preload = true;
            true
        }
        _ => false,
    }
}

/// What protects a `.git` must not be missing where the project itself is the repository.
fn check_repository(policy: &Policy, facts: &Facts) -> Result<(), Error> {
    let guards = policy.git.value != GitMode::Open;
    let Some(dir) = facts.bare_repository.as_ref().filter(|_| guards) else { return Ok(()) };
    let is_writable = |path: &Path| policy.rules.judge(path).access == Access::Write;
    // git outside runs what is named in the one, and what lies in parts that may be the other.
    if is_writable(&dir.join("config")) || is_writable(&policy.context.project) {
        return Err(Error::BareRepository { dir: dir.clone(), origin: policy.git.origin.clone() });
    }
    Ok(())
}

/// What this host gives no means for is refused.
fn check_limits(policy: &Policy, facts: &Facts) -> Result<(), Error> {
    // The whole range is mapped in the first user namespace only (user_namespaces(7)).
    let whole = Extent { first: 0, count: u32::MAX };
    let is_root = facts.caller.uid == 0 && facts.caller.uids == [whole];
    for (limit, setting) in policy.limits.iter() {
        let why = match limit {
            Limit::Memory if facts.memory_group.is_none() => {
                "it needs a control group (version 2) with a memory controller that is delegated to this user, as `systemd-run \
                 --user --scope` makes one"
            }
            Limit::Pids if is_root => "the kernel does not limit the processes of the host's root (see --user)",
            _ => continue,
        };
        return Err(Error::Limit { limit, origin: setting.origin.clone(), why });
    }
    Ok(())
}

fn identity(facts: &Facts) -> Identity {
    let caller = &facts.caller;
    if caller.can_map {
        Identity::Same { uids: caller.uids.clone(), gids: caller.gids.clone() }
    } else {
        Identity::One { uid: caller.uid, gid: caller.gid }
    }
}

/// A writable or overlaid path must not follow a link that an earlier run could have planted.
fn check_links(policy: &Policy, facts: &Facts) -> Result<(), Error> {
    for (rule, place) in facts.names.all().iter().zip(&facts.places) {
        let Some(place) = place else { continue };
        if !matches!(rule.access, Access::Write | Access::Overlay) {
            continue;
        }
        for link in &place.links {
            // Where links lead is known to `facts.names` only. What a rule was written for is known to the policy only: a
            // run that could write there could have put a link in its place, and this one would write where that leads.
            // In a directory that cannot be written no name that a rule grants can become one.
            let dir = link.at.parent().unwrap_or(&link.at);
            let mut judged = [policy.rules.judge(dir), facts.names.judge(dir)].into_iter();
            if let Some(judged) = judged.find(|judged| judged.access == Access::Write) {
                let (link, writable) = (link.at.clone(), judged.rule.origin.clone());
                return Err(Error::of(rule, Problem::PlantedLink { link, writable }));
            }
        }
    }
    Ok(())
}

/// A second hard link in a writable place is a second name of the same file, which no rule about names can see.
fn note_hard_links(policy: &Policy, facts: &Facts, notes: &mut Vec<String>) -> Result<(), Error> {
    for (rule, place) in facts.names.all().iter().zip(&facts.places) {
        let Some(place) = place else { continue };
        let linked = matches!(place.state, State::Present { kind: super::Kind::File, nlink: 2.., .. });
        if rule.access != Access::Read || !linked || !lies_in_writable(facts, &place.real) {
            continue;
        }
        if policy.strict.value {
            return Err(Error::of(rule, Problem::HardLink));
        }
        notes.push(format!(
            "{} ({}) has more hard links than one: it can be changed through another of its names, if that is writable",
            place.real.display(),
            rule.origin
        ));
    }
    Ok(())
}

fn lies_in_writable(facts: &Facts, path: &Path) -> bool {
    path.parent().is_some_and(|parent| facts.names.judge(parent).access == Access::Write)
}

/// The path a rule was written with.
pub(super) fn literal(rule: &Rule) -> &Path {
    match &rule.target {
        Target::Path(path) => path,
        Target::Pattern(_) => Path::new(""),
    }
}

/// Is this rule part of stockade? Such a rule never fails for want of its path.
pub(super) fn built_in(rule: &Rule) -> bool {
    rule.origin == Origin::BuiltIn
}

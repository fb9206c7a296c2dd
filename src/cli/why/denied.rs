//! What would have allowed what a run was denied. As for `why`, each cure is tried before it is told.

use std::path::{Component, Path};

use super::account::Account;
use super::cure::{self, Cure};
use super::question::Act;
use super::scene::Scene;
use super::{Asked, look, replan};
use crate::guard::Denial;
use crate::policy::{Context, Network, Origin, Sources};
use crate::{plan, probe};

/// A cure for each of these; `None` where no option is one.
pub(in crate::cli) fn cures(asked: &Asked, denials: &[Denial]) -> Vec<Option<String>> {
    // The command may have changed what the plan was made of: then nothing can be tried.
    try_all(asked, denials).unwrap_or_else(|| vec![None; denials.len()])
}

/// What gives a run the network.
pub(in crate::cli) fn network_cure(asked: &Asked) -> Option<String> {
    let flag = "--network host";
    let network = Some((Network::Host, Origin::Flag(flag.to_owned())));
    replan(asked, &Sources { network, ..asked.sources.clone() }).ok()?;
    let instead = if matches!(asked.policy.network.origin, Origin::Flag(_)) { " instead" } else { "" };
    Some(format!("allow with {flag}{instead}"))
}

fn try_all(asked: &Asked, denials: &[Denial]) -> Option<Vec<Option<String>>> {
    let facts = probe::facts(&asked.policy).ok()?;
    let caller = facts.caller.clone();
    let permits = |path: &Path, wanted| probe::permits(&caller, path, wanted);
    let plan = plan::build(&asked.policy, facts, asked.request.clone()).ok()?;
    let scene = Scene { plan: &plan, mount_of: &probe::mount_of, permits: &permits };
    Some(denials.iter().map(|denial| find(asked, &scene, denial)).collect())
}

fn find(asked: &Asked, scene: &Scene<'_>, denial: &Denial) -> Option<String> {
    let act = act(denial.verb);
    let seen = look(scene, &denial.path).ok()?;
    let refusal = scene.may(&seen.subject, act).err()?;
    let directory = directory(asked, scene, &denial.path, act).filter(|_| denial.verb != "write");
    if let Some(text) = directory.and_then(|dir| cure::by_rule(asked, scene, dir, &denial.path, act)) {
        return Some(text);
    }
    match cure::find(asked, &Account::new(scene, seen, Some(act)), act, refusal) {
        Cure::Works(text) => Some(text),
        Cure::None(_) => None,
    }
}

/// The question that comes nearest to what was denied.
fn act(verb: &str) -> Act {
    match verb {
        "write" | "change" => Act::Write,
        "create" => Act::Create,
        _ => Act::RenameTo,
    }
}

/// The directory that is to be allowed rather than one name in it: who makes one makes more. Not where a rule is about that
/// name, and nothing as wide as the home directory or what holds the project.
fn directory<'a>(asked: &Asked, scene: &Scene<'_>, path: &'a Path, act: Act) -> Option<&'a Path> {
    let dir = path.parent().filter(|_| act != Act::Write)?;
    let (of_path, of_dir) = (scene.judge(path), scene.judge(dir));
    let same = of_path.index == of_dir.index && of_path.rule.reason.is_none();
    (same && !matches!(of_path.rule.origin, Origin::Flag(_)) && is_narrow(&asked.policy.context, dir)).then_some(dir)
}

/// Is it below the home directory, or beside the project or below that?
fn is_narrow(context: &Context, dir: &Path) -> bool {
    let around =
        context.project.parent().filter(|dir| dir.components().any(|part| matches!(part, Component::Normal(_))));
    let near = |base: &Path| dir.starts_with(base) && dir != base;
    let holds = |path: &Path| path.starts_with(dir);
    (near(&context.home) || around.is_some_and(near))
        && ![&context.home, &context.project, &context.cwd].into_iter().any(|path| holds(path))
}

//! `stockade why`

mod account;
mod cure;
mod question;
mod scene;
mod show;
mod system;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use super::error::Error;
use super::options::{Asked, CommandLine, Options};
use super::{Done, output};
use crate::plan::{Kind, Link, Place, Plan, State};
use crate::{plan, probe};
use account::Account;
use question::Question;
use scene::{Scene, Subject};

/// Say what a run could do with a path, which rule says so, and what would allow the rest.
///
/// With --read, --write, --create or --rename-to the answer is a yes or a no to that: the exit status is 0 or 1, and 125
/// if there is no answer. It speaks of a run that starts now with the same options.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A path as the command would write it; it need not exist
    #[arg(value_name = "PATH")]
    path: PathBuf,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    question: Question,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Done {
    let act = match args.question.0.as_slice() {
        [] => None,
        [act] => Some(*act),
        _ => return Err(Error::OneQuestion),
    };
    if args.path.as_os_str().is_empty() {
        return Err(Error::EmptyPath);
    }
    let asked = args.options.resolve(CommandLine::default())?;
    let facts = probe::facts(&asked.policy)?;
    let caller = facts.caller.clone();
    let permits = |path: &Path, wanted| probe::permits(&caller, path, wanted);
    let plan = plan::build(&asked.policy, facts, asked.request.clone())?;
    let scene = Scene { plan: &plan, mount_of: &probe::mount_of, permits: &permits };
    let seen = look(&scene, &args.path)?;
    let mut account = Account::new(&scene, seen, act);
    if let (Some(act), Some(Err(refusal))) = (act, account.answer()) {
        account.cure = Some(cure::find(&asked, &account, act, refusal));
    }
    let shown = if args.json { account.to_json(&asked).to_string() } else { account.to_text(&asked) };
    output::line(shown)?;
    Ok(u8::from(account.answer().is_some_and(|answer| answer.is_err())))
}

/// A path with what was found on the way to it.
struct Seen {
    written: PathBuf,
    subject: Subject,
    links: Vec<Link>,
}

/// Walk to a path as a command inside would.
fn look(scene: &Scene<'_>, written: &Path) -> Result<Seen, Error> {
    let Place { mut real, mut state, mut links } = probe::follow(&scene.plan.request.cwd.join(written));
    // A link that is not seen inside leads nowhere there.
    if let Some(end) = links.iter().position(|link| !scene.is_of_host(&link.at)) {
        (real, state) = (links[end].name.clone(), State::Absent);
        links.truncate(end);
    }
    if real.components().any(|part| part == Component::ParentDir) {
        let missing = real.ancestors().filter(|path| is_absent(path)).last().unwrap_or(&real).to_owned();
        return Err(Error::NoWay { path: written.to_owned(), missing });
    }
    let last = links.iter().find(|link| link.at == link.name);
    let named = last.map_or_else(|| real.clone(), |link| link.at.clone());
    let kind = match state {
        State::Present { kind, .. } if scene.is_of_host(&real) => Some(kind),
        _ => None,
    };
    let as_directory = ends_in_slash(written) || kind == Some(Kind::Directory);
    let above = real.ancestors().skip(1);
    let absent_above = above.take_while(|dir| is_absent(dir)).map(Path::to_owned).collect();
    let subject = Subject { path: real, named, kind, as_directory, absent_above };
    Ok(Seen { written: written.to_owned(), subject, links })
}

fn is_absent(path: &Path) -> bool {
    probe::place(path).state == State::Absent
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The plan of a run, from other sources than were given.
fn replan(asked: &Asked, sources: &crate::policy::Sources) -> Result<Plan, Error> {
    let policy = crate::policy::load(sources)?;
    let facts = probe::facts(&policy)?;
    Ok(plan::build(&policy, facts, asked.request.clone())?)
}

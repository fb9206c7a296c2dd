//! `stockade why`

mod account;
mod cure;
mod denied;
mod question;
mod running;
mod scene;
mod show;
mod system;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use super::error::Error;
use super::options::{Asked, CommandLine, Options};
use super::{Done, options, output};
use serde_json::{Value, json};

use crate::plan::{Kind, Link, Place, Plan, State};
use crate::{plan, probe};
use account::Account;
pub(super) use denied::{cures, network_cure};
use question::{Act, Question};
use running::Running;
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
    /// Answer for the runs that go on in the session, by what they were started with
    #[arg(long, conflicts_with_all = OF_A_NEW_RUN)]
    running: bool,
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
    if std::env::var_os("STOCKADE").is_some_and(|value| !value.is_empty()) {
        // What is read-only here looks like the host's own doing: every answer would be about a run that cannot be.
        return Err(Error::Inside { session: std::env::var("STOCKADE_SESSION").ok() });
    }
    if args.path.as_os_str().is_empty() {
        return Err(Error::EmptyPath);
    }
    if args.running {
        return tell_running(&args, act);
    }
    let asked = args.options.resolve(CommandLine::default())?;
    let answer = Answer::find(&asked, &args.path, act)?;
    output::line(if args.json { answer.json.to_string() } else { answer.text })?;
    Ok(u8::from(answer.is_no))
}

/// Options that would say of a run what it has been told already.
const OF_A_NEW_RUN: [&str; 22] = [
    "parent",
    "owner",
    "policy",
    "no_config",
    "hide",
    "private",
    "overlay",
    "network",
    "git",
    "strict",
    "limit",
    "redirect",
    "caches",
    "keep_overlay",
    "try_first",
    "chdir",
    "setenv",
    "allow_userns",
    "user",
    "proc",
    "preserve_fds",
    "die_with_parent",
];

fn tell_running(args: &Args, act: Option<Act>) -> Done {
    if args.options.has_rules() {
        return Err(Error::RulesOfRunning);
    }
    let session = args.options.named_session().ok_or(Error::RunningWhere)??;
    let path = options::current_dir()?.join(&args.path);
    let (mut told, mut is_no) = (Vec::new(), false);
    for Running { run, asked } in running::runs(&session)? {
        let answer = Answer::find(&asked, &path, act)?;
        is_no |= answer.is_no;
        if args.json {
            let pid = run.supervisor.map(|supervisor| supervisor.pid);
            told.push(json!({ "pid": pid, "command": run.command, "answer": answer.json }));
        } else {
            let run = output::printable(&run);
            output::line(format_args!("{run}, with links and mounts as they are now:\n{}", answer.text))?;
        }
    }
    if args.json {
        output::line(Value::from(told))?;
    }
    Ok(u8::from(is_no))
}

/// What is told of a path in one run.
struct Answer {
    text: String,
    json: Value,
    is_no: bool,
}

impl Answer {
    fn find(asked: &Asked, path: &Path, act: Option<Act>) -> Result<Self, Error> {
        let facts = probe::facts(&asked.policy)?;
        let caller = facts.caller.clone();
        let permits = |path: &Path, wanted| probe::permits(&caller, path, wanted);
        let plan = plan::build(&asked.policy, facts, asked.request.clone())?;
        let scene = Scene { plan: &plan, mount_of: &probe::mount_of, permits: &permits };
        let mut account = Account::new(&scene, look(&scene, path)?, act);
        if let (Some(act), Some(Err(refusal))) = (act, account.answer()) {
            account.cure = Some(cure::find(asked, &account, act, refusal));
        }
        let is_no = account.answer().is_some_and(|answer| answer.is_err());
        Ok(Self { text: account.to_text(asked), json: account.to_json(asked), is_no })
    }
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
    let absent_above: Vec<PathBuf> = above.take_while(|dir| is_absent(dir)).map(Path::to_owned).collect();
    let is_blocked = real.ancestors().nth(absent_above.len() + 1).is_some_and(is_file);
    let subject = Subject { path: real, named, kind, as_directory, absent_above, is_blocked };
    Ok(Seen { written: written.to_owned(), subject, links })
}

fn is_file(path: &Path) -> bool {
    matches!(probe::place(path).state, State::Present { kind: Kind::File, .. })
}

fn is_absent(path: &Path) -> bool {
    probe::place(path).state == State::Absent
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The plan of a run, from other sources than were given.
fn replan(asked: &Asked, sources: &crate::policy::Sources) -> Result<Plan, Error> {
    let policy = super::options::load(sources)?;
    let facts = probe::facts(&policy)?;
    Ok(plan::build(&policy, facts, asked.request.clone())?)
}

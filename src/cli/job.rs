//! `stockade job`

use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::{Value, json};

use super::error::Error;
use super::session::{ago, open_store, seconds};
use super::{Done, detach, options, output};
use crate::launch::STATUS_FAILED;
use crate::session::{End, FoundJob, Id, JobEnd, JobState, LogReader, Store};

/// Look at background jobs (`stockade run --detach`), wait for them, end them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Only the jobs of this session
    #[arg(long, value_name = "ID", global = true)]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List jobs, the oldest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a job, how it ended and what the policy denied it
    Show {
        /// The id or name of a job
        job: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what a job has printed
    Logs {
        /// The id or name of a job
        job: String,
        /// Go on until the job ends
        #[arg(long, short)]
        follow: bool,
    },
    /// Wait for a job's end; exits as the job did, with 125 if it was lost, with 124 when the time is over
    Wait {
        /// The id or name of a job
        job: String,
        /// Wait no longer than this
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        timeout: Option<Duration>,
    },
    /// End a job: SIGTERM, and SIGKILL when that has not ended it
    Kill {
        /// The id or name of a job
        job: String,
        /// How long it has to end by itself
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
        grace: Duration,
    },
    /// Send a signal to a job's command
    Signal {
        /// The id or name of a job
        job: String,
        /// By name or number
        signal: String,
    },
    /// Remove a job that has ended
    Rm {
        /// The id or name of a job
        job: String,
        /// End it first
        #[arg(long)]
        kill: bool,
    },
}

/// What `timeout(1)` exits with.
const STATUS_TIMEOUT: u8 = 124;
const GRACE: Duration = Duration::from_secs(5);

pub(super) fn run(args: Args) -> Done {
    let store = open_store()?;
    let session = args.session.map(|text| options::parse_id(text, "--session")).transpose()?;
    let find = |job: &str| store.job(session.as_ref(), job);
    match args.command {
        Command::List { json } => list(&store, session.as_ref(), json),
        Command::Show { job, json } => show(&find(&job)?, json),
        Command::Logs { job, follow } => logs(find(&job)?, follow),
        Command::Wait { job, timeout } => wait(find(&job)?, timeout),
        Command::Kill { job, grace } => kill(&mut find(&job)?, grace),
        Command::Signal { job, signal } => {
            let sent = find(&job)?.signal(number(&signal)?)?;
            Ok(u8::from(!sent))
        }
        Command::Rm { job, kill: ended } => {
            let mut job = find(&job)?;
            if ended {
                kill(&mut job, GRACE)?;
            }
            remove(&store, job)
        }
    }
}

fn list(store: &Store, session: Option<&Id>, json: bool) -> Done {
    let jobs = store.jobs(session)?;
    if json {
        output::line(Value::from(jobs.iter().map(to_json).collect::<Vec<_>>()))?;
        return Ok(0);
    }
    for job in &jobs {
        output::line(line(job))?;
    }
    Ok(0)
}

/// A job in one line.
pub(super) fn line(job: &FoundJob) -> String {
    let FoundJob { id, session, state, record, .. } = job;
    let name = record.name.as_deref().unwrap_or("-");
    let age = ago(job.created());
    format!("{id}\t{name}\t{session}\t{state}\t{age}\t{}", record.argv.join(" "))
}

/// A job as JSON.
pub(super) fn to_json(job: &FoundJob) -> Value {
    let (status, ended, why) = match &job.state {
        JobState::Ended(end, time) => (code(end), Some(seconds(*time)), failure(end)),
        _ => (None, None, None),
    };
    let state = match &job.state {
        JobState::Running => "running",
        JobState::Ended(..) => "ended",
        JobState::Lost => "lost",
    };
    json!({
        "id": job.id,
        "name": job.record.name,
        "session": job.session,
        "state": state,
        "status": status,
        "failure": why,
        "note": job.note(),
        "command": job.record.argv,
        "cwd": job.record.cwd,
        "created": seconds(job.created()),
        "ended": ended,
        "supervisor": job.record.supervisor.pid,
        "pid": job.record.command.as_ref().map(|owner| owner.pid),
        "log_bytes": job.log_size(),
        "path": job.path,
    })
}

fn failure(end: &JobEnd) -> Option<&str> {
    match end {
        JobEnd::Failed(why) => Some(why),
        _ => None,
    }
}

fn code(end: &JobEnd) -> Option<u8> {
    match end {
        JobEnd::Exited(code) => Some(*code),
        JobEnd::Signaled(signal) => u8::try_from(128 + signal).ok(),
        JobEnd::Failed(_) => None,
    }
}

fn show(job: &FoundJob, json: bool) -> Done {
    let denials = job.denials();
    let denials: Vec<Value> =
        denials.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    if json {
        let mut value = to_json(job);
        value["denials"] = denials.into();
        output::line(value)?;
        return Ok(0);
    }
    output::line(line(job))?;
    if let JobState::Ended(JobEnd::Failed(why), _) = &job.state {
        output::line(format_args!("failed: {why}"))?;
    }
    if let Some(note) = job.note() {
        output::line(note)?;
    }
    output::line(format_args!("in:     {}", job.record.cwd.display()))?;
    output::line(format_args!("files:  {} (log: {} bytes)", job.path.display(), job.log_size()))?;
    for denial in denials {
        if let Some(dropped) = denial["dropped"].as_u64() {
            output::line(format_args!("and {dropped} more denials, which were not kept"))?;
            continue;
        }
        let text = denial["text"].as_str().unwrap_or("?");
        let cure = denial["cure"].as_str().map(|cure| format!("; {cure}")).unwrap_or_default();
        output::line(format_args!("denied: {text}{cure}"))?;
    }
    Ok(0)
}

fn logs(mut job: FoundJob, follow: bool) -> Done {
    let mut reader = LogReader::default();
    loop {
        // Asked before: what the job wrote last is then read for certain.
        let over = !follow || job.refresh() != &JobState::Running;
        let more = job.copy_log(&mut reader, &mut output::stdout())?;
        if over {
            return Ok(0);
        }
        if !more {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn wait(mut job: FoundJob, timeout: Option<Duration>) -> Done {
    match job.wait(timeout).clone() {
        JobState::Running => Ok(STATUS_TIMEOUT),
        JobState::Lost => Err(Error::JobLost(job.id)),
        JobState::Ended(JobEnd::Failed(why), _) => Err(Error::JobFailed { job: job.id, why }),
        JobState::Ended(end, _) => Ok(code(&end).unwrap_or(STATUS_FAILED)),
    }
}

fn kill(job: &mut FoundJob, grace: Duration) -> Done {
    let begin = Instant::now();
    job.signal(TERM)?;
    if job.wait(Some(grace)) == &JobState::Running {
        job.signal(KILL)?;
    }
    let _ = job.wait(Some(GRACE.saturating_sub(begin.elapsed()).max(GRACE)));
    Ok(u8::from(job.state == JobState::Running))
}

const TERM: i32 = 15;
const KILL: i32 = 9;

/// The names that people use (`signal(7)`), with the numbers of every architecture that this runs on.
const SIGNALS: [(&str, i32); 14] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", KILL),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", TERM),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
    ("IO", 29),
];

fn number(text: &str) -> Result<i32, Error> {
    let name = text.to_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| text.parse().ok()).ok_or_else(|| Error::NoSignal(text.to_owned()))
}

fn remove(store: &Store, job: FoundJob) -> Done {
    let (id, session) = (job.id.clone(), job.session.clone());
    for left in job.remove()? {
        output::note(left);
    }
    if session == detach::own_session(&id)? {
        store.end(&session, End::Wait)?;
    }
    Ok(0)
}

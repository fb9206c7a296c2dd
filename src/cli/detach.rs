//! `stockade run --detach`: the run becomes a job.

use super::error::Error;
use super::layers::OnDisk;
use super::options::Asked;
use super::report::{self, Report};
use super::run::{clean_up, words};
use super::{Done, basis, output};
use crate::launch::{self, Detached, Ended, Failure, Status, Step, Supervisor};
use crate::plan::Plan;
use crate::session::{self, End, Id, Job, JobEnd, Lease, LogWriter, RunRecord, Store};
use crate::{plan, probe};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Run in the background: print the job's id as soon as the command runs, and return
    #[arg(long, conflicts_with = "die_with_parent")]
    detach: bool,
    /// A name for the job, besides its id
    #[arg(long, value_name = "NAME", requires = "detach")]
    name: Option<String>,
    /// How much of the job's output is kept: its beginning and its end
    #[arg(long, value_name = "SIZE", default_value = "64M", requires = "detach", value_parser = size)]
    log_limit: u64,
}

fn size(text: &str) -> Result<u64, String> {
    crate::policy::parse_size(text).ok_or_else(|| "expected a size such as 512K, 64M or 1G".into())
}

impl Args {
    pub(super) fn is_wanted(&self) -> bool {
        self.detach
    }
}

pub(super) fn run(mut asked: Asked, report: Report, args: &Args) -> Done {
    if asked.trying {
        return Err(Error::TryDetached);
    }
    let id = session::new_job_id()?;
    let own = asked.session.is_none();
    let session = asked.session.clone().map_or_else(|| own_session(&id), Ok)?;
    asked.request.session = Some(session.as_str().to_owned());
    let policy = &asked.policy;
    // A job has no terminal.
    let store = Store::open(&policy.context.state)?;
    let facts = plan::Facts { terminal: None, ..probe::facts(policy)? };
    let plan = plan::build(policy, facts, asked.request.clone())?;
    let lease = store.session(&session, &asked.want)?;
    let job = lease.new_job(&id, args.name.as_deref())?;
    match launch::detach(plan.request.preserve_fds)? {
        Detached::Caller(waiting) => {
            let outcome = waiting.outcome();
            if outcome.is_err() {
                job.discard();
                drop(lease);
                if own {
                    store.end(&session, End::Wait)?;
                }
            }
            outcome?;
            output::line(&id)?;
            Ok(0)
        }
        Detached::Supervisor(supervisor) => {
            let ours = Ours { asked, plan, store, lease, job, report, limit: args.log_limit };
            ours.supervise(supervisor)
        }
    }
}

/// The session of a job that was given none: it goes with the job.
pub(super) fn own_session(job: &str) -> Result<Id, Error> {
    let text = format!("job-{job}");
    text.parse().map_err(|source| Error::Id { text, origin: "--detach".into(), source })
}

/// What the supervisor of a job has.
struct Ours {
    asked: Asked,
    plan: Plan,
    store: Store,
    lease: Lease,
    job: Job,
    report: Report,
    limit: u64,
}

/// What a job has on disk while it runs.
struct Made {
    run: RunRecord,
    log: LogWriter,
    on_disk: OnDisk,
}

/// An error in the form in which the caller hears it.
fn as_failure(error: &Error) -> Failure {
    match error {
        Error::Launch(failure) => (**failure).clone(),
        other => {
            let mut failure = Failure::because(Step::Fork, other.to_string());
            failure.causes.extend(other.causes());
            failure.hint = other.hint();
            failure
        }
    }
}

impl Ours {
    /// The rest of this process's life. Nobody reads what it would print.
    fn supervise(self, supervisor: Supervisor) -> Done {
        let started = self.prepare().and_then(|made| {
            let running = launch::start(&self.plan, &self.lease, made.on_disk.layers(), None)?;
            Ok((made, running))
        });
        let (Made { run, log, on_disk }, running) = match started {
            Ok(started) => started,
            Err(error) => {
                supervisor.fail(as_failure(&error));
                return Err(error);
            }
        };
        let (output, told) = supervisor.release()?;
        let at_start = Start { job: self.job.try_clone()?, plan: self.plan.clone(), told: told.try_clone()? };
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| log.pump(&output));
            clean_up(scope, &self.store, &self.lease, self.asked.policy.session.idle);
            running.detached().on_start(Box::new(move |command| at_start.tell(command))).wait()
        });
        let kept = on_disk.finish(&self.store, ended.is_ok());
        let lease = self.finish(ended, kept, told)?;
        drop(run);
        lease.end()?;
        Ok(0)
    }

    /// Write down what is about to run, and make its log and layers.
    fn prepare(&self) -> Result<Made, Error> {
        let words = words(&self.plan);
        let command = words.join(" ");
        self.job.record(words, &self.plan.request.cwd, None)?;
        let (run, log) = (self.lease.run_record(&command, basis::of(&self.asked.policy))?, self.job.log(self.limit)?);
        let on_disk = OnDisk::prepare(&self.plan, &self.store, &self.lease, &run)?;
        Ok(Made { run, log, on_disk })
    }

    /// Write down how it ended.
    fn finish(self, ended: Result<Ended, Failure>, kept: Option<String>, told: launch::Report) -> Result<Lease, Error> {
        let Self { asked, plan, lease, job, report, .. } = self;
        match ended {
            Ok(ended) => {
                // Who has seen the status finds the rest.
                report.keep(&asked, job.denials()?, &ended)?;
                let kept = kept.map(|name| format!("what it wrote to overlays is kept as {name}"));
                job.finish(end_of(ended.status), report::reached(&plan, &ended).or(kept))?;
            }
            Err(failure) => {
                // If the command never ran, the caller hears this and removes the job.
                job.finish(JobEnd::Failed(text(&failure)), None)?;
                told.tell(&Err(failure));
            }
        }
        Ok(lease)
    }
}

/// What is done when the command runs.
struct Start {
    job: Job,
    plan: Plan,
    told: launch::Report,
}

impl Start {
    fn tell(self, command: Option<u32>) {
        let recorded = self.job.record(words(&self.plan), &self.plan.request.cwd, command);
        self.told.tell(&recorded.map_err(|error| as_failure(&error.into())));
    }
}

fn end_of(status: Status) -> JobEnd {
    match status {
        Status::Exited(code) => JobEnd::Exited(code),
        Status::Signaled(signal) => JobEnd::Signaled(signal),
    }
}

fn text(failure: &Failure) -> String {
    std::iter::once(failure.to_string()).chain(failure.causes.iter().cloned()).collect::<Vec<_>>().join(": ")
}

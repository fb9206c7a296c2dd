//! `stockade run`

use std::time::Duration;

use super::error::Error;
use super::events::{self, Events};
use super::layers::OnDisk;
use super::options::{Asked, CommandLine, Options};
use super::report::{self, Report};
use super::{Done, basis, detach, output, overlay};
use crate::launch::{self, Trace};
use crate::plan::Plan;
use crate::session::{Lease, Reap, Store};
use crate::{plan, probe};

/// Run a command in a sandbox.
///
/// The host is read-only, the project is writable, /tmp and /var/tmp belong to the session. The exit status is the
/// command's own, 128+n if signal n ended it, 125 if stockade failed, 126 if the command cannot be executed, 127 if it
/// was not found.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    report: report::Args,
    #[command(flatten)]
    events: events::Args,
    /// Print each step of the launch with its time
    #[arg(long, conflicts_with = "detach")]
    trace: bool,
    #[command(flatten)]
    job: detach::Args,
    #[command(flatten)]
    command: CommandLine,
}

impl Args {
    pub(super) fn into_options(self) -> Options {
        self.options
    }
}

pub(super) fn run(args: Args) -> Done {
    let events = args.events.open()?;
    let done = run_telling(args, &events);
    if let Err(error) = &done {
        events.failed(error);
    }
    done
}

fn run_telling(args: Args, events: &Events) -> Done {
    let given = [("--events", args.events.number()), ("--report-fd", args.report.number())];
    check_uses(given, args.options.preserved())?;
    let report = args.report.open()?;
    let asked = args.options.resolve(args.command)?;
    if args.job.is_wanted() {
        return detach::run(asked, report, &args.job);
    }
    wait(&asked, report, events, args.trace.then(tracer))
}

/// What is written to a descriptor is for one program, and none of it for the command.
fn check_uses(given: [(&'static str, Option<i32>); 2], preserved: u32) -> Result<(), Error> {
    let [(events, first), (report, second)] = given;
    if let Some(fd) = first.filter(|_| first == second) {
        return Err(Error::TwoUses(fd, events, report));
    }
    let passed = |fd: i32| (3..3 + preserved.cast_signed()).contains(&fd);
    match given.iter().find_map(|(option, fd)| Some((fd.filter(|fd| passed(*fd))?, *option))) {
        Some((fd, option)) => Err(Error::TwoUses(fd, option, "--preserve-fds")),
        None => Ok(()),
    }
}

/// Run it, wait for its end, and clean up.
fn wait(asked: &Asked, report: Report, events: &Events, trace: Option<Trace>) -> Done {
    let Asked { policy, session, want, .. } = asked;
    // Before the host is looked at: what does not exist yet would not be hidden from the first run.
    let store = Store::open(&policy.context.state)?;
    let facts = probe::facts(policy)?;
    let plan = plan::build(policy, facts, asked.request.clone())?;
    let lease = match session {
        Some(id) => store.session(id, want)?,
        None => store.anonymous(want.parent.as_ref())?,
    };
    let record = lease.run_record(&words(&plan).join(" "), basis::of(policy))?;
    events.started(&lease, record.name());
    let ended = OnDisk::prepare(&plan, &store, &lease, &record).and_then(|on_disk| {
        let ended = launch::start(&plan, &lease, on_disk.layers(), trace).and_then(|running| {
            std::thread::scope(|scope| {
                clean_up(scope, &store, &lease, policy.session.idle);
                running.on_start(events.on_start()).on_denial(events.on_denial()).wait()
            })
        });
        let kept = on_disk.finish(&store, ended.is_ok());
        Ok((ended?, kept))
    });
    if let Ok((ended, _)) = &ended {
        events.exited(ended);
    }
    drop(record);
    for left in lease.end()? {
        output::note(left);
    }
    let (ended, kept) = ended?;
    events.reaped();
    report.tell(asked, &plan, &ended)?;
    if let Some(name) = kept {
        overlay::tell_kept(&store, &name, asked.trying)?;
    }
    Ok(ended.status.code())
}

/// The command line, as it is told.
pub(super) fn words(plan: &Plan) -> Vec<String> {
    plan.request.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Clean up after runs that could not, while the command runs: on a thread of its own, if there is something.
pub(super) fn clean_up<'scope>(
    threads: &'scope std::thread::Scope<'scope, '_>,
    store: &'scope Store,
    lease: &'scope Lease,
    idle: Duration,
) {
    let Ok(Some(scope)) = store.needs_reaping(lease) else { return };
    threads.spawn(move || {
        // What cannot be removed is not this run's business; it stays for the next.
        let _ = lease.sweep();
        let _ = store.reap(Reap { scope, idle, dry_run: false, within: Some(REAP_AT_MOST) });
    });
}

/// What a run spends on what others left; the next one goes on from there.
const REAP_AT_MOST: Duration = Duration::from_secs(1);

fn tracer() -> Trace {
    Box::new(|step, time| output::trace(format_args!("{:>9.3} ms  {step}", time.as_secs_f64() * 1e3)))
}

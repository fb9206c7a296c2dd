//! `stockade ps`

use std::time::Duration;

use serde_json::{Value, json};

use super::session::{ago, open_store, seconds, state};
use super::{Done, job, output};
use crate::session::{Found, FoundJob, Holder, Processes, Store, Usage, bytes_in};

/// Show sessions, their runs and jobs, and what they use.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show it again every two seconds
    #[arg(long)]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PERIOD: Duration = Duration::from_secs(2);

/// One session with everything in it.
struct Shown {
    session: Found,
    jobs: Vec<FoundJob>,
    bytes: u64,
    /// In layers of overlays on disk, those of its runs and those that its runs share.
    overlay: u64,
}

pub(super) fn run(args: &Args) -> Done {
    let store = open_store()?;
    loop {
        let shown = look(&store)?;
        let processes = Processes::now();
        if args.json {
            output::line(Value::from(shown.iter().map(|one| to_json(one, &processes)).collect::<Vec<_>>()))?;
        } else {
            if args.watch {
                // Home, and everything below is erased.
                output::line("\x1b[H\x1b[2J")?;
            }
            show(&shown, &processes)?;
        }
        if !args.watch {
            return Ok(0);
        }
        std::thread::sleep(PERIOD);
    }
}

fn look(store: &Store) -> Result<Vec<Shown>, super::error::Error> {
    let mut jobs = store.jobs(None)?;
    let mut shown = Vec::new();
    for session in store.list()?.sessions {
        let (own, rest) = jobs.into_iter().partition(|job| job.session == session.id);
        jobs = rest;
        let bytes = bytes_in(&session.path.join("private"));
        let overlay = bytes_in(&session.path.join("overlay")) + bytes_in(&session.path.join("runs"));
        shown.push(Shown { session, jobs: own, bytes, overlay });
    }
    Ok(shown)
}

fn usage(run: &Holder, processes: &Processes) -> Usage {
    run.supervisor.as_ref().map(|owner| processes.below(owner.pid)).unwrap_or_default()
}

/// In layers of overlays in memory, which are the run's own.
fn in_memory(run: &Holder, processes: &Processes) -> u64 {
    run.supervisor.as_ref().map_or(0, |owner| processes.overlays_below(owner.pid))
}

fn show(shown: &[Shown], processes: &Processes) -> std::io::Result<()> {
    output::line("WHAT       STATE          AGE      CPU   MEMORY  PRIVATE  OVERLAY  ID AND COMMAND")?;
    for Shown { session, jobs, bytes, overlay } in shown {
        let (age, bytes, overlay) = (ago(session.last_used), size(*bytes), size(*overlay));
        output::line(format_args!(
            "session    {:<12} {age:>5} {:>8} {:>8} {bytes:>8} {overlay:>8}  {}",
            state(session),
            "",
            "",
            session.id
        ))?;
        for run in &session.runs {
            let Usage { cpu, memory, .. } = usage(run, processes);
            let overlay = size(in_memory(run, processes));
            let (age, cpu, memory) = (ago(run.created), cpu.as_secs_f64(), size(memory));
            let pid = run.supervisor.as_ref().map_or(0, |owner| owner.pid);
            output::line(format_args!(
                "  run      running      {age:>5} {cpu:>7.1}s {memory:>8} {:>8} {overlay:>8}  {pid} {}",
                "", run.command
            ))?;
        }
        for job in jobs {
            let (age, bytes) = (ago(job.created()), size(job.log_size()));
            let state = job.state.to_string();
            let name = job.record.name.as_deref().unwrap_or("-");
            let command = job.record.argv.join(" ");
            output::line(format_args!(
                "  job      {state:<12} {age:>5} {:>8} {:>8} {bytes:>8} {:>8}  {} {name} {command}",
                "", "", "", job.id
            ))?;
        }
    }
    Ok(())
}

/// Bytes in the largest unit of which there is one.
fn size(bytes: u64) -> String {
    let units = ["B", "K", "M", "G"];
    let power = (0..3).take_while(|power| bytes >> (10 * (power + 1)) > 0).count();
    format!("{}{}", bytes >> (10 * power), units[power])
}

fn to_json(shown: &Shown, processes: &Processes) -> Value {
    let Shown { session, jobs, bytes, overlay } = shown;
    let runs = session.runs.iter().map(|run| {
        let used = usage(run, processes);
        json!({
            "pid": run.supervisor.as_ref().map(|owner| owner.pid),
            "command": run.command,
            "created": seconds(run.created),
            "processes": used.processes,
            "cpu_seconds": used.cpu.as_secs_f64(),
            "memory_bytes": used.memory,
            "overlay_bytes": in_memory(run, processes),
        })
    });
    json!({
        "session": session.id,
        "state": state(session),
        "last_used": seconds(session.last_used),
        "private_bytes": bytes,
        "overlay_bytes": overlay,
        "runs": runs.collect::<Vec<_>>(),
        "jobs": jobs.iter().map(job::to_json).collect::<Vec<_>>(),
    })
}

//! The limits of a run: those that the kernel keeps for each process, and those that the supervisor looks after.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::policy::{Limit, Limits};
use crate::session::{Processes, bytes_in};
use crate::sys;
use crate::sys::process::{self, Resource};

/// How long a run has to end by itself when a limit is reached.
const GRACE: Duration = Duration::from_secs(5);
/// How often is looked at the least.
const PERIOD: Duration = Duration::from_millis(100);
/// Looking may take this part of the time: a large tree is looked at less often.
const SHARE: u32 = 20;
/// The setup process and pid 1 count too.
const OURS: u64 = 2;

/// Limit the calling process and what it will start (`setrlimit(2)`). The number of processes counts in the run's own user
/// namespace, so it is one for the run.
pub(super) fn apply(limits: &Limits) -> sys::Result<()> {
    let number = |limit| limits.get(limit);
    let seconds = limits.time(Limit::CpuTime).map(|time| time.as_millis().div_ceil(1000));
    let each = [
        (Resource::Nproc, number(Limit::Pids).map(|pids| pids + OURS)),
        (Resource::Nofile, number(Limit::OpenFiles)),
        (Resource::Fsize, number(Limit::FileSize)),
        // No single process needs more than all may have together.
        (Resource::Cpu, seconds.and_then(|seconds| seconds.try_into().ok())),
    ];
    each.into_iter()
        .filter_map(|(resource, value)| Some((resource, value?)))
        .try_for_each(|(resource, value)| process::limit(resource, value))
}

/// What the supervisor looks after.
pub(super) struct Watched {
    begin: Instant,
    wall: Option<Duration>,
    cpu: Option<Duration>,
    tmp: Option<u64>,
    private: Vec<PathBuf>,
    next: Instant,
    /// Since when a limit is passed, and which.
    passed: Option<(Instant, Limit)>,
}

/// What is to be done about a limit.
pub(super) enum Verdict {
    Nothing,
    /// End the command.
    End,
    /// It had its time.
    Kill,
}

impl Watched {
    pub(super) fn new(limits: &Limits, private: Vec<PathBuf>) -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            wall: limits.time(Limit::WallTime),
            cpu: limits.time(Limit::CpuTime),
            tmp: limits.get(Limit::TmpBytes),
            private,
            next: now,
            passed: None,
        }
    }

    /// How long nothing needs to be looked at; `None`: for ever.
    pub(super) fn timeout(&self) -> Option<Duration> {
        if let Some((since, _)) = self.passed {
            return Some(GRACE.saturating_sub(since.elapsed()));
        }
        let looked = self.cpu.is_some() || self.tmp.is_some();
        let next = looked.then(|| self.next.saturating_duration_since(Instant::now()));
        let wall = self.wall.map(|wall| wall.saturating_sub(self.begin.elapsed()));
        [next, wall].into_iter().flatten().min()
    }

    /// Look, if it is time to. `setup` is the process below which everything of the run is.
    pub(super) fn check(&mut self, setup: u32) -> Verdict {
        if let Some((since, _)) = self.passed {
            return if since.elapsed() >= GRACE { Verdict::Kill } else { Verdict::Nothing };
        }
        let now = Instant::now();
        let limit = if self.wall.is_some_and(|wall| self.begin.elapsed() >= wall) {
            Some(Limit::WallTime)
        } else if now < self.next {
            None
        } else {
            let found = self.look(setup);
            self.next = Instant::now() + (now.elapsed() * SHARE).max(PERIOD);
            found
        };
        self.passed = limit.map(|limit| (now, limit));
        limit.map_or(Verdict::Nothing, |_| Verdict::End)
    }

    fn look(&self, setup: u32) -> Option<Limit> {
        if self.cpu.is_some_and(|cpu| Processes::now().below(setup).cpu >= cpu) {
            return Some(Limit::CpuTime);
        }
        let bytes = || self.private.iter().map(|path| bytes_in(path)).sum::<u64>();
        self.tmp.is_some_and(|tmp| bytes() > tmp).then_some(Limit::TmpBytes)
    }

    /// The limit that ended the run.
    pub(super) fn passed(&self) -> Option<Limit> {
        self.passed.map(|(_, limit)| limit)
    }
}

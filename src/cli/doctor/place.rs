//! What several checks look at; found once.

use std::path::PathBuf;

use crate::cli::error::Error;
use crate::cli::options;
use crate::policy::Policy;
use crate::probe::features::{Evidence, FEATURES, Feature, Without};
use crate::probe::{host, trial};

/// What the state directory is called.
pub(super) const STATE: &str = "the state directory";

/// Where doctor was called, and what came of the trials.
pub(super) struct Place {
    /// What a run without flags would have here.
    pub(super) policy: Result<Policy, Error>,
    pub(super) evidence: Evidence,
    /// Not even a process could be made for a trial.
    pub(super) broken: Vec<String>,
    pub(super) home: Option<PathBuf>,
}

impl Place {
    pub(super) fn look() -> Self {
        let mut broken = Vec::new();
        let mut note = |error: crate::probe::TrialError| broken.push(error.to_string());
        let tried = trial::namespaces().map_err(&mut note).unwrap_or_default();
        let notified = trial::notification().map_err(&mut note).ok();
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Self { policy: options::own_policy(), evidence: Evidence { tried, notified }, broken, home }
    }

    /// What the kernel lacks.
    pub(super) fn missing(&self) -> Vec<&'static Feature> {
        let version = host::version();
        FEATURES.iter().filter(|feature| feature.is_missing(&self.evidence, version) == Some(true)).collect()
    }

    /// The name of the check that says already why nothing that follows can work: no other cure is worth a try before.
    pub(super) fn hopeless(&self) -> Option<&'static str> {
        if self.missing().iter().any(|feature| feature.without == Without::NoRun) {
            Some("kernel")
        } else {
            std::fs::read_link("/proc/self").is_err().then_some("/proc")
        }
    }

    /// The paths whose file systems matter, and what each is.
    pub(super) fn paths(&self) -> Vec<(&'static str, PathBuf)> {
        let mut paths = Vec::new();
        if let Ok(policy) = &self.policy {
            paths.push((STATE, policy.context.state.clone()));
            paths.push(("the project", policy.context.project.clone()));
        }
        paths.extend(self.home.iter().map(|home| ("the home directory", home.clone())));
        paths
    }
}

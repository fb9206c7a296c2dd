//! The result of one check.

use serde_json::{Value, json};

use crate::cli::error::Error;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Ok,
    /// Runs work, but not in every way.
    Warning,
    /// A run cannot work.
    Failure,
}

/// What was tried and what came of it.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// What was done to find out.
    pub(super) tried: &'static str,
    pub(super) severity: Severity,
    /// What there is, or the cause.
    pub(super) found: String,
    pub(super) cure: Option<String>,
}

impl Check {
    /// Nothing is wrong.
    pub(super) fn ok(name: &'static str, tried: &'static str, found: impl Into<String>) -> Self {
        Self { name, tried, severity: Severity::Ok, found: found.into(), cure: None }
    }

    /// Runs work, but.
    pub(super) fn warning(name: &'static str, tried: &'static str, cause: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::ok(name, tried, cause) }
    }

    /// A run cannot work.
    pub(super) fn failure(name: &'static str, tried: &'static str, cause: impl Into<String>) -> Self {
        Self { severity: Severity::Failure, ..Self::ok(name, tried, cause) }
    }

    /// An error of stockade's own, with its hint.
    pub(super) fn failed(name: &'static str, tried: &'static str, error: &Error) -> Self {
        let text = std::iter::once(error.to_string()).chain(error.causes()).collect::<Vec<_>>().join(": ");
        Self { cure: error.hint(), ..Self::failure(name, tried, text) }
    }

    /// Something that was told before is to be cured first.
    pub(super) fn after(self, cause: Option<&str>) -> Self {
        match cause {
            Some(cause) if self.severity == Severity::Failure => self.cured_by(format!("see {cause}, above")),
            _ => self,
        }
    }

    /// What to do about it.
    pub(super) fn cured_by(self, cure: impl Into<String>) -> Self {
        Self { cure: Some(cure.into()), ..self }
    }

    pub(super) fn to_json(&self) -> Value {
        let severity = match self.severity {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Failure => "failure",
        };
        json!({
            "name": self.name,
            "tried": self.tried,
            "severity": severity,
            "found": self.found,
            "cure": self.cure,
        })
    }
}

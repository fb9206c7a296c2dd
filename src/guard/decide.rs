//! May this be done to these names? Pure: rules and names in, a verdict out.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::policy::{Access, Judgement, Rules};

/// What a call does to the names it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Make a directory.
    MakeDirectory,
    /// Remove an empty directory.
    RemoveDirectory,
    /// Change mode, owner, times or attributes of what is there, or ask whether it may be written.
    Attributes,
    /// Write into a file, making it where it is absent.
    Content,
    /// Make a file without a name in a directory. The name that it gets later is judged then.
    Nameless,
    /// Make something that is no directory: a link, a socket, a fifo.
    Make,
    /// Remove something that is no directory.
    Remove,
    /// Give the file of the first name the second one too.
    Link,
    /// Move the first name to the second.
    Rename { directory: bool },
    /// Swap the two.
    Exchange { directory: bool },
}

/// One question.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub change: Change,
    /// The real path of the parent and the name: absolute, and free of links up to the last step.
    pub path: &'a Path,
    /// The other name, of changes that have two.
    pub second: Option<&'a Path>,
}

/// Which name of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Which {
    First,
    Second,
}

/// Why a name may not be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The rule's access is not `write`.
    Access(Access),
    /// A stricter rule holds below: the name must stay what it is and where it is.
    AboveStricter,
    /// Names below it that a pattern protects would leave the pattern's reach.
    LeavesPattern,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    Grant,
    Deny {
        /// Index of the rule in [`Rules::all`].
        rule: usize,
        which: Which,
        cause: Cause,
    },
}

/// Judge a request. A pattern is matched here and now, so that it holds for names that appear later.
pub fn decide(rules: &Rules, request: &Request<'_>) -> Verdict {
    match (judge(rules, request.change, request.path, Which::First), request.second) {
        (Verdict::Grant, Some(second)) => decide_second(rules, request, second),
        (verdict, _) => verdict,
    }
}

fn decide_second(rules: &Rules, request: &Request<'_>, second: &Path) -> Verdict {
    match judge(rules, request.change, second, Which::Second) {
        Verdict::Grant if leaves_pattern(rules, request, second) => {
            Verdict::Deny { rule: rules.judge(request.path).index, which: Which::First, cause: Cause::LeavesPattern }
        }
        verdict => verdict,
    }
}

fn judge(rules: &Rules, change: Change, path: &Path, which: Which) -> Verdict {
    let Judgement { access, index: rule, above_stricter, .. } = rules.judge(path);
    if access != Access::Write {
        Verdict::Deny { rule, which, cause: Cause::Access(access) }
    } else if above_stricter && !leaves_in_place(change) {
        Verdict::Deny { rule, which, cause: Cause::AboveStricter }
    } else {
        Verdict::Grant
    }
}

/// What may be done to a directory with stricter names below: they stay under the same names, or are not there at all.
fn leaves_in_place(change: Change) -> bool {
    matches!(change, Change::MakeDirectory | Change::RemoveDirectory | Change::Attributes | Change::Nameless)
}

fn leaves_pattern(rules: &Rules, request: &Request<'_>, second: &Path) -> bool {
    match request.change {
        Change::Rename { directory: true } => !rules.patterns_follow(request.path, second),
        Change::Exchange { directory: true } => {
            !rules.patterns_follow(request.path, second) || !rules.patterns_follow(second, request.path)
        }
        _ => false,
    }
}

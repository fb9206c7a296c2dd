//! What a run writes down so that its policy can be made again while it goes on.

use std::path::Path;

use crate::policy::{Policy, Stamp};
use crate::session::Basis;

/// `None` where a path is not UTF-8: a record holds text.
pub(super) fn of(policy: &Policy) -> Option<Basis> {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let context = &policy.context;
    let repository = match &context.linked {
        Some(linked) => Some(text(&linked.own)?),
        None => None,
    };
    let stamp = |&Stamp { inode, size, changed: (seconds, nanoseconds) }: &Stamp| (inode, size, seconds, nanoseconds);
    let files = policy.files.iter().map(stamp).collect();
    let git_lacks = (context.git_lacks.worktrees, context.git_lacks.modules);
    Some(Basis { cwd: text(&context.cwd)?, project: text(&context.project)?, repository, git_lacks, files })
}

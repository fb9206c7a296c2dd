//! Which operation of a plan makes what is to be seen at a path.

use std::path::Path;

use super::{Op, Plan};

impl Plan {
    /// The deepest operation at or above an absolute, normalised path that shows something there; of several at one place
    /// the last. `None`: it is the host's own tree.
    #[must_use]
    pub fn shown_by(&self, path: &Path) -> Option<&Op> {
        let shows = |op: &&Op| !matches!(op, Op::Stub { .. } | Op::Link { .. }) && path.starts_with(op.path());
        // `max_by_key` gives the last of equals.
        self.mounts.iter().filter(shows).max_by_key(|op| op.path().components().count())
    }

    /// Is there something of ours at this very path, or below it?
    #[must_use]
    pub fn makes_at_or_below(&self, path: &Path) -> bool {
        self.mounts.iter().any(|op| op.path().starts_with(path))
    }
}

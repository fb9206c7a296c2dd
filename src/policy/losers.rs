//! The rules that speak of a path and do not decide about it.

use std::cmp::Reverse;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::expand::names;
use super::{Access, Rules, Target};

/// A rule that speaks of a path, and loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loser {
    /// Its index in [`Rules::all`].
    pub index: usize,
    pub why: Loss,
}

/// Why a rule does not decide about a path that it speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It names less of the path.
    Shallower,
    /// It is a pattern that begins above a hidden, private or overlaid directory, where it has no say.
    ShutOut,
    /// It names as much of the path, and is a pattern where the other is none.
    Pattern,
    /// Of two patterns, that of the earlier layer.
    EarlierLayer,
    /// Of two patterns in one layer, the one that permits more.
    LessStrict,
    /// It says the same.
    Same,
}

impl Rules {
    /// The rules that speak of a path (which must be absolute, normalised and real), but for the one that decides; what
    /// names most of the path comes first.
    #[must_use]
    pub fn losers(&self, path: &Path) -> Vec<Loser> {
        let winner = self.judge(path).index;
        let mut speakers: Vec<(usize, usize)> =
            (0..self.in_force.len()).filter_map(|index| Some((self.depth(index, path)?, index))).collect();
        speakers.sort_by_key(|&(depth, index)| (Reverse(depth), index));
        let losers = speakers.into_iter().filter(|&(_, index)| index != winner);
        losers.map(|(depth, index)| Loser { index, why: self.loss(path, winner, index, depth) }).collect()
    }

    /// The rules that name something strictly below a path and are stricter than `access`, or are patterns of that kind.
    #[must_use]
    pub fn stricter_below(&self, path: &Path, access: Access) -> Vec<usize> {
        let lies_below = |name: &Path| name != path && name.starts_with(path);
        let named = self.names().filter(|(name, _)| lies_below(name)).map(|(_, index)| index);
        let matching = (0..self.in_force.len()).filter(|&index| {
            matches!(&self.in_force[index].target, Target::Pattern(pattern) if pattern.could_match_below(path))
        });
        let mut found: Vec<usize> =
            named.chain(matching).filter(|&index| self.in_force[index].access.is_stricter_than(access)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// How many names of a path a rule names; `None` if it does not speak of it.
    fn depth(&self, index: usize, path: &Path) -> Option<usize> {
        match &self.in_force[index].target {
            Target::Path(_) => self.plain_depths(path).filter(|&(_, rule)| rule == index).map(|(depth, _)| depth).max(),
            Target::Pattern(pattern) => {
                let rest = path.strip_prefix(pattern.anchor()).ok()?;
                let matched = pattern.trace(names(rest.as_os_str().as_bytes())).matched;
                (matched > 0).then(|| length(pattern.anchor()) + matched)
            }
        }
    }

    /// The names that are the path or lie above it: how deep, and whose.
    fn plain_depths<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.names().filter(|(name, _)| path.starts_with(name)).map(|(name, index)| (length(name), index))
    }

    fn loss(&self, path: &Path, winner: usize, index: usize, depth: usize) -> Loss {
        let (rule, best) = (&self.in_force[index], &self.in_force[winner]);
        let (plain, holder) = self.plain_depths(path).max().unwrap_or((0, 0));
        let shuts = !matches!(self.in_force[holder].access, Access::Read | Access::Write);
        match (&rule.target, &best.target) {
            (Target::Pattern(pattern), _) if shuts && length(pattern.anchor()) < plain => Loss::ShutOut,
            _ if self.depth(winner, path).is_some_and(|best| depth < best) => Loss::Shallower,
            (Target::Pattern(_), Target::Path(_)) => Loss::Pattern,
            _ if self.layers[index] < self.layers[winner] => Loss::EarlierLayer,
            _ if best.access.is_stricter_than(rule.access) => Loss::LessStrict,
            _ => Loss::Same,
        }
    }
}

fn length(path: &Path) -> usize {
    names(path.as_os_str().as_bytes()).count()
}

//! Puts rules of several layers together: later layers replace, one layer must not contradict itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Problem;
use super::expand::is_at_or_below;
use super::tree::Tree;
use super::{Access, Rule, Rules, Target};

/// The number of the built-in layer.
pub(super) const BUILT_IN: usize = 0;

/// Rules while layers are added.
pub(super) struct Layers {
    rules: Rules,
    patterns: HashMap<Vec<u8>, usize>,
    layer: usize,
    /// Where stockade keeps its state; empty if nowhere.
    state: PathBuf,
}

impl Layers {
    /// No rules yet; the built-in layer is the first to be added.
    pub(super) fn new(state: &Path) -> Self {
        let rules = Rules {
            in_force: Arc::default(),
            layers: Vec::new(),
            replaced: Vec::new(),
            names: Arc::default(),
            tree: Arc::new(Tree::new()),
            state: None,
        };
        Self { rules, patterns: HashMap::new(), layer: BUILT_IN, state: state.to_owned() }
    }

    /// Begins the next layer, which replaces what it names again.
    pub(super) fn begin(&mut self) {
        self.layer += 1;
    }

    /// Adds a built-in rule. These meet by accident (the project is `/tmp`, or `~/.ssh`): the stricter holds.
    pub(super) fn add_built_in(&mut self, rule: Rule) {
        match self.find(&rule.target) {
            Some(index) if rule.access.is_stricter_than(self.rules.in_force[index].access) => {
                Arc::make_mut(&mut self.rules.in_force)[index] = rule;
            }
            Some(_) => {}
            None => self.push(rule),
        }
    }

    /// Adds a rule that somebody wrote.
    pub(super) fn add(&mut self, rule: Rule) -> Result<(), Problem> {
        self.refuse_to_open_state(&rule)?;
        match self.find(&rule.target) {
            None => self.push(rule),
            Some(index) if self.rules.layers[index] == self.layer => self.repeat(index, rule)?,
            Some(index) => self.replace(index, rule),
        }
        Ok(())
    }

    fn find(&self, target: &Target) -> Option<usize> {
        match target {
            Target::Path(path) => self.rules.standing_at(path),
            Target::Pattern(pattern) => self.patterns.get(pattern.key()).copied(),
        }
    }

    fn push(&mut self, rule: Rule) {
        let index = self.rules.in_force.len();
        let path = match &rule.target {
            Target::Path(path) => Some(path.clone()),
            Target::Pattern(pattern) => {
                self.patterns.insert(pattern.key().to_owned(), index);
                None
            }
        };
        Arc::make_mut(&mut self.rules.in_force).push(rule);
        self.rules.layers.push(self.layer);
        if let Some(path) = path {
            self.rules.name(index, path);
        }
    }

    fn replace(&mut self, index: usize, rule: Rule) {
        let old = std::mem::replace(&mut Arc::make_mut(&mut self.rules.in_force)[index], rule);
        self.rules.layers[index] = self.layer;
        self.rules.replaced.push((old, index));
    }

    /// The same path twice in one layer. What is merged does not depend on the order.
    fn repeat(&mut self, index: usize, rule: Rule) -> Result<(), Problem> {
        let held = &mut Arc::make_mut(&mut self.rules.in_force)[index];
        let what = || match &rule.target {
            Target::Path(path) => format!("`{}`", path.display()),
            Target::Pattern(pattern) => format!("`{pattern}`"),
        };
        let origin = held.origin.clone();
        if held.access != rule.access {
            return Err(Problem::Contradiction { what: what(), access: rule.access, other: held.access, origin });
        }
        if (held.size, held.backing, held.scope) != (rule.size, rule.backing, rule.scope) {
            return Err(Problem::OtherOverlay { what: what(), origin });
        }
        held.optional &= rule.optional;
        held.reason = match (held.reason.take(), rule.reason) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Ok(())
    }

    /// A rule at or below the state directory would win over the built-in one that hides it.
    fn refuse_to_open_state(&self, rule: &Rule) -> Result<(), Problem> {
        let named = match &rule.target {
            Target::Path(path) => path.as_path(),
            Target::Pattern(pattern) => pattern.anchor(),
        };
        if rule.access != Access::Hide && is_at_or_below(named, &self.state) {
            return Err(Problem::State(named.to_owned()));
        }
        Ok(())
    }

    /// Does a rule that somebody wrote give access to something at or below this directory?
    pub(super) fn opens(&self, dir: &Path) -> bool {
        let speaks_of = |rule: &Rule| match &rule.target {
            Target::Path(path) => is_at_or_below(path, dir),
            Target::Pattern(pattern) => is_at_or_below(pattern.anchor(), dir) || pattern.could_match_below(dir),
        };
        let written = self.rules.in_force.iter().zip(&self.rules.layers).filter(|(_, layer)| **layer != BUILT_IN);
        written.into_iter().any(|(rule, _)| Access::Read.is_stricter_than(rule.access) && speaks_of(rule))
    }

    /// The rules in force. `late` are built-in rules; those for a path are needed only where a writable place would hold
    /// it.
    pub(super) fn finish(mut self, late: Vec<Rule>) -> Rules {
        self.settle();
        self.layer = BUILT_IN;
        for rule in late.into_iter().filter(|rule| self.find(&rule.target).is_none()).collect::<Vec<_>>() {
            match &rule.target {
                Target::Path(path) if self.rules.judge(path).access != Access::Write => {}
                Target::Path(_) => self.push(rule),
                Target::Pattern(_) => {
                    self.push(rule);
                    self.rules.begin_pattern(self.rules.in_force.len() - 1);
                }
            }
        }
        self.rules
    }

    /// Notes what is below each path, now that nothing is replaced any more.
    fn settle(&mut self) {
        Arc::make_mut(&mut self.rules.tree).forget_ranks();
        self.rules.note_names();
        for index in 0..self.rules.in_force.len() {
            self.rules.begin_pattern(index);
        }
        let state = Some(&self.state).filter(|state| !state.as_os_str().is_empty());
        self.rules.state = state.and_then(|state| self.rules.standing_at(state));
    }
}

impl Rules {
    /// Rules of a front end that has an order of its own: of two for one path the later holds. The first must be for `/`.
    #[must_use]
    pub fn in_order(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut layers = Layers::new(Path::new(""));
        for rule in rules {
            layers.begin();
            match layers.find(&rule.target) {
                Some(index) => layers.replace(index, rule),
                None => layers.push(rule),
            }
        }
        layers.finish(Vec::new())
    }
}

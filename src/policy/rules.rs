//! Rules and the question "what may be done with this path, and who says so?".

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::expand::names;
use super::tree::{NodeId, Tree};
use super::{Access, Pattern};

/// What a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One absolute, lexically normalised path and everything below it.
    Path(PathBuf),
    /// Every path that matches, and everything below it.
    Pattern(Pattern),
}

/// As it was written, but for paths, which are absolute.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

/// Where a rule or a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Part of stockade.
    BuiltIn,
    /// A policy file; line and column count from 1.
    File { path: PathBuf, line: usize, column: usize },
    /// A command-line flag with its value, as typed.
    Flag(String),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Flag(text) => f.write_str(text),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// Where an overlay keeps what is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// A tmpfs that only the run's mount namespace holds.
    #[default]
    Memory,
    /// The run's directory below the state directory.
    Disk,
}

/// How long what was written to an overlay is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// By this run only.
    #[default]
    Run,
    /// By the session's next runs too, until the session ends.
    Session,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub target: Target,
    pub access: Access,
    pub origin: Origin,
    /// An absent path is no error where the access would need it to exist.
    pub optional: bool,
    /// Said in denials and by `explain`.
    pub reason: Option<Cow<'static, str>>,
    /// Nothing at or below it may become a symbolic link: a program outside would write where that leads. Such a
    /// directory is never free, because the kernel makes links in a free one without asking.
    pub plain: bool,
    /// Size limit of an overlay in bytes.
    pub size: Option<u64>,
    pub backing: Backing,
    /// How long what is written to an overlay is seen; `None`: as `[overlay] scope` says.
    pub scope: Option<Scope>,
}

impl Rule {
    /// The plain rule of a front end's option.
    #[must_use]
    pub fn of_option(path: PathBuf, access: Access, option: String) -> Self {
        Self {
            target: Target::Path(path),
            access,
            origin: Origin::Flag(option),
            optional: false,
            reason: None,
            plain: false,
            size: None,
            backing: Backing::default(),
            scope: None,
        }
    }

    /// Who says so, and why if that was given: `built-in: holds secrets`.
    #[must_use]
    pub fn said_by(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {reason}", self.origin),
            None => self.origin.to_string(),
        }
    }
}

/// The answer to "what may be done with this path?".
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Judgement<'a> {
    pub access: Access,
    /// The rule that gives the access.
    pub rule: &'a Rule,
    /// Index of that rule in [`Rules::all`].
    pub index: usize,
    /// Some stricter rule names a path strictly below this one (or might, for a pattern): this is a name that must stay
    /// where it is.
    pub above_stricter: bool,
}

/// The rules of every layer, as one answer for each path.
///
/// The most specific rule wins: the one that names the longest part of the path. A rule with a plain path beats a
/// pattern that matches equally much; among patterns a later layer beats an earlier one, then the stricter beats the
/// other.
///
/// A pattern that begins above a hidden, private or overlaid directory has no say in it: nothing there is the host's
/// own file, and a pattern that opens names must not open what is hidden. Names below such a directory that plain rules
/// give back (a project in `/tmp`) are the host's own again.
///
/// A clone shares everything until one of the two learns another name.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(super) in_force: Arc<Vec<Rule>>,
    /// The layer of each rule.
    pub(super) layers: Vec<usize>,
    pub(super) replaced: Vec<(Rule, usize)>,
    pub(super) names: Arc<Vec<Name>>,
    pub(super) tree: Arc<Tree>,
    /// The rule that hides stockade's own state.
    pub(super) state: Option<usize>,
}

/// A path by which a rule is known.
#[derive(Debug, Clone)]
pub(super) struct Name {
    path: PathBuf,
    rule: usize,
    node: NodeId,
}

/// What a walk down the tree along one path has seen.
struct Walk {
    /// The rule of the deepest plain name on the path, and how deep that is.
    plain: usize,
    depth: usize,
    /// The strongest match of all patterns, and of those that begin at or below the deepest plain name.
    matched: Option<Match>,
    inner: Option<Match>,
    /// A read pattern could match below, and the path's last name is a part of it.
    names_part: bool,
    /// A read pattern could match below. Also said of those that have no say here: a plain rule further down may give
    /// the names below it back to them.
    reaches_below: bool,
    /// The rank of the strictest access strictly below.
    below: u8,
}

/// A pattern that matches part of a path; the greatest is the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    depth: usize,
    layer: usize,
    strictness: Reverse<u8>,
    rule: Reverse<usize>,
}

impl Rules {
    /// The rules in force. An index never changes its meaning.
    #[must_use]
    pub fn all(&self) -> &[Rule] {
        &self.in_force
    }

    /// Rules that a later layer replaced, each with the index of the one that is in force instead.
    #[must_use]
    pub fn replaced(&self) -> &[(Rule, usize)] {
        &self.replaced
    }

    /// Every path by which a rule is known, its own and those of [`Rules::add_name`], with the index of the rule.
    pub fn names(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.names.iter().map(|name| (name.path.as_path(), name.rule))
    }

    /// What may be done with a path, which must be absolute, normalised and real. Allocates nothing.
    pub fn judge(&self, path: &Path) -> Judgement<'_> {
        let walk = self.walk(path);
        self.judge_walk(&walk)
    }

    fn judge_walk(&self, walk: &Walk) -> Judgement<'_> {
        let matched = match self.in_force[walk.plain].access {
            Access::Hide | Access::Private | Access::Overlay => walk.inner,
            Access::Read | Access::Write => walk.matched,
        };
        let index = matched.filter(|matched| matched.depth > walk.depth).map_or(walk.plain, |matched| matched.rule.0);
        let rule = &self.in_force[index];
        let by_pattern = walk.names_part && Access::Read.is_stricter_than(rule.access);
        let above_stricter = by_pattern || walk.below < rule.access.rank();
        Judgement { access: rule.access, rule, index, above_stricter }
    }

    /// May everything at and below this path be written, whatever it is called?
    #[must_use]
    pub fn is_free(&self, path: &Path) -> bool {
        let walk = self.walk(path);
        let judgement = self.judge_walk(&walk);
        let open = judgement.access == Access::Write && !judgement.rule.plain;
        open && !judgement.above_stricter && !walk.reaches_below
    }

    /// Does every read pattern hold below `to` as it holds below `from`? If not, a directory that is moved there takes
    /// protected names out of the pattern's reach. Needed besides [`Judgement::above_stricter`] of both paths for
    /// patterns such as `/project/**/x`, which a directory can leave by a name that the pattern does not mention.
    #[must_use]
    pub fn patterns_follow(&self, from: &Path, to: &Path) -> bool {
        let read = self.in_force.iter().filter(|rule| rule.access == Access::Read);
        read.filter_map(|rule| if let Target::Pattern(pattern) = &rule.target { Some(pattern) } else { None }).all(
            |pattern| match (pattern.places(from), pattern.places(to)) {
                (Some(from), Some(to)) => from & !to == 0,
                (Some(from), None) => from == 0,
                (None, _) => false,
            },
        )
    }

    /// Lets a rule hold for another path too: a link on the way to its own, or where that leads. Where another rule
    /// stands by its own name, the stricter of the two holds. Gives false, and adds nothing, where the path belongs to
    /// stockade's own state and the rule would open it.
    pub fn add_name(&mut self, index: usize, path: PathBuf) -> bool {
        if self.state == Some(self.walk(&path).plain) && self.in_force[index].access != Access::Hide {
            return false;
        }
        self.name(index, path);
        true
    }

    /// Lets a rule hold for another path *instead* of the one it was written with: where its link leads. The link itself
    /// is then a name like any other. Gives false, and changes nothing, as [`Rules::add_name`] does.
    pub fn move_name(&mut self, index: usize, path: &Path) -> bool {
        let written = self.names.iter().position(|name| name.rule == index);
        if !self.add_name(index, path.to_owned()) {
            return false;
        }
        if let Some(old) = written.filter(|&old| self.names[old].path != path) {
            let (names, tree) = (Arc::make_mut(&mut self.names), Arc::make_mut(&mut self.tree));
            tree.node_mut(names[old].node).name = None;
            names.swap_remove(old);
            if let Some(moved) = names.get(old) {
                tree.node_mut(moved.node).name = Some(old);
            }
        }
        true
    }

    pub(super) fn name(&mut self, rule: usize, path: PathBuf) {
        let tree = Arc::make_mut(&mut self.tree);
        let node = tree.enter(&path);
        tree.note_above(node, self.in_force[rule].access.rank());
        if let Some(held) = tree.node(node).name {
            self.contend(held, rule);
        } else {
            tree.node_mut(node).name = Some(self.names.len());
            Arc::make_mut(&mut self.names).push(Name { path, rule, node });
        }
    }

    /// The stricter of two rules keeps a name; of two equally strict ones the first.
    fn contend(&mut self, name: usize, rule: usize) {
        let holder = &mut Arc::make_mut(&mut self.names)[name].rule;
        let strength = |index: usize| (self.in_force[index].access.rank(), index);
        if strength(rule) < strength(*holder) {
            *holder = rule;
        }
    }

    /// Notes each name's access on the directories above it.
    pub(super) fn note_names(&mut self) {
        let tree = Arc::make_mut(&mut self.tree);
        for name in self.names.iter() {
            tree.note_above(name.node, self.in_force[name.rule].access.rank());
        }
    }

    pub(super) fn begin_pattern(&mut self, rule: usize) {
        let Target::Pattern(pattern) = &self.in_force[rule].target else { return };
        let rank = self.in_force[rule].access.rank();
        let tree = Arc::make_mut(&mut self.tree);
        let node = tree.enter(pattern.anchor());
        tree.begin_pattern(node, rule);
        tree.note_above(node, rank);
        let below = &mut tree.node_mut(node).strictest_below;
        *below = rank.min(*below);
    }

    /// The rule that stands at this very path.
    pub(super) fn standing_at(&self, path: &Path) -> Option<usize> {
        let mut names = names(path.as_os_str().as_bytes());
        let node = names.try_fold(Tree::ROOT, |node, name| self.tree.child(node, name))?;
        self.tree.node(node).name.map(|name| self.names[name].rule)
    }

    fn walk(&self, path: &Path) -> Walk {
        let mut walk = Walk {
            plain: 0,
            depth: 0,
            matched: None,
            inner: None,
            names_part: false,
            reaches_below: false,
            below: u8::MAX,
        };
        let mut rest = names(path.as_os_str().as_bytes());
        let mut node = Some(Tree::ROOT);
        let mut depth = 0;
        while let Some(id) = node {
            self.visit(&mut walk, id, depth, &rest);
            let Some(name) = rest.next() else {
                walk.below = self.tree.node(id).strictest_below;
                break;
            };
            node = self.tree.child(id, name);
            depth += 1;
        }
        walk
    }

    fn visit<'a>(&self, walk: &mut Walk, id: NodeId, depth: usize, rest: &(impl Iterator<Item = &'a [u8]> + Clone)) {
        if let Some(name) = self.tree.node(id).name {
            (walk.plain, walk.depth, walk.inner) = (self.names[name].rule, depth, None);
        }
        for &index in self.tree.patterns(id) {
            self.look(walk, index, depth, rest.clone());
        }
    }

    /// Notes what a pattern, which begins `depth` names down the path, says about the path.
    fn look<'a>(&self, walk: &mut Walk, index: usize, depth: usize, rest: impl Iterator<Item = &'a [u8]>) {
        let rule = &self.in_force[index];
        let Target::Pattern(pattern) = &rule.target else { return };
        let trace = pattern.trace(rest);
        let matched = (trace.matched > 0).then(|| Match {
            depth: depth + trace.matched,
            layer: self.layers[index],
            strictness: Reverse(rule.access.rank()),
            rule: Reverse(index),
        });
        walk.matched = walk.matched.max(matched);
        walk.inner = walk.inner.max(matched);
        walk.names_part |= trace.ends_in_part && rule.access == Access::Read;
        walk.reaches_below |= trace.reaches_below && rule.access == Access::Read;
    }
}

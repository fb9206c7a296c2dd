//! The permission rules of Claude Code: `Tool` or `Tool(what)`.

use super::draft::Draft;
use super::place::{Base, Place, Target};
use super::settle::{Lists, Wish};
use super::{Owner, claude, gitignore, network};

/// The list that a rule is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Allow,
    Ask,
    Deny,
}

impl List {
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

const NO_QUESTIONS: &str = "nothing is asked: it is denied";
const COMMANDS: &str = "what commands do is judged, not which they are";
const BY_PATH: &str = "rule the paths that it must not change or see";
const ANOTHER: &str = "a tool of Claude Code's own, which stockade does not run";
const KEEP_IT: &str = "keep the rule in Claude Code";

/// Reads rules into lists.
pub(super) struct Rules<'a> {
    pub(super) owner: &'a Owner,
    pub(super) lists: &'a mut Lists,
    pub(super) draft: &'a mut Draft,
}

impl Rules<'_> {
    pub(super) fn read(&mut self, list: List, rule: &str) {
        let from = format!("permissions.{}: {rule:?}", list.key());
        let (tool, what) = match rule.split_once('(').map(|(tool, rest)| (tool, rest.strip_suffix(')'))) {
            None => (rule, None),
            Some((tool, Some(what))) => (tool, Some(what).filter(|what| !what.trim().is_empty())),
            Some((_, None)) => return self.draft.refuse(&from, "there is no closing parenthesis", None),
        };
        match (tool.trim(), list) {
            ("Read" | "Grep" | "Glob" | "LS", _) => self.reading(list, what, from),
            ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", List::Allow) => self.allow_writing(tool, what, &from),
            ("Edit" | "Write" | "MultiEdit" | "NotebookEdit", _) => self.deny_writing(list, what, from),
            ("WebFetch", List::Allow) if what.is_some() => {
                self.draft.refuse(&from, network::NO_LIST, Some(network::WHOLE));
            }
            // The network is off.
            ("WebFetch", _) if what.is_some() => {}
            (_, List::Allow) => {}
            ("Bash", _) => self.draft.refuse(&from, COMMANDS, Some(BY_PATH)),
            _ => self.draft.refuse(&from, ANOTHER, Some(KEEP_IT)),
        }
    }

    /// A directory besides the project that can be written.
    pub(super) fn directory(&mut self, path: &str) {
        let from = format!("permissions.additionalDirectories: {path:?}");
        let place = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Place::new(Base::Home, rest),
            Some(_) => Err("`~name` is nobody's home directory here"),
            None if path.starts_with('/') => Place::new(Base::Root, path),
            None => Place::new(Base::Project, path),
        };
        match place {
            Ok(place) => self.lists.write.push(Wish { target: Target::Place(place), from }),
            Err(why) => self.draft.refuse(&from, why, Some("write the path from the root, without it")),
        }
    }

    /// Everything that is not hidden can be read: only what denies makes a rule.
    fn reading(&mut self, list: List, what: Option<&str>, from: String) {
        if list == List::Allow {
            return;
        }
        let Some(what) = what else {
            return self.draft.refuse(&from, "what may read nothing cannot run", Some("name paths"));
        };
        self.deny(list, what, from, |lists, wish| lists.secret.push(wish));
    }

    fn deny_writing(&mut self, list: List, what: Option<&str>, from: String) {
        let Some(what) = what else {
            self.draft.refuse(&from, "it names no path: the project cannot be written", Some("name paths"));
            return self.lists.read.push(Wish { target: Target::Place(Place::project()), from });
        };
        self.deny(list, what, from, |lists, wish| lists.read.push(wish));
    }

    fn deny(&mut self, list: List, what: &str, from: String, add: impl Fn(&mut Lists, Wish)) {
        match self.target(what, true) {
            Ok(target) => {
                if list == List::Ask {
                    self.draft.refuse(&from, NO_QUESTIONS, Some("decide: allow or deny it"));
                }
                add(self.lists, Wish { target, from });
            }
            Err(why) => self.draft.refuse(&from, why, Some("write the path in another way")),
        }
    }

    fn allow_writing(&mut self, tool: &str, what: Option<&str>, from: &str) {
        // Without a path it is about questions.
        let Some(what) = what else { return };
        match self.target(what, false) {
            Ok(target) if base(&target) == Base::Project => {}
            Ok(_) if tool != "Edit" => {
                self.draft.refuse(from, "Claude Code asks only Edit rules for paths", Some("write it as Edit(…)"));
            }
            Ok(target) => self.lists.write.push(Wish { target, from: from.to_owned() }),
            Err(why) => self.draft.refuse(from, why, Some("write the path in another way")),
        }
    }

    fn target(&self, what: &str, denies: bool) -> Result<Target, &'static str> {
        let what = what.trim();
        let at = |base| Place { base, names: Vec::new() };
        let (base, rest, anchored) = if let Some(rest) = what.strip_prefix("//") {
            (at(Base::Root), rest, true)
        } else if let Some(rest) = what.strip_prefix('/') {
            (self.settings()?, rest, true)
        } else if what == "~" || what.starts_with("~/") {
            (at(Base::Home), &what[1..], true)
        } else if let Some(rest) = what.strip_prefix("./") {
            (Place::project(), rest, true)
        } else {
            (Place::project(), what, false)
        };
        gitignore::target(&base, rest, anchored, denies)
    }

    /// What `/…` starts from.
    fn settings(&self) -> Result<Place, &'static str> {
        match self.owner {
            Owner::Project => Ok(Place::project()),
            Owner::User => Ok(claude::at_home()),
            Owner::Unknown => {
                Err("`/` stands for where the settings belong, which cannot be told from where the file is")
            }
        }
    }
}

fn base(target: &Target) -> Base {
    match target {
        Target::Place(place) => place.base,
        Target::Pattern(pattern) => pattern.anchor.base,
    }
}

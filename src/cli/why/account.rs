//! Everything there is to say about a path, before it becomes text.

use std::path::Path;

use super::Seen;
use super::cure::Cure;
use super::question::Act;
use super::scene::{Means, Refusal, Scene, Subject, any_name};
use crate::guard::decide::{Cause, is_plain};
use crate::plan::Op;
use crate::policy::{Access, Loser};

pub(super) struct Account<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) seen: Seen,
    /// What was asked; `None`: everything.
    pub(super) act: Option<Act>,
    /// What may be done.
    pub(super) may: [(Act, Result<(), Refusal>); 4],
    pub(super) cure: Option<Cure>,
}

impl<'a> Account<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, seen: Seen, act: Option<Act>) -> Self {
        let may = Act::ALL.map(|act| (act, scene.may(&seen.subject, act)));
        Self { scene, seen, act, may, cure: None }
    }

    /// The answer, if something was asked.
    pub(super) fn answer(&self) -> Option<Result<(), Refusal>> {
        self.act.map(|act| self.scene.may(&self.seen.subject, act))
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.seen.subject
    }

    /// The path that is judged.
    pub(super) fn judged(&self) -> &Path {
        self.subject().of(self.act.unwrap_or(Act::Write))
    }

    /// The rule that decides.
    pub(super) fn rule(&self) -> usize {
        self.scene.judge(self.judged()).index
    }

    pub(super) fn losers(&self) -> Vec<Loser> {
        self.scene.plan.names.losers(self.judged())
    }

    /// What makes it so, and the operation that does.
    pub(super) fn means(&self) -> (Means, Option<&Op>) {
        let act = self.act.unwrap_or(Act::Write);
        let place = self.scene.place(self.subject(), act);
        (self.scene.means(self.subject(), act), self.scene.plan.shown_by(place))
    }

    /// What should be known besides.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let (means, _) = self.means();
        let of_host = !matches!(means, Means::Private | Means::Frame | Means::Devices | Means::Proc);
        if self.subject().kind.is_none() && of_host {
            notes.push("it does not exist".to_owned());
        }
        if self.act == Some(Act::Create) && self.subject().kind.is_some() {
            notes.push("it exists already".to_owned());
        }
        notes.extend(self.stricter_below());
        let refused = |refusal| {
            self.may.iter().any(|(act, may)| self.act.is_none_or(|asked| asked == *act) && *may == Err(refusal))
        };
        if refused(Refusal::NoDirectory) {
            notes.push("its directory is none, or does not exist and cannot be made".to_owned());
        }
        if refused(Refusal::NoNames) {
            let rule = self.scene.judge(&any_name(&self.subject().path)).rule;
            notes.push(format!("no name can be made in it: {} {} ({})", rule.access, rule.target, rule.said_by()));
        }
        if refused(Refusal::Host) {
            notes.push("the policy permits more than the host does (owner, mode, or a read-only mount)".to_owned());
        }
        let asked = |act: Act| self.act.is_none_or(|asked| asked == act);
        if asked(Act::Create) && self.is_only_as_directory() {
            notes.push("it can be made as a directory, which a final slash asks for".to_owned());
        }
        if asked(Act::RenameTo)
            && means == Means::Broker
            && self.scene.judge(&self.subject().named).access == Access::Write
            && is_plain(&self.scene.plan.names, &self.subject().named)
        {
            notes.push("only what lies where no link can be made may be renamed to it".to_owned());
        }
        notes
    }

    /// The rules below that keep a directory in its place.
    fn stricter_below(&self) -> Option<String> {
        let judged = self.scene.judge(self.judged());
        if judged.access != Access::Write || !judged.above_stricter {
            return None;
        }
        let rules = &self.scene.plan.names;
        let below = rules.stricter_below(self.judged(), judged.access);
        let names: Vec<String> = below.iter().take(SHOWN).map(|&index| rules.all()[index].target.to_string()).collect();
        let more = if below.len() > SHOWN { format!(" and {} more", below.len() - SHOWN) } else { String::new() };
        Some(format!("stricter names lie below, so it stays where it is: {}{more}", names.join(", ")))
    }

    fn is_only_as_directory(&self) -> bool {
        let subject = self.subject();
        let directory = Subject { as_directory: true, ..subject.clone() };
        let refused = Err(Refusal::Rule(Cause::AboveStricter));
        subject.kind.is_none()
            && self.scene.may(subject, Act::Create) == refused
            && self.scene.may(&directory, Act::Create).is_ok()
    }
}

/// How many rules below a directory are named.
const SHOWN: usize = 3;

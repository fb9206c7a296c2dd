//! An [`Account`] as text and as JSON.

use std::path::Path;

use serde_json::{Value, json};

use super::account::Account;
use super::cure::Cure;
use super::question::Act;
use super::scene::Means;
use crate::cli::options::Asked;
use crate::cli::output;
use crate::plan::Op;
use crate::policy::{Access, Loss, Rule};

impl Account<'_> {
    /// Several lines, without the last line's end.
    pub(super) fn to_text(&self, asked: &Asked) -> String {
        let mut lines = vec![self.headline()];
        for link in &self.seen.links {
            lines.push(format!("  link:     {} -> {}", link.at.display(), link.target.display()));
        }
        if self.judged() != asked.request.cwd.join(&self.seen.written) {
            lines.push(format!("  is:       {}", self.judged().display()));
        }
        let rules = &self.scene.plan.names;
        let index = self.rule();
        lines.push(format!("  rule:     {}", told(&rules.all()[index])));
        lines.extend(self.replaced(index).map(|rule| format!("            instead of {}", told(rule))));
        for loser in self.losers() {
            let rule = &rules.all()[loser.index];
            lines.push(format!("  beats:    {}, which {}", told(rule), loss(loser.why)));
            lines
                .extend(self.replaced(loser.index).map(|rule| format!("            itself instead of {}", told(rule))));
        }
        lines.push(format!("  enforced: {}", self.enforced(asked)));
        lines.extend(self.notes().into_iter().map(|note| format!("  note:     {note}")));
        lines.extend(self.cure.as_ref().map(|cure| format!("  cure:     {}", cured(cure))));
        lines.iter().map(output::printable).collect::<Vec<_>>().join("\n")
    }

    fn headline(&self) -> String {
        let path = self.seen.written.display();
        match (self.act, self.answer()) {
            (Some(act), Some(Ok(()))) => format!("yes: {path} can be {}", act.done()),
            (Some(act), Some(Err(_))) => format!("no: {path} cannot be {}", act.done()),
            _ => format!("{path}: {}", self.summary()),
        }
    }

    fn summary(&self) -> String {
        let exists = self.subject().kind.is_some();
        let acts = self.may.iter().filter(|(act, _)| !(exists && *act == Act::Create));
        let (can, cannot): (Vec<_>, Vec<_>) = acts.partition(|(_, may)| may.is_ok());
        let list = |acts: Vec<&(Act, _)>| acts.into_iter().map(|(act, _)| act.done()).collect::<Vec<_>>().join(", ");
        match (can.is_empty(), cannot.is_empty()) {
            (true, _) => "cannot be seen".to_owned(),
            (_, true) => format!("can be {}", list(can)),
            _ => format!("can be {}; cannot be {}", list(can), list(cannot)),
        }
    }

    /// The rules of earlier layers that a rule replaced.
    fn replaced(&self, index: usize) -> impl Iterator<Item = &Rule> {
        self.scene.plan.names.replaced().iter().filter(move |(_, by)| *by == index).map(|(rule, _)| rule)
    }

    fn enforced(&self, asked: &Asked) -> String {
        let (means, op) = self.means();
        let at = op.map_or(Path::new("/"), Op::path).display();
        let access = self.scene.judge(self.judged()).access;
        match means {
            Means::Free => format!("free: {at} is mounted writable, and nobody is asked"),
            Means::Broker if access == Access::Write => "broker: on a read-only mount, each change is judged".into(),
            Means::ReadOnly | Means::Broker if access == Access::Hide => {
                "mask: there is nothing to cover; what the host makes there is covered at once".into()
            }
            Means::Broker => "the kernel's read-only mount; the broker grants nothing here".into(),
            Means::ReadOnly => "the kernel's read-only mount".into(),
            Means::Mask => format!("mask: {at} is covered"),
            Means::Frame => format!("mask: {at} is an empty directory that holds only what rules name"),
            Means::Private => format!("private: {at} is a directory of the session's own"),
            Means::Overlay => self.overlaid(asked, op),
            Means::Devices => "the run's own /dev: the usual devices, /dev/pts and /dev/shm".into(),
            Means::Proc => "the run's own /proc".into(),
        }
    }

    /// The same in one word.
    fn enforced_by(&self) -> &'static str {
        match (self.means().0, self.scene.judge(self.judged()).access) {
            (Means::Mask | Means::Frame, _) | (Means::Broker | Means::ReadOnly, Access::Hide) => "mask",
            (Means::Broker, Access::Write) => "broker",
            (Means::Broker | Means::ReadOnly, _) => "read-only",
            (Means::Free, _) => "free",
            (Means::Private, _) => "private",
            (Means::Overlay, _) => "overlay",
            (Means::Devices, _) => "dev",
            (Means::Proc, _) => "proc",
        }
    }

    fn overlaid(&self, asked: &Asked, op: Option<&Op>) -> String {
        let Some(Op::Overlay { path, upper, rule, .. }) = op else { return "overlay".into() };
        let redirected = self.scene.plan.names.all()[*rule].access == Access::Read;
        let why = if redirected { format!(" ({})", asked.policy.redirect.origin) } else { String::new() };
        format!("overlay of {}{why}: {upper}", path.display())
    }

    pub(super) fn to_json(&self, asked: &Asked) -> Value {
        let rules = &self.scene.plan.names;
        let rule = |index: usize| {
            let replaced: Vec<Value> = self.replaced(index).map(Rule::to_json).collect();
            with(rules.all()[index].to_json(), "replaced", replaced.into())
        };
        let beaten: Vec<Value> =
            self.losers().iter().map(|loser| with(rule(loser.index), "why", loss(loser.why).into())).collect();
        let links: Vec<Value> = self
            .seen
            .links
            .iter()
            .map(|link| json!({ "at": lossy(&link.at), "target": lossy(&link.target) }))
            .collect();
        let may: serde_json::Map<String, Value> =
            self.may.iter().map(|(act, may)| (act.name().to_owned(), may.is_ok().into())).collect();
        let works = match &self.cure {
            Some(Cure::Works(text)) => Some(text),
            _ => None,
        };
        json!({
            "path": lossy(&self.seen.written),
            "judged": lossy(self.judged()),
            "links": links,
            "exists": self.subject().kind.is_some(),
            "may": may,
            "asked": self.act.map(Act::name),
            "answer": self.answer().map(|answer| answer.is_ok()),
            "rule": rule(self.rule()),
            "beats": beaten,
            "enforced_by": self.enforced_by(),
            "enforced": self.enforced(asked),
            "notes": self.notes(),
            "cure": works,
        })
    }
}

/// A rule in words.
fn told(rule: &Rule) -> String {
    format!("{} {}  ({})", rule.access, rule.target, rule.said_by())
}

fn loss(why: Loss) -> &'static str {
    match why {
        Loss::Shallower => "names less of the path",
        Loss::ShutOut => "begins above a directory that is not the host's own, and has no say in it",
        Loss::Pattern => "names as much of the path, but is a pattern",
        Loss::EarlierLayer => "is a pattern of an earlier layer",
        Loss::LessStrict => "is a pattern that permits more",
        Loss::Same => "says the same",
    }
}

fn cured(cure: &Cure) -> String {
    match cure {
        Cure::Works(text) => text.clone(),
        Cure::None(why) => format!("none by an option: {why}"),
    }
}

fn with(mut value: Value, key: &str, more: Value) -> Value {
    value[key] = more;
    value
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

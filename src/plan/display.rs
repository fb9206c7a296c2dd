//! A plan as text and as JSON: what `explain` prints.

use std::fmt;

use serde_json::{Value, json};

use super::{Identity, Kind, Op, Plan, ProcView, Root, View};
use crate::policy::{Network, Rule};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "command:  {}", words(self).join(" "))?;
        writeln!(f, "in:       {}", self.request.cwd.display())?;
        writeln!(f, "session:  {}", self.request.session.as_deref().unwrap_or("one of its own, removed at its end"))?;
        writeln!(f, "identity: {}", identity(&self.identity))?;
        writeln!(f, "network:  {}", network(self))?;
        for (limit, setting) in self.limits.iter() {
            writeln!(f, "limit:    {limit} {}  ({})", limit.show(setting.value), setting.origin)?;
        }
        self.fmt_root(f)?;
        for op in &self.mounts {
            writeln!(f, "  {}", self.line(op))?;
        }
        if self.request.proc == ProcView::Fresh {
            writeln!(f, "  proc     /proc")?;
        }
        self.fmt_guarded(f)?;
        self.fmt_rules(f)?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl Plan {
    fn fmt_root(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.root {
            Root::Host => writeln!(f, "mounts: the host's tree, read-only, and in it"),
            Root::Empty => writeln!(f, "mounts: an empty tree, and in it"),
        }
    }

    fn fmt_guarded(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.guarded.is_empty() {
            return Ok(());
        }
        writeln!(f, "guarded directories (writable but for some names; the broker performs what is permitted):")?;
        self.guarded.iter().try_for_each(|path| writeln!(f, "  {}", path.display()))
    }

    fn fmt_rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rules in force:")?;
        for (index, rule) in self.names.all().iter().enumerate() {
            writeln!(f, "  {:<8} {}  ({})", rule.access.to_string(), rule.target, rule.said_by())?;
            for replaced in self.replaced_by(index) {
                writeln!(f, "           instead of {} ({})", replaced.access, replaced.said_by())?;
            }
        }
        Ok(())
    }

    /// The rules of earlier layers in whose place a rule stands.
    fn replaced_by(&self, index: usize) -> impl Iterator<Item = &Rule> {
        self.names.replaced().iter().filter(move |(_, by)| *by == index).map(|(rule, _)| rule)
    }

    fn line(&self, op: &Op) -> String {
        let path = op.path().display();
        let why = |rule: &usize| self.names.all()[*rule].origin.to_string();
        match op {
            Op::Bind { view: View::Read, rule, .. } => format!("read     {path}  ({})", why(rule)),
            Op::Bind { view: View::Write, rule, .. } => format!("write    {path}  ({})", why(rule)),
            Op::Bind { view: View::Device, rule, .. } => format!("device   {path}  ({})", why(rule)),
            Op::Private { rule, .. } => format!("private  {path}  ({})", why(rule)),
            Op::Mask { rule, .. } => format!("hide     {path}  ({})", why(rule)),
            Op::Frame { rule, .. } => format!("hide     {path}, but for what is named below  ({})", why(rule)),
            Op::Mirror { of: Some(of), rule, .. } => {
                format!("mirror   {path}, with links to what {} holds  ({})", of.display(), why(rule))
            }
            Op::Mirror { of: None, rule, .. } => format!("mirror   {path}, with nothing in it  ({})", why(rule)),
            Op::Overlay { upper, rule, .. } => format!("overlay  {path}, {upper}  ({})", why(rule)),
            Op::Stub { kind: Kind::Directory, .. } => format!("make     {path}/  (in a directory of ours)"),
            Op::Stub { kind: Kind::File, .. } => format!("make     {path}  (in a directory of ours)"),
            Op::Link { target, .. } => format!("link     {path} -> {}  (in a directory of ours)", target.display()),
            Op::Copy { files, .. } => format!("copy     {path}: {} files, owned by the caller", files.len()),
            Op::Dev { console, preload } => {
                let console = console.as_ref().map(|tty| format!(", with {} as console", tty.display()));
                let preload = if *preload { ", with the fast path's library" } else { "" };
                format!("dev      /dev{}{preload}", console.unwrap_or_default())
            }
        }
    }

    /// The plan as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rules: Vec<Value> = self
            .names
            .all()
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                let mut value = rule.to_json();
                value["replaced"] = self.replaced_by(index).map(Rule::to_json).collect();
                value
            })
            .collect();
        let environment: Vec<String> =
            self.environment.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        let limits: serde_json::Map<String, Value> =
            self.limits.iter().map(|(limit, setting)| (limit.to_string(), setting.value.into())).collect();
        json!({
            "command": words(self),
            "cwd": self.request.cwd,
            "session": self.request.session,
            "identity": self.identity,
            "root": self.root,
            "network": self.network.value,
            "proc": self.request.proc,
            "mounts": self.mounts,
            "guarded": self.guarded,
            "rules": rules,
            "limits": limits,
            "environment": environment,
            "notes": self.notes,
        })
    }
}

fn words(plan: &Plan) -> Vec<String> {
    plan.request.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

impl Rule {
    /// The rule as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "access": self.access,
            "path": self.target.to_string(),
            "origin": self.origin.to_string(),
            "reason": self.reason,
        })
    }
}

fn identity(identity: &Identity) -> String {
    match identity {
        Identity::One { uid, gid } => format!("user {uid}, group {gid}, and nobody else"),
        Identity::Same { .. } => "every user of the caller's namespace, without capabilities".into(),
    }
}

fn network(plan: &Plan) -> &'static str {
    match (plan.network.value, &plan.request.session) {
        (Network::None, None) => "none but loopback",
        (Network::None, Some(_)) => "none but loopback, which the runs of the session share",
        (Network::Host, _) => "the host's",
    }
}

//! A policy while it is made: its lines with where they come from, and remarks.

use std::collections::BTreeMap;
use std::path::Path;

use super::text::{one_line, quoted};
use super::{Imported, Tool};

/// What is said about a key of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The key, with its value where that tells more; one line without control characters.
    pub key: String,
    pub text: String,
    /// What the user can do.
    pub cure: Option<String>,
}

/// An element of a list of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    optional: bool,
    from: Vec<String>,
}

/// What a rule may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Hide,
    Read,
    Write,
}

/// A setting that has one value, and where it comes from.
type Single = Option<(&'static str, String)>;

#[derive(Default)]
pub(super) struct Draft {
    files: BTreeMap<Access, Vec<Line>>,
    pub(super) git: Single,
    pub(super) network: Single,
    pub(super) keep: Option<(Vec<String>, String)>,
    pub(super) unset: Vec<(String, String)>,
    pub(super) set: BTreeMap<String, (String, String)>,
    notes: Vec<Remark>,
    refused: Vec<Remark>,
}

impl Draft {
    /// A rule. Whether something is there is looked at when a run starts: as in the tools, an absent path is no error.
    pub(super) fn rule(&mut self, access: Access, text: String, from: &str) {
        let optional = access == Access::Write;
        let lines = self.files.entry(access).or_default();
        match lines.iter_mut().find(|line| line.text == text) {
            Some(line) if line.from.iter().any(|other| other == from) => {}
            Some(line) => line.from.push(from.to_owned()),
            None => lines.push(Line { text, optional, from: vec![from.to_owned()] }),
        }
    }

    /// Something that is kept in another way than the tool keeps it.
    pub(super) fn note(&mut self, key: &str, text: impl AsRef<str>) {
        push(&mut self.notes, key, text.as_ref(), None);
    }

    /// Something that is not kept.
    pub(super) fn refuse(&mut self, key: &str, text: impl AsRef<str>, cure: Option<&str>) {
        push(&mut self.refused, key, text.as_ref(), cure.map(str::to_owned));
    }

    pub(super) fn finish(self, tool: Tool, file: &Path) -> Imported {
        let policy = self.text(tool, file);
        Imported { policy, notes: self.notes, refused: self.refused }
    }

    fn text(&self, tool: Tool, file: &Path) -> String {
        let mut out = Text::default();
        out.comment(&format!("Made of {} by `stockade import {}`.", file.display(), tool.name()));
        self.remarks(&mut out);
        if let Some((mode, from)) = &self.git {
            out.blank();
            out.comment(from);
            out.line(&format!("git = {}", quoted(mode)));
        }
        self.rules(&mut out);
        if let Some((mode, from)) = &self.network {
            out.table("network");
            out.comment(from);
            out.line(&format!("mode = {}", quoted(mode)));
        }
        self.environment(&mut out);
        out.0
    }

    fn remarks(&self, out: &mut Text) {
        for (title, remarks) in [("Not kept:", &self.refused), ("To know:", &self.notes)] {
            if !remarks.is_empty() {
                out.line("#");
                out.comment(title);
            }
            for Remark { key, text, cure } in remarks {
                let cure = cure.as_ref().map(|cure| format!(" ({cure})")).unwrap_or_default();
                out.comment(&format!("- {key}: {text}{cure}"));
            }
        }
    }

    fn rules(&self, out: &mut Text) {
        if !self.files.is_empty() {
            out.table("files");
        }
        for (access, lines) in &self.files {
            out.line(match access {
                Access::Hide => "hide = [",
                Access::Read => "read = [",
                Access::Write => "write = [",
            });
            for Line { text, optional, from } in lines {
                for from in from {
                    out.comment_in(from);
                }
                match optional {
                    true => out.line(&format!("    {{ path = {}, optional = true }},", quoted(text))),
                    false => out.line(&format!("    {},", quoted(text))),
                }
            }
            out.line("]");
        }
    }

    fn environment(&self, out: &mut Text) {
        if self.keep.is_some() || !self.unset.is_empty() {
            out.table("environment");
        }
        if let Some((names, from)) = &self.keep {
            out.comment(from);
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            out.line(&format!("keep = [{}]", names.join(", ")));
        }
        if !self.unset.is_empty() {
            out.line("unset = [");
            for (name, from) in &self.unset {
                out.comment_in(from);
                out.line(&format!("    {},", quoted(name)));
            }
            out.line("]");
        }
        if !self.set.is_empty() {
            out.table("environment.set");
        }
        for (name, (value, from)) in &self.set {
            out.comment(from);
            out.line(&format!("{} = {}", quoted(name), quoted(value)));
        }
    }
}

fn push(remarks: &mut Vec<Remark>, key: &str, text: &str, cure: Option<String>) {
    let remark = Remark { key: one_line(key), text: one_line(text), cure };
    if !remarks.contains(&remark) {
        remarks.push(remark);
    }
}

/// Lines of TOML.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn blank(&mut self) {
        self.line("");
    }

    fn comment(&mut self, text: &str) {
        self.line(&format!("# {}", one_line(text)));
    }

    fn comment_in(&mut self, text: &str) {
        self.line(&format!("    # {}", one_line(text)));
    }

    fn table(&mut self, name: &str) {
        self.blank();
        self.line(&format!("[{name}]"));
    }
}

//! `stockade doctor --logs`: how often another sandbox's launch failed because of its neighbours.

mod race;
mod reader;
mod transcript;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::error::Error;
use crate::cli::{Done, output};
use race::Race;
use transcript::ToolError;

/// What was found in all files together.
#[derive(Debug, Default)]
struct Count {
    files: u64,
    lines: u64,
    /// Lines of transcripts that are no JSON.
    bad_lines: u64,
    /// Files that could not be read to their end, and why.
    bad_files: Vec<String>,
    failures: u64,
    messages: BTreeMap<Race, u64>,
    days: BTreeMap<String, u64>,
    sessions: BTreeMap<String, u64>,
    /// Tool calls that were counted: a session that is continued begins with a copy of what it continues.
    seen: BTreeSet<String>,
}

pub(super) fn run(paths: &[PathBuf], as_json: bool) -> Done {
    let mut count = Count::default();
    for path in paths {
        // What was named must be there; a link that was named is meant.
        let meta = path.metadata().map_err(|source| Error::Transcript { path: path.clone(), source })?;
        if meta.is_dir() { count.directory(path) } else { count.file(path) }
    }
    for why in &count.bad_files {
        output::note(output::printable(why));
    }
    if as_json {
        output::line(count.to_json())?;
    } else {
        count.show()?;
    }
    Ok(0)
}

impl Count {
    /// Everything below, links not followed.
    fn directory(&mut self, dir: &Path) {
        let entries = match dir.read_dir() {
            Ok(entries) => entries,
            Err(error) => return self.bad_files.push(format!("{}: {error}", dir.display())),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => self.directory(&path),
                Ok(meta) if meta.is_file() => self.file(&path),
                _ => {}
            }
        }
    }

    fn file(&mut self, path: &Path) {
        self.files += 1;
        let mut session = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_transcript = path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
        let read = reader::lines(path, |line| self.line(line, is_transcript, &mut session));
        if let Err(error) = read {
            self.bad_files.push(format!("{}: {error}", path.display()));
        }
    }

    /// One line of a file; `None` stands for one that is too long to be read.
    fn line(&mut self, line: Option<&[u8]>, is_transcript: bool, session: &mut String) {
        self.lines += 1;
        let Some(line) = line.map(<[u8]>::trim_ascii_end) else {
            self.bad_lines += 1;
            return;
        };
        if is_transcript || line.starts_with(b"{") {
            match transcript::errors(line, session) {
                Ok(errors) => return errors.into_iter().for_each(|error| self.add(error)),
                Err(_) if is_transcript => {
                    self.bad_lines += u64::from(!line.is_empty());
                    return;
                }
                Err(_) => {}
            }
        }
        if let Some(race) = Race::of_line(&String::from_utf8_lossy(line)) {
            self.add(ToolError { race, day: None, session: session.clone(), call: None });
        }
    }

    fn add(&mut self, error: ToolError) {
        if error.call.is_some_and(|call| !self.seen.insert(call)) {
            return;
        }
        self.failures += 1;
        *self.messages.entry(error.race).or_default() += 1;
        *self.days.entry(error.day.unwrap_or_else(|| "day unknown".into())).or_default() += 1;
        *self.sessions.entry(error.session).or_default() += 1;
    }

    fn show(&self) -> std::io::Result<()> {
        let Self { files, lines, bad_lines, failures, .. } = self;
        output::line(format_args!(
            "{failures} failed tool calls with a message of bubblewrap's races, in {files} files with {lines} lines"
        ))?;
        if *bad_lines > 0 {
            output::line(format_args!("lines that could not be read: {bad_lines}"))?;
        }
        let messages = self.messages.iter().map(|(race, count)| (race.text(), *count)).collect::<Vec<_>>();
        let texts =
            |map: &BTreeMap<String, u64>| map.iter().map(|(key, count)| (key.clone(), *count)).collect::<Vec<_>>();
        list("by message", messages)?;
        list("by day", texts(&self.days))?;
        list("by session", most_first(texts(&self.sessions)))
    }

    fn to_json(&self) -> Value {
        let messages: BTreeMap<&str, u64> = self.messages.iter().map(|(race, count)| (race.text(), *count)).collect();
        json!({
            "files": self.files,
            "lines": self.lines,
            "unreadable_lines": self.bad_lines,
            "unreadable_files": self.bad_files,
            "failures": self.failures,
            "messages": messages,
            "days": self.days,
            "sessions": self.sessions,
        })
    }
}

fn most_first(mut items: Vec<(String, u64)>) -> Vec<(String, u64)> {
    items.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    items
}

fn list(title: &str, items: Vec<(impl std::fmt::Display, u64)>) -> std::io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    output::line(format_args!("{title}:"))?;
    items
        .into_iter()
        .try_for_each(|(what, count)| output::line(format_args!("{count:>8}  {}", output::printable(what))))
}

//! As much of Markdown as the documents use.

use std::fs;
use std::path::{Path, PathBuf};

pub(super) struct Document {
    /// From the root of the sources.
    pub(super) name: PathBuf,
    pub(super) text: String,
}

/// A fenced block.
pub(super) struct Block {
    /// The line of its opening fence, from 1.
    pub(super) line: usize,
    pub(super) info: String,
    pub(super) text: String,
    /// Why it is not run: `<!-- not run: REASON -->` on the line before.
    pub(super) not_run: Option<String>,
}

impl Document {
    pub(super) fn read(root: &Path, path: &Path) -> Self {
        Self { name: path.strip_prefix(root).unwrap().to_owned(), text: fs::read_to_string(path).unwrap() }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut inside, mut before) = (false, "");
        for (index, line) in self.text.lines().enumerate() {
            match line.strip_prefix("```") {
                Some(_) if inside => inside = false,
                Some(info) => {
                    inside = true;
                    let mark = before.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
                    let not_run = mark.map(str::to_owned);
                    blocks.push(Block { line: index + 1, info: info.to_owned(), text: String::new(), not_run });
                }
                None if inside => blocks.last_mut().unwrap().text.extend([line, "\n"]),
                None => {}
            }
            before = line;
        }
        assert!(!inside, "{}: a block is not closed", self.name.display());
        blocks
    }

    /// The text without fenced blocks and code spans.
    pub(super) fn prose(&self) -> String {
        let outside = self.text.split("```").step_by(2).collect::<String>();
        outside.split('`').step_by(2).collect()
    }

    /// What links lead to.
    pub(super) fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let after = prose.split("](").skip(1);
        after.map(|rest| rest.split(')').next().unwrap().to_owned()).collect()
    }

    /// The text between a heading and the next one of its level or above.
    pub(super) fn section(&self, heading: &str) -> &str {
        let (_, rest) = self.text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
        let level = heading.split(' ').next().unwrap();
        let ends = (1..=level.len()).filter_map(|count| rest.find(&format!("\n{} ", "#".repeat(count))));
        &rest[..ends.min().unwrap_or(rest.len())]
    }

    /// The anchors of its headings, as the usual web sites make them.
    pub(super) fn anchors(&self) -> Vec<String> {
        let outside = self.text.split("\n```").step_by(2).collect::<String>();
        let headings = outside.lines().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

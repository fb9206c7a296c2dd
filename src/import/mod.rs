//! The settings of other tools as a policy: what they say about files, the network and the environment, and a list of
//! what cannot be kept.
//!
//! Pure: text in, text out. Where a tool's own rules of precedence differ from a policy's, it is settled here, so that
//! what was denied there is denied by the policy. `docs/import.md` has every key and what becomes of it.
#![forbid(unsafe_code)]

mod claude;
mod claude_rule;
mod codex;
mod codex_environment;
mod codex_profile;
mod draft;
mod error;
mod gitignore;
mod keys;
mod network;
mod place;
mod sandbox;
mod settle;
mod srt;
mod srt_glob;
#[cfg(test)]
mod tests;
mod text;

pub use draft::Remark;
pub use error::Error;

use std::path::Path;

use place::Places;

/// Whose settings they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `@anthropic-ai/sandbox-runtime` 0.0.83: `~/.srt-settings.json`.
    Srt,
    /// Claude Code: `settings.json`.
    Claude,
    /// Codex 0.171: `~/.codex/config.toml`.
    Codex,
}

impl Tool {
    /// The word that names it on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Srt => "srt",
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

/// Where Claude Code's settings belong to: what `/…` starts from in its permission rules, and relative paths in its
/// sandbox's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The project that a run is in.
    Project,
    /// The user: `~/.claude`.
    User,
    /// Neither can be told from where the file is.
    Unknown,
}

/// What settings are read in.
#[derive(Debug, Clone)]
pub struct Surroundings<'a> {
    /// The settings file, as named.
    pub file: &'a Path,
    /// The home directory of whose settings they are; absolute.
    pub home: &'a str,
    /// The same without links.
    pub real_home: &'a str,
    /// For Claude Code.
    pub owner: Owner,
}

/// What became of a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The text of a policy file.
    pub policy: String,
    /// What is kept in another way, or more strictly, than the tool keeps it.
    pub notes: Vec<Remark>,
    /// What is not kept.
    pub refused: Vec<Remark>,
}

/// Makes a policy of a tool's settings.
///
/// # Errors
/// The text is not what the tool itself would read: broken, or a value of a wrong type.
pub fn import(tool: Tool, settings: &str, surroundings: &Surroundings<'_>) -> Result<Imported, Error> {
    let places = Places::new(surroundings.home, surroundings.real_home);
    let draft = match tool {
        Tool::Srt => srt::read(&json(settings)?, &places),
        Tool::Claude => claude::read(&json(settings)?, &places, &surroundings.owner),
        Tool::Codex => codex::read(&codex::parse(settings)?, &places),
    }?;
    Ok(draft.finish(tool, surroundings.file))
}

/// As `JSON.parse`: of a key that is there twice the last value counts.
fn json(text: &str) -> Result<serde_json::Value, Error> {
    let value: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
    if value.is_object() { Ok(value) } else { Err(Error::wrong("the file", "an object")) }
}

//! `stockade import`

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::error::Error;
use super::{Done, options, output};
use crate::import::{self, Imported, Owner, Remark, Surroundings, Tool};
use crate::policy;

/// Make a policy of another tool's settings.
///
/// Prints a policy file in which a comment says of every rule where it comes from. What cannot be kept is listed, and then
/// nothing is made: --partial makes the policy of the rest, and where there is a choice, of the stricter. The document
/// "import" has every key.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Whose settings they are
    tool: ToolArg,
    /// The settings: ~/.srt-settings.json, .claude/settings.json, ~/.codex/config.toml
    file: PathBuf,
    /// Write it to this file, which must not be there
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
    /// Make a policy although something cannot be kept
    #[arg(long)]
    partial: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ToolArg {
    /// @anthropic-ai/sandbox-runtime
    Srt,
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

impl From<ToolArg> for Tool {
    fn from(tool: ToolArg) -> Self {
        match tool {
            ToolArg::Srt => Self::Srt,
            ToolArg::Claude => Self::Claude,
            ToolArg::Codex => Self::Codex,
        }
    }
}

pub(super) fn run(args: &Args) -> Done {
    let context = options::own_context()?;
    let home = context.home.to_str().ok_or(Error::NoHome)?;
    let file = &args.file;
    let text = fs::read_to_string(file).map_err(|source| Error::Settings { path: file.clone(), source })?;
    let real_home = fs::canonicalize(&context.home).unwrap_or_else(|_| context.home.clone());
    let real_home = real_home.to_str().ok_or(Error::NoHome)?;
    let surroundings = Surroundings { file, home, real_home, owner: owner(file, Path::new(real_home)) };
    let tool = args.tool.into();
    let imported = import::import(tool, &text, &surroundings).map_err(|source| Error::Import {
        path: file.clone(),
        tool: tool.name(),
        source,
    })?;
    tell(&imported);
    if !imported.refused.is_empty() && !args.partial {
        return Err(Error::NotKept { path: file.clone(), count: imported.refused.len() });
    }
    policy::check(Path::new("the policy made of it"), &imported.policy, &context)?;
    match &args.output {
        None => output::stdout().write_all(imported.policy.as_bytes())?,
        Some(path) => write(path, &imported.policy, args.force)?,
    }
    Ok(0)
}

fn tell(imported: &Imported) {
    for Remark { key, text, .. } in &imported.notes {
        output::note(format_args!("{key}: {text}"));
    }
    for Remark { key, text, cure } in &imported.refused {
        let cure = cure.as_ref().map(|cure| format!("; {cure}")).unwrap_or_default();
        output::stockade(format_args!("not kept: {key}: {text}{cure}"));
    }
}

/// Where Claude Code's settings belong to, by where they are.
fn owner(file: &Path, real_home: &Path) -> Owner {
    let full = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let directory = full.parent().filter(|directory| directory.ends_with(".claude"));
    let Some(above) = directory.and_then(Path::parent) else { return Owner::Unknown };
    if above == real_home { Owner::User } else { Owner::Project }
}

/// Never over a file that is there, unless told so; then by a rename, so that there is the old one or the new one.
fn write(path: &Path, policy: &str, force: bool) -> Result<(), Error> {
    let failed = |source: std::io::Error| match source.kind() {
        ErrorKind::AlreadyExists => Error::PolicyExists { path: path.to_owned() },
        _ => Error::Page { path: path.to_owned(), source },
    };
    let Some(name) = path.file_name().filter(|_| force) else { return create(path, policy).map_err(failed) };
    let beside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    create(&beside, policy).map_err(|source| Error::Page { path: beside.clone(), source })?;
    fs::rename(&beside, path).map_err(|source| {
        // The message is about the rename.
        let _ = fs::remove_file(&beside);
        Error::Page { path: path.to_owned(), source }
    })
}

/// Settings may hold secrets.
fn create(path: &Path, policy: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(policy.as_bytes())
}

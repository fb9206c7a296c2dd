//! `stockade init`

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use super::error::Error;
use super::{Done, options, output};

/// Write a configuration with everything in it that can be said, as comments.
///
/// In the user's directory of configuration (stockade/config.toml); a file that is there is left alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print it instead
    #[arg(long)]
    stdout: bool,
}

/// The configuration. `#` before a word comments a setting out, `# ` begins an explanation.
const TEMPLATE: &str = include_str!("init.toml");

pub(super) fn run(args: &Args) -> Done {
    if args.stdout {
        output::stdout().write_all(TEMPLATE.as_bytes())?;
        return Ok(0);
    }
    let path = options::own_config()?;
    create(&path)?;
    output::line(path.display())?;
    Ok(0)
}

/// A name that is taken is not written to, whatever it is: also a link, wherever it leads.
fn create(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Config { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => Error::ConfigExists { path: path.to_owned() },
            _ => failed(source),
        })?;
    file.write_all(TEMPLATE.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::TEMPLATE;
    use crate::policy::{self, Context, Limit, Sources};

    /// The template with every setting in force.
    fn uncommented() -> String {
        let line = |line: &str| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        };
        TEMPLATE.lines().map(line).collect()
    }

    fn load(text: &str) -> Result<policy::Policy, policy::Error> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("config.toml");
        std::fs::write(&file, text).expect("written");
        let env = [("CARGO_HOME".into(), "/cargo".into())].into();
        let (home, cwd) = ("/home/me".into(), "/home/me/p".into());
        let context = Context { home, cwd, project: "/home/me/p".into(), env, ..Context::default() };
        policy::load(&Sources { context, config: Some(file), ..Sources::default() })
    }

    #[test]
    fn every_setting_can_be_uncommented() {
        let policy = load(&uncommented()).expect("a policy");
        let from_file = policy.rules.all().iter().filter(|rule| matches!(rule.origin, policy::Origin::File { .. }));
        assert_eq!(from_file.count(), 8);
        for limit in Limit::ALL.into_iter().filter(|limit| *limit != Limit::Memory) {
            assert!(policy.limits.get(limit).is_some(), "{limit}");
        }
    }

    #[test]
    fn as_it_is_it_says_nothing() {
        let (with, without) = (load(TEMPLATE).expect("a policy"), load("").expect("a policy"));
        assert_eq!(with.rules.all(), without.rules.all());
        assert!(TEMPLATE.lines().all(|line| line.is_empty() || line.starts_with('#')));
    }

    /// What docs/policy.md shows as a whole file.
    #[test]
    fn every_key_of_the_manual_is_there() {
        let manual = include_str!("../../docs/policy.md");
        let example = manual.split("```").nth(1).expect("an example");
        let key = |line: &str| {
            let word = line.split([' ', '=']).next().unwrap_or_default();
            (!word.is_empty() && line.contains(" = ") || line.starts_with('[')).then(|| word.to_owned())
        };
        let there: Vec<String> = uncommented().lines().filter_map(key).collect();
        let missing: Vec<String> = example.lines().filter_map(key).filter(|key| !there.contains(key)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }
}

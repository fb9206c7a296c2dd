//! What is asked of a path on the command line.

use std::ffi::OsString;
use std::fmt;

use clap::{Arg, ArgAction, ArgMatches};

/// Something that a command may want to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Read,
    /// Change what is there: the content of a file, the names in a directory.
    Write,
    /// Make it, where it is absent.
    Create,
    /// Give its name to something else, which replaces it.
    RenameTo,
}

impl Act {
    pub(super) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Create, Self::RenameTo];

    /// The name of its flag.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::RenameTo => "rename-to",
        }
    }

    /// `… can be done`
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "written",
            Self::Create => "created",
            Self::RenameTo => "renamed to",
        }
    }

    /// Does it need the directory, not what is there?
    pub(super) fn changes_name(self) -> bool {
        matches!(self, Self::Create | Self::RenameTo)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The acts that were asked about.
///
/// `--write` and `--read` also make rules, as they do for `run`. Here a rule needs the equals sign (`--write=PATH`), so
/// that nothing can be taken for the other: the word after a bare `--write` is the path that is asked about.
#[derive(Debug, Default)]
pub(super) struct Question(pub(super) Vec<Act>);

/// Both a question and a rule.
const SHARED: [(Act, &str); 2] = [
    (Act::Read, "May it be read? With =PATH: the rule that `run` makes of it"),
    (Act::Write, "May it be written? With =PATH: the rule that `run` makes of it"),
];
const OWN: [(Act, &str); 2] =
    [(Act::Create, "May it be made?"), (Act::RenameTo, "May something be renamed to it, in its place?")];

impl clap::FromArgMatches for Question {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let bare = |act: Act| {
            let mut given = matches.get_occurrences::<OsString>(act.name()).into_iter().flatten();
            given.any(|mut values| values.next().is_none())
        };
        let shared = SHARED.into_iter().map(|(act, _)| act).filter(|act| bare(*act));
        let own = OWN.into_iter().map(|(act, _)| act).filter(|act| matches.get_flag(act.name()));
        Ok(Self(shared.chain(own).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Question {
    fn augment_args(command: clap::Command) -> clap::Command {
        let shared = |command: clap::Command, (act, help): (Act, &'static str)| {
            command.mut_arg(act.name(), |arg| arg.num_args(0..=1).require_equals(true).help(help))
        };
        let own = |command: clap::Command, (act, help): (Act, &'static str)| {
            command.arg(Arg::new(act.name()).long(act.name()).help(help).action(ArgAction::SetTrue))
        };
        OWN.into_iter().fold(SHARED.into_iter().fold(command, shared), own)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

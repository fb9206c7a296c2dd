//! Writing to the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the one place that prints")]

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use super::error::Error;

/// Print an error with its causes and what to do about it.
pub(super) fn error(error: &Error) {
    eprintln!("error: {}", printable(error));
    if let Some(excerpt) = error.excerpt() {
        eprintln!("{}", excerpt.trim_end());
    }
    for cause in error.causes() {
        eprintln!("caused by: {}", printable(cause));
    }
    if let Some(hint) = error.hint() {
        eprintln!("hint: {}", printable(hint));
    }
}

/// Names come from whoever made the file: control characters in them are escaped, or they would steer the terminal.
pub(super) fn printable(text: impl Display) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.to_string().chars().map(escaped).collect()
}

/// The same for lines of a text, whose ends and tabs stay.
pub(super) fn printable_lines(text: &str) -> String {
    let escaped = |c: char| if c.is_control() && !"\n\t".contains(c) { printable(c) } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Something that does not stop the command.
pub(super) fn note(text: impl Display) {
    eprintln!("note: {text}");
}

/// An error that does not stop what is being done.
pub(super) fn warn(error: &Error) {
    let causes = error.causes().iter().map(|cause| format!(": {cause}")).collect::<Vec<_>>().concat();
    note(printable(format_args!("{error}{causes}")));
}

/// What stockade says beside the command's own output.
pub(super) fn stockade(text: impl Display) {
    eprintln!("stockade: {text}");
}

/// What is said in bubblewrap's place.
pub(super) fn bwrap(level: &str, text: &str) {
    eprintln!("{level}bwrap: {}", printable(text));
}

/// Standard error, for a process that goes on when we have ended.
pub(super) fn copy_of_stderr() -> std::io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    std::io::stderr().as_fd().try_clone_to_owned().map(Into::into)
}

/// One line of a trace.
pub(super) fn trace(text: impl Display) {
    eprintln!("{text}");
}

/// A usage error, or help that was asked for.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    // Help that cannot be written has no reader.
    let _ = error.print();
    if error.use_stderr() { super::failed() } else { ExitCode::SUCCESS }
}

/// What can be asked for, where nothing was: as any usage error.
pub(super) fn brief(text: &str) -> ExitCode {
    eprintln!("{text}");
    super::failed()
}

/// One line to standard output; a closed pipe is an error like any other.
pub(super) fn line(text: impl Display) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

/// Standard output, for what is not made of lines.
pub(super) fn stdout() -> impl Write {
    std::io::stdout().lock()
}

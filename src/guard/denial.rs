//! What was denied, kept for the report at the end of a run: bounded, each thing once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::attempt::Attempt;
use super::decide::Cause;
use crate::policy::{Access, Origin};

/// How many different denials are kept.
const LIMIT: usize = 256;
/// How many different addresses are kept.
const ATTEMPTS: usize = 64;

/// One thing that was denied, once or more often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The system call.
    pub call: &'static str,
    /// What it would have done to the path: `write`, `create`, `remove`, …
    pub verb: &'static str,
    /// The name that a rule holds on.
    pub path: PathBuf,
    /// The other name, of calls with two.
    pub other: Option<PathBuf>,
    pub cause: Cause,
    /// Index of the rule in the policy's rules.
    pub rule: usize,
    pub origin: Origin,
    pub reason: Option<Cow<'static, str>>,
    /// The thread that asked first, as the supervisor's pid namespace numbers it, and its program.
    pub pid: i32,
    pub comm: Vec<u8>,
    /// When it asked first.
    pub time: SystemTime,
    /// How often it was asked for.
    pub count: u64,
}

/// All denials of a run, in the order of their first occurrence.
#[derive(Debug, Default)]
pub struct Denials {
    list: Vec<Denial>,
    places: HashMap<(&'static str, PathBuf), usize>,
    attempts: Vec<Attempt>,
    dropped: u64,
}

impl Denials {
    /// Count a denial; it is built, and given back, only when it is the first of its kind and there is room.
    pub fn record(&mut self, verb: &'static str, path: &Path, build: impl FnOnce() -> Denial) -> Option<&Denial> {
        if let Some(&place) = self.places.get(&(verb, path.to_path_buf())) {
            self.list[place].count += 1;
        } else if self.list.len() < LIMIT {
            self.places.insert((verb, path.to_path_buf()), self.list.len());
            self.list.push(build());
            return self.list.last();
        } else {
            self.dropped += 1;
        }
        None
    }

    /// Count a try to reach an address, likewise.
    pub fn attempt(&mut self, address: SocketAddr, build: impl FnOnce() -> Attempt) -> Option<&Attempt> {
        if let Some(known) = self.attempts.iter_mut().find(|attempt| attempt.address == address) {
            known.count += 1;
        } else if self.attempts.len() < ATTEMPTS {
            self.attempts.push(build());
            return self.attempts.last();
        } else {
            self.dropped += 1;
        }
        None
    }

    /// The tries to reach a network, in the order of their first occurrence.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Is a denial of this kind kept already?
    #[must_use]
    pub fn knows(&self, verb: &'static str, path: &Path) -> bool {
        self.places.contains_key(&(verb, path.to_path_buf()))
    }

    /// What is kept.
    #[must_use]
    pub fn all(&self) -> &[Denial] {
        &self.list
    }

    /// How many were not kept for want of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Denial {
    /// The denial as a line, with paths below `base` written relative to it: `write ./.mcp.json (read-only, built-in)`.
    #[must_use]
    pub fn relative_to<'a>(&'a self, base: &'a Path) -> impl fmt::Display + 'a {
        Line { denial: self, base: Some(base) }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Line { denial: self, base: None }.fmt(f)
    }
}

struct Line<'a> {
    denial: &'a Denial,
    base: Option<&'a Path>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denial { verb, path, cause, origin, reason, .. } = self.denial;
        write!(f, "{verb} ")?;
        match self.base.and_then(|base| path.strip_prefix(base).ok()).filter(|rest| !rest.as_os_str().is_empty()) {
            Some(rest) => write!(f, "./{}", Escaped(rest.as_os_str().as_encoded_bytes()))?,
            None => write!(f, "{}", Escaped(path.as_os_str().as_encoded_bytes()))?,
        }
        write!(f, " ({}, {}", cause_in_words(*cause), Escaped(origin.to_string().as_bytes()))?;
        match reason {
            Some(reason) => write!(f, ": {})", Escaped(reason.as_bytes())),
            None => f.write_str(")"),
        }
    }
}

fn cause_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Access(Access::Hide) => "hidden",
        Cause::Access(Access::Overlay) => "overlay",
        Cause::Access(Access::Private) => "private",
        Cause::Access(Access::Read | Access::Write) => "read-only",
        Cause::AboveStricter => "has protected names below",
        Cause::Plain => "no links here",
        Cause::LeavesPattern => "would take names out of a pattern",
    }
}

/// Bytes as text in which nothing can move a terminal's cursor: the sandbox chooses names.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() || is_bidi(c) || c == '\\' {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    fmt::Write::write_char(f, c)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Marks that turn the direction of what is shown.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(path: &str) -> Denial {
        Denial {
            call: "openat",
            verb: "write",
            path: path.into(),
            other: None,
            cause: Cause::Access(Access::Read),
            rule: 0,
            origin: Origin::BuiltIn,
            reason: None,
            pid: 7,
            comm: b"sh".to_vec(),
            time: SystemTime::UNIX_EPOCH,
            count: 1,
        }
    }

    #[test]
    fn reads_as_one_line() {
        let denial = denial("/p/.mcp.json");
        assert_eq!(denial.to_string(), "write /p/.mcp.json (read-only, built-in)");
        assert_eq!(denial.relative_to(Path::new("/p")).to_string(), "write ./.mcp.json (read-only, built-in)");
        assert_eq!(denial.relative_to(Path::new("/q")).to_string(), "write /p/.mcp.json (read-only, built-in)");
    }

    #[test]
    fn control_characters_are_escaped() {
        let shown = denial("/p/a\n\u{1b}[2Jb\u{202e}").to_string();
        assert_eq!(shown, "write /p/a\\n\\u{1b}[2Jb\\u{202e} (read-only, built-in)");
        assert_eq!(Escaped(b"\xffx\\").to_string(), "\\xffx\\\\");
    }

    #[test]
    fn the_same_is_counted_and_the_rest_is_bounded() {
        let mut denials = Denials::default();
        for i in 0..LIMIT + 10 {
            let path = format!("/p/{i}");
            denials.record("write", Path::new(&path), || denial(&path));
        }
        denials.record("write", Path::new("/p/3"), || unreachable!("known"));
        assert_eq!((denials.all().len(), denials.dropped(), denials.all()[3].count), (LIMIT, 10, 2));
    }
}

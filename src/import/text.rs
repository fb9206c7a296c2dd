//! Text that means itself: in TOML, in a comment, in a path of a policy.

use std::fmt::Write as _;

/// A basic string of TOML (version 1.0). JSON's escapes are valid there, but TOML forbids DEL too.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_invisible(c) => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// One line without control characters, for comments and messages.
pub(super) fn one_line(text: &str) -> String {
    let shown =
        |c: char| if c.is_control() || is_invisible(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Characters that turn the direction of what follows, or end a line: a comment would look like a rule.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A name of a path in which nothing has a meaning to a policy.
pub(super) fn plain(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        if "*?[]{}\\$".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

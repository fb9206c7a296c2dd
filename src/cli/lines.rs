//! Denials as JSON lines, for programs.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::guard::{Attempt, Denial};

/// A denied change of a path.
pub(super) fn denial(denial: &Denial) -> Value {
    let lossy = |path: &Path| path.to_string_lossy().into_owned();
    json!({
        "call": denial.call,
        "verb": denial.verb,
        "path": lossy(&denial.path),
        "other": denial.other.as_deref().map(lossy),
        "rule": denial.origin.to_string(),
        "reason": denial.reason,
        "text": denial.to_string(),
        "pid": denial.pid,
        "command": String::from_utf8_lossy(&denial.comm),
        "time": seconds(denial.time),
        "count": denial.count,
    })
}

/// A try to reach a network that is off.
pub(super) fn attempt(attempt: &Attempt) -> Value {
    json!({
        "call": "connect",
        "verb": "connect",
        "address": attempt.address.to_string(),
        "rule": attempt.origin.to_string(),
        "text": attempt.to_string(),
        "pid": attempt.pid,
        "command": String::from_utf8_lossy(&attempt.comm),
        "time": seconds(attempt.time),
        "count": attempt.count,
    })
}

/// Since 1970.
pub(super) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// JSON in ASCII alone, of which JSON itself escapes the control characters. Others are no less dangerous to who looks at
/// a report on a terminal: `U+009B` begins a command to it, `U+202E` turns the rest of the line round.
pub(super) fn ascii(json: &Value) -> String {
    let json = json.to_string();
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~') {
            text.push(c);
        } else {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ascii() {
        assert_eq!(ascii(&json!({ "a": "é\u{9b}\u{7f}😀" })), r#"{"a":"\u00e9\u009b\u007f\ud83d\ude00"}"#);
    }
}

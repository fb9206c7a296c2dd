//! Keys that make no rule: what becomes of each, and of those that nobody knows.

use serde_json::{Map, Value};

use super::Error;
use super::draft::Draft;

/// What becomes of a key that is set to something.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    /// Read elsewhere.
    Read,
    /// Kept without a word: what it asks for holds anyway.
    Holds,
    /// Not needed, or kept in another way.
    Note(&'static str),
    /// Cannot be kept; what the user can do.
    Refused(&'static str, Option<&'static str>),
}

pub(super) type Keys = [(&'static str, Fate)];

/// Says of every key of an object that is not read elsewhere what becomes of it.
pub(super) fn tell(object: &Map<String, Value>, prefix: &str, keys: &Keys, draft: &mut Draft) {
    for (key, value) in object {
        let from = from(&join(prefix, key), value);
        match keys.iter().find(|(known, _)| known == key).map(|(_, fate)| fate) {
            None => draft.refuse(&from, "nothing is known of this key", Some("take it out, if it is a mistake")),
            Some(Fate::Read | Fate::Holds) => {}
            Some(_) if is_off(value) => {}
            Some(Fate::Note(text)) => draft.note(&from, *text),
            Some(Fate::Refused(text, cure)) => draft.refuse(&from, *text, *cure),
        }
    }
}

/// A key in an object of a key; the path of keys for a message.
pub(super) fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// A key with its value, as a comment has it.
pub(super) fn from(key: &str, value: &Value) -> String {
    const MOST: usize = 160;
    let value = value.to_string();
    let shown: String = value.chars().take(MOST).collect();
    let more = if shown.len() < value.len() { "…" } else { "" };
    format!("{key}: {shown}{more}")
}

/// Asks for nothing.
pub(super) fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The object below a key; an empty one where the key is not set.
pub(super) fn object<'a>(
    parent: &'a Map<String, Value>,
    prefix: &str,
    key: &str,
) -> Result<&'a Map<String, Value>, Error> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match parent.get(key) {
        None => Ok(&NONE),
        Some(value) => value.as_object().ok_or_else(|| Error::wrong(join(prefix, key), "an object")),
    }
}

/// The list below a key; an empty one where the key is not set.
pub(super) fn list<'a>(parent: &'a Map<String, Value>, prefix: &str, key: &str) -> Result<&'a [Value], Error> {
    match parent.get(key) {
        None => Ok(&[]),
        Some(value) => value.as_array().map(Vec::as_slice).ok_or_else(|| Error::wrong(join(prefix, key), "a list")),
    }
}

/// The texts of the list below a key.
pub(super) fn texts<'a>(parent: &'a Map<String, Value>, prefix: &str, key: &str) -> Result<Vec<&'a str>, Error> {
    let text = |value: &'a Value| value.as_str().ok_or_else(|| Error::wrong(join(prefix, key), "a list of texts"));
    list(parent, prefix, key)?.iter().map(text).collect()
}

/// The switch below a key, if it is set.
pub(super) fn switch(parent: &Map<String, Value>, prefix: &str, key: &str) -> Result<Option<bool>, Error> {
    match parent.get(key) {
        None => Ok(None),
        Some(value) => value.as_bool().map(Some).ok_or_else(|| Error::wrong(join(prefix, key), "true or false")),
    }
}

/// The text below a key, if it is set.
pub(super) fn text<'a>(parent: &'a Map<String, Value>, prefix: &str, key: &str) -> Result<Option<&'a str>, Error> {
    match parent.get(key) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| Error::wrong(join(prefix, key), "a text")),
    }
}

/// Can it be the name of an environment variable?
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

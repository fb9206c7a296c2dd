//! How the directory is named that appears as a private directory at some path.
//!
//! `/tmp` is `tmp`, `/var/tmp` is `var-tmp`: the slashes between components become `-`; letters, digits, `_` and `.` stay
//! (but not a leading `.`); every other byte, `-` and `%` too, becomes `%XX` in upper case. `/` itself is `-`. Two paths
//! never share a name, and the path can be had back.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::{Error, Result};

/// The longest file name (`NAME_MAX`).
const LONGEST: usize = 255;

/// The name for `path`, which must be absolute and without `..`.
pub(super) fn name(path: &Path) -> Result<String> {
    let mut parts = Vec::new();
    for component in normal(path)? {
        parts.push(escape(component.as_bytes()));
    }
    let mut name = if parts.is_empty() { "-".to_owned() } else { parts.join("-") };
    if name.starts_with('.') {
        name.replace_range(..1, "%2E");
    }
    if name.len() > LONGEST {
        return Err(Error::LongPrivate { path: path.into(), len: name.len() });
    }
    Ok(name)
}

/// The components of an absolute path without `..`.
pub(super) fn normal(path: &Path) -> Result<Vec<&OsStr>> {
    let bad = || Error::BadPrivate(path.into());
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(bad());
    }
    components
        .map(|component| match component {
            Component::Normal(name) if !name.as_bytes().contains(&0) => Ok(name),
            _ => Err(bad()),
        })
        .collect()
}

fn escape(component: &[u8]) -> String {
    component.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') {
            text.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// The path that a name stands for; `None`: none of ours.
pub(super) fn path(name: &OsStr) -> Option<PathBuf> {
    let text = name.to_str()?;
    if text == "-" {
        return Some("/".into());
    }
    let mut path = PathBuf::from("/");
    for part in text.split('-') {
        path.push(OsString::from_vec(unescape(part)?));
    }
    // Only what `name` would have written: otherwise two names would stand for one path.
    (self::name(&path).ok()? == text).then_some(path)
}

fn unescape(part: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            let digits = [*rest.next()?, *rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(*byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn everyday_names() {
        for (inside, expected) in [
            ("/tmp", "tmp"),
            ("/var/tmp", "var-tmp"),
            ("/", "-"),
            ("//a/./b/", "a-b"),
            ("/.x/.y", "%2Ex-.y"),
            ("/a-b/%", "a%2Db-%25"),
        ] {
            assert_eq!(name(Path::new(inside)).unwrap(), expected);
        }
        assert_eq!(path(OsStr::new("var-tmp")), Some("/var/tmp".into()));
    }

    #[test]
    fn refusals() {
        for bad in ["tmp", "", "/a/../b", ".."] {
            assert!(matches!(name(Path::new(bad)), Err(Error::BadPrivate(_))), "{bad}");
        }
        let long = format!("/{}", "-".repeat(86));
        assert!(name(Path::new(&long)).unwrap_err().to_string().contains(&long));
        for foreign in ["", "%2e", "a--b", "%", "%2", "%zz", ".x", "a b", "%2F", "%41"] {
            assert_eq!(path(OsStr::new(foreign)), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn there_and_back(components in prop::collection::vec(prop::collection::vec(1..=255u8, 1..20), 0..5)) {
            let mut inside = PathBuf::from("/");
            inside.extend(components.into_iter().map(OsString::from_vec).filter(|c| !c.as_bytes().contains(&b'/') && c != "." && c != ".."));
            if let Ok(name) = name(&inside) {
                prop_assert!(!name.contains('/') && !name.starts_with('.') && !name.is_empty());
                prop_assert_eq!(path(OsStr::new(&name)), Some(inside));
            }
        }
    }
}

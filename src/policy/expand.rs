//! From what was typed to an absolute path: `~`, variables, escapes, `.` and `..`.
//!
//! Text goes through here in *escaped form*: a backslash before a byte says that the byte is part of a name, whatever
//! it means elsewhere. So the value of a variable never becomes a pattern, however the directory is called.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Context;
use super::error::Problem;

/// Bytes that make a path a pattern.
const PATTERN: &[u8] = b"*?[{";
/// Bytes that have a meaning somewhere in a pattern.
const SPECIAL: &[u8] = b"*?[]{},!^-\\";

/// Text in escaped form, without variables.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: Vec<u8>,
    /// An unescaped byte makes this a pattern.
    pub(super) is_pattern: bool,
}

/// Replaces `~`, `$NAME`, `${NAME}` and `${NAME:-default}`. `$PROJECT` is the project; every other name comes from the
/// environment of `context`. A variable that is empty counts as unset: `$CACHE/x` must not become `/x`. `\` makes the
/// next character a plain one.
pub(super) fn expand(text: &[u8], context: &Context) -> Result<Expanded, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if text.contains(&0) {
        return Err(Problem::Nul);
    }
    let mut expanded = Expanded { text: Vec::with_capacity(text.len()), is_pattern: false };
    expand_into(text, context, &mut expanded)?;
    Ok(expanded)
}

fn expand_into(text: &[u8], context: &Context, out: &mut Expanded) -> Result<(), Problem> {
    let mut rest = expand_home(text, context, out)?;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'$' => expand_variable(after, context, out)?,
            b'\\' => keep_escape(after, out)?,
            _ => {
                out.is_pattern |= PATTERN.contains(&byte);
                out.text.push(byte);
                after
            }
        };
    }
    Ok(())
}

fn expand_home<'a>(text: &'a [u8], context: &Context, out: &mut Expanded) -> Result<&'a [u8], Problem> {
    match text {
        [b'~'] | [b'~', b'/', ..] if context.home.as_os_str().is_empty() => Err(Problem::NoHome),
        [b'~'] | [b'~', b'/', ..] => {
            push_plain(context.home.as_os_str(), out);
            Ok(&text[1..])
        }
        [b'~', ..] => Err(Problem::Tilde),
        _ => Ok(text),
    }
}

fn keep_escape<'a>(after: &'a [u8], out: &mut Expanded) -> Result<&'a [u8], Problem> {
    let (&byte, rest) = after.split_first().ok_or_else(|| Problem::Pattern {
        pattern: String::from_utf8_lossy(&out.text).into_owned() + "\\",
        message: "nothing follows the last backslash".to_owned(),
    })?;
    // A separator has no other meaning, and must stay visible to whoever splits the text.
    if byte != b'/' {
        out.text.push(b'\\');
    }
    out.text.push(byte);
    Ok(rest)
}

/// Expands the variable after a `$` and gives what follows it.
fn expand_variable<'a>(after: &'a [u8], context: &Context, out: &mut Expanded) -> Result<&'a [u8], Problem> {
    if let Some(inner) = after.strip_prefix(b"{") {
        let end = closing_brace(inner).ok_or(Problem::Unclosed)?;
        expand_braced(&inner[..end], context, out)?;
        return Ok(&inner[end + 1..]);
    }
    let (name, rest) = after.split_at(name_length(after));
    push_plain(variable(name, context)?.ok_or_else(|| unset(name))?, out);
    Ok(rest)
}

fn expand_braced(inner: &[u8], context: &Context, out: &mut Expanded) -> Result<(), Problem> {
    let (name, rest) = inner.split_at(name_length(inner));
    let value = variable(name, context)?;
    match (value, rest.strip_prefix(b":-")) {
        (_, None) if !rest.is_empty() => Err(Problem::NotAVariable),
        (Some(value), _) => {
            push_plain(value, out);
            Ok(())
        }
        (None, None) => Err(unset(name)),
        (None, Some(default)) => expand_into(default, context, out),
    }
}

/// The index of the brace that closes a `${`; defaults may hold variables and braces of patterns.
fn closing_brace(inner: &[u8]) -> Option<usize> {
    let mut open = 0usize;
    let mut escaped = false;
    for (index, &byte) in inner.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => open += 1,
            b'}' if open == 0 => return Some(index),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn name_length(text: &[u8]) -> usize {
    match text.first() {
        Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
            text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
        }
        _ => 0,
    }
}

fn variable<'a>(name: &[u8], context: &'a Context) -> Result<Option<&'a OsStr>, Problem> {
    match name {
        [] => Err(Problem::NotAVariable),
        b"PROJECT" => Ok(Some(context.project.as_os_str())),
        _ => Ok(context.env.get(OsStr::from_bytes(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())),
    }
}

fn unset(name: &[u8]) -> Problem {
    Problem::UnsetVariable(String::from_utf8_lossy(name).into_owned())
}

/// Adds text in which nothing has a meaning.
fn push_plain(value: &OsStr, out: &mut Expanded) {
    for &byte in value.as_bytes() {
        if SPECIAL.contains(&byte) {
            out.text.push(b'\\');
        }
        out.text.push(byte);
    }
}

/// Takes the backslashes away from escaped text that is no pattern.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
    }
    Cow::Owned(plain)
}

/// Makes a path absolute and gives it one spelling: no `.`, no double or final slash.
///
/// Leading `..` of a relative path lead up from `base`, which must be real. A `..` after a name is refused: where the
/// name is a link, the kernel goes up from where the link leads.
pub(super) fn normalise(text: &[u8], base: &Path) -> Result<PathBuf, Problem> {
    let (start, names) = from_base(text, base);
    let mut path = Vec::with_capacity(start.len() + text.len() + 1);
    path.extend_from_slice(start);
    for name in names {
        if name == b".." {
            return Err(Problem::DotDot);
        }
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Ok(PathBuf::from(OsString::from_vec(path)))
}

/// Where a path begins (no final slash: the root is empty) and the names that follow, the leading `..` taken away.
pub(super) fn from_base<'a>(text: &'a [u8], base: &'a Path) -> (&'a [u8], impl Iterator<Item = &'a [u8]>) {
    let mut names = names(text).filter(|name| *name != b".").peekable();
    let mut up = 0;
    while names.next_if_eq(&&b".."[..]).is_some() {
        up += 1;
    }
    if text.first() == Some(&b'/') {
        return (b"", names);
    }
    let top = base.ancestors().nth(up).unwrap_or(Path::new("/")).as_os_str().as_bytes();
    (top.strip_suffix(b"/").unwrap_or(top), names)
}

/// `Path::starts_with` for absolute, normalised paths, without looking at each component again. Nothing is below the empty
/// path.
#[must_use]
pub fn is_at_or_below(path: &Path, directory: &Path) -> bool {
    let (path, directory) = (path.as_os_str().as_bytes(), directory.as_os_str().as_bytes());
    match path.strip_prefix(directory) {
        Some(_) if directory == b"/" => true,
        Some(rest) => !directory.is_empty() && matches!(rest, [] | [b'/', ..]),
        None => false,
    }
}

/// The names of a path, without the empty ones between doubled slashes.
pub(super) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        let env = [("CACHE", "/var/cache/me"), ("ODD", "/a*b[c]"), ("NONE", "")];
        Context {
            home: "/home/me".into(),
            project: "/home/me/project".into(),
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            ..Context::default()
        }
    }

    /// The path that a text stands for, from `/base/dir`.
    fn path(text: &str) -> Result<String, Problem> {
        let expanded = expand(text.as_bytes(), &context())?;
        assert!(!expanded.is_pattern, "{text} is a pattern");
        let path = normalise(&unescape(&expanded.text), Path::new("/base/dir"))?;
        Ok(path.to_str().expect("UTF-8").to_owned())
    }

    #[test]
    fn home_variables_and_relative_paths() {
        for (text, expected) in [
            ("~", "/home/me"),
            ("~/", "/home/me"),
            ("~/.aws/", "/home/me/.aws"),
            ("$CACHE/x", "/var/cache/me/x"),
            ("${CACHE}x", "/var/cache/mex"),
            ("${UNSET:-~/.cache}/x", "/home/me/.cache/x"),
            ("${NONE:-${UNSET:-$CACHE}}/x", "/var/cache/me/x"),
            ("${CACHE:-/other}", "/var/cache/me"),
            ("$PROJECT/.git", "/home/me/project/.git"),
            ("$ODD/x", "/a*b[c]/x"),
            ("a//./b/", "/base/dir/a/b"),
            (".", "/base/dir"),
            ("..", "/base"),
            ("../x", "/base/x"),
            ("./../../../../x", "/x"),
            ("/", "/"),
            ("//", "/"),
            ("/../x", "/x"),
            (r"\~/x", "/base/dir/~/x"),
            (r"a\$b\*\[\\", r"/base/dir/a$b*[\"),
            (r"a\/b", "/base/dir/a/b"),
        ] {
            assert_eq!(path(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_path() {
        for (text, problem) in [
            ("", Problem::Empty),
            ("a\0b", Problem::Nul),
            ("a/..", Problem::DotDot),
            ("~/../x", Problem::DotDot),
            ("~other/x", Problem::Tilde),
            ("$UNSET/x", Problem::UnsetVariable("UNSET".to_owned())),
            ("$NONE/x", Problem::UnsetVariable("NONE".to_owned())),
            ("${UNSET}", Problem::UnsetVariable("UNSET".to_owned())),
            ("${UNSET:-$OTHER}", Problem::UnsetVariable("OTHER".to_owned())),
            ("${CACHE", Problem::Unclosed),
            ("${CACHE:+x}", Problem::NotAVariable),
            ("$", Problem::NotAVariable),
            ("$1", Problem::NotAVariable),
            ("${}", Problem::NotAVariable),
        ] {
            assert_eq!(path(text), Err(problem), "{text}");
        }
        assert!(matches!(path("a\\"), Err(Problem::Pattern { .. })));
    }

    #[test]
    fn no_home_no_tilde() {
        assert_eq!(expand(b"~/x", &Context::default()), Err(Problem::NoHome));
    }

    #[test]
    fn only_what_was_typed_makes_a_pattern() {
        for (text, is_pattern) in [("$ODD", false), (r"\*", false), ("a]}", false), ("*", true), ("${U:-*}", true)] {
            assert_eq!(expand(text.as_bytes(), &context()).map(|it| it.is_pattern), Ok(is_pattern), "{text}");
        }
    }

    #[test]
    fn names_need_not_be_utf8() {
        let expanded = expand(b"/a\xff/b", &context()).expect("a path");
        assert_eq!(normalise(&expanded.text, Path::new("/")), Ok(PathBuf::from(OsStr::from_bytes(b"/a\xff/b"))));
    }
}

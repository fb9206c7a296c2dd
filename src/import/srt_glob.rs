//! The patterns of srt's paths (`dist/sandbox/glob-pattern.js` of 0.0.83), in a policy's syntax.
//!
//! No character escapes another there; `{}` mean themselves, `^` and `!` in a set too. A path that looks like a pattern is
//! besides the name that it spells, where that exists.

use super::place::{Base, Pattern, Place, Target};
use super::text::plain;

/// What a path stands for below `base`: all its readings.
pub(super) fn targets(base: &Place, path: &str, literal: bool) -> Result<Vec<Target>, &'static str> {
    if literal {
        return Ok(vec![place(base, path)?]);
    }
    let path = without_tree(path);
    let names = super::place::names(path)?;
    let Some(first) = names.iter().position(|name| is_special(name)) else { return Ok(vec![place(base, path)?]) };
    if path.ends_with('/') {
        return Err("a pattern that ends with `/` matches nothing");
    }
    let anchor = base.join(&names[..first].join("/"));
    let rest = names[first..].iter().map(|name| translated(name)).collect::<Result<Vec<String>, _>>()?;
    let pattern = Target::Pattern(Pattern { anchor, names: rest });
    // Stars and question marks match themselves.
    Ok(if path.contains('[') { vec![pattern, place(base, path)?] } else { vec![pattern] })
}

fn place(base: &Place, path: &str) -> Result<Target, &'static str> {
    let below = Place::new(Base::Root, path)?;
    let names = base.names.iter().cloned().chain(below.names).collect();
    Ok(Target::Place(Place { base: base.base, names }))
}

/// `DIR/**` means what `DIR` means: the directory and what is in it.
pub(super) fn without_tree(path: &str) -> &str {
    match path.strip_suffix("/**") {
        Some("") => "/",
        Some(rest) => rest,
        None => path,
    }
}

fn is_special(name: &str) -> bool {
    name.contains(['*', '?', '[', ']'])
}

fn translated(name: &str) -> Result<String, &'static str> {
    if name == "**" {
        return Ok(name.to_owned());
    }
    if name.contains("**") {
        return Err("`**` beside other characters crosses directories there, and not here");
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        let mut next = &rest[character.len_utf8()..];
        match character {
            '*' | '?' => out.push(character),
            '[' => match set(next)? {
                Some((members, after)) => {
                    out.extend(["[", members, "]"]);
                    next = after;
                }
                None => out.push_str("\\["),
            },
            other => out.push_str(&plain(other.encode_utf8(&mut [0; 4]))),
        }
        rest = next;
    }
    Ok(out)
}

/// The members of a set and what follows it; `None` where the bracket is only a character.
fn set(text: &str) -> Result<Option<(&str, &str)>, &'static str> {
    let Some((members, after)) = text.split_once(']') else { return Ok(None) };
    let characters: Vec<char> = members.chars().collect();
    let backwards = characters.windows(3).any(|window| window[1] == '-' && window[2] < window[0]);
    if members.is_empty() || backwards {
        return Ok(None);
    }
    if members.starts_with(['!', '^']) || members.contains(['[', '\\']) {
        return Err("a set with these characters means something else here");
    }
    Ok(Some((members, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(target: &Target) -> String {
        match target {
            Target::Place(place) => place.text(),
            Target::Pattern(pattern) => pattern.text(),
        }
    }

    fn texts(path: &str) -> Result<Vec<String>, &'static str> {
        let targets = targets(&Place::project(), path, false)?;
        Ok(targets.iter().map(written).collect())
    }

    #[test]
    fn patterns_are_translated_and_names_are_names_too() {
        for (path, expected) in [
            ("src", &["$PROJECT/src"][..]),
            (".", &["$PROJECT"]),
            ("./a//b/", &["$PROJECT/a/b"]),
            ("build/**", &["$PROJECT/build"]),
            ("**/.env", &["$PROJECT/**/.env"]),
            ("a/*.pem", &["$PROJECT/a/*.pem"]),
            ("{a,b}$x", &[r"$PROJECT/\{a,b\}\$x"]),
            (r"a\*", &[r"$PROJECT/a\\*"]),
            ("[0-9].txt", &["$PROJECT/[0-9].txt", r"$PROJECT/\[0-9\].txt"]),
            // Brackets that spell no set are text.
            ("[user-id]", &[r"$PROJECT/\[user-id\]", r"$PROJECT/\[user-id\]"]),
            ("a[]?", &[r"$PROJECT/a\[\]?", r"$PROJECT/a\[\]\?"]),
            ("a[b", &[r"$PROJECT/a\[b", r"$PROJECT/a\[b"]),
        ] {
            assert_eq!(
                texts(path).as_deref(),
                Ok(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{path}"
            );
        }
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        for path in ["a**b", "**.pem", "[!a]", "[^a]", "[a[]", "x/../y", "../x", "a/*/", "a\0b"] {
            assert!(texts(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_literal_path_is_never_a_pattern() {
        let targets = targets(&Place::project(), "a*/[x]/**", true).expect("a path");
        assert_eq!(written(&targets[0]), r"$PROJECT/a\*/\[x\]/\*\*");
    }
}

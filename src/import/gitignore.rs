//! The patterns of `gitignore(5)`, as Claude Code's permission rules use them, in a policy's syntax.

use super::place::{Pattern, Place, Target, names};
use super::text::plain;

/// What a pattern stands for below the directory that it belongs to. `anchored`: it begins there; else one without a
/// directory in it holds at any depth. `denies`: a directory's name with `/**` holds at any depth too.
pub(super) fn target(base: &Place, pattern: &str, anchored: bool, denies: bool) -> Result<Target, &'static str> {
    if pattern.starts_with('!') {
        return Err("an exception to other rules");
    }
    let all = names(pattern)?;
    let trees = all.iter().rev().take_while(|name| **name == "**").count();
    let kept = &all[..all.len() - trees];
    let anywhere = !anchored && (all.len() == 1 || kept.len() == 1 && denies) && !kept.is_empty();
    let special = kept.iter().position(|name| is_special(name));
    let first = if anywhere { 0 } else { special.unwrap_or(kept.len()) };
    let literal = kept[..first].iter().map(|name| unescaped(name)).collect::<Vec<_>>();
    let anchor = Place { base: base.base, names: base.names.iter().cloned().chain(literal).collect() };
    let tree = anywhere.then(|| "**".to_owned());
    let rest = kept[first..].iter().map(|name| translated(name));
    let names = tree.into_iter().map(Ok).chain(rest).collect::<Result<Vec<String>, _>>()?;
    Ok(if names.is_empty() { Target::Place(anchor) } else { Target::Pattern(Pattern { anchor, names }) })
}

/// Does a character have a meaning that no backslash takes away?
fn is_special(name: &str) -> bool {
    let mut escaped = false;
    name.chars().any(|character| {
        let special = !escaped && "*?[".contains(character);
        escaped = !escaped && character == '\\';
        special
    })
}

fn unescaped(name: &str) -> String {
    let mut out = String::new();
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        out.push(if character == '\\' { characters.next().unwrap_or(character) } else { character });
    }
    out
}

fn translated(name: &str) -> Result<String, &'static str> {
    if name == "**" {
        return Ok(name.to_owned());
    }
    let mut out = String::new();
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            // Within a name any number of stars is one.
            '*' if out.ends_with('*') && !out.ends_with("\\*") => {}
            '*' | '?' => out.push(character),
            '[' => out.push_str(&set(&mut characters)?),
            '\\' => match characters.next() {
                Some(next) => out.push_str(&plain(&next.to_string())),
                None => return Err("nothing follows the last backslash"),
            },
            other => out.push_str(&plain(&other.to_string())),
        }
    }
    Ok(out)
}

fn set(characters: &mut impl Iterator<Item = char>) -> Result<String, &'static str> {
    let members: String = characters.take_while(|character| *character != ']').collect();
    if members.trim_start_matches(['!', '^']).is_empty() || members.contains(['[', '\\']) {
        return Err("a set with these characters means something else here");
    }
    Ok(format!("[{members}]"))
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

    fn text(pattern: &str, anchored: bool, denies: bool) -> Result<String, &'static str> {
        target(&Place::project(), pattern, anchored, denies).map(|target| written(&target))
    }

    #[test]
    fn depth_depends_on_the_shape() {
        for (pattern, anchored, denies, expected) in [
            (".env", false, true, "$PROJECT/**/.env"),
            (".env", true, true, "$PROJECT/.env"),
            ("secrets/", false, true, "$PROJECT/**/secrets"),
            ("src/**", false, true, "$PROJECT/**/src"),
            ("src/**", false, false, "$PROJECT/src"),
            ("src/**", true, true, "$PROJECT/src"),
            ("a/b", false, true, "$PROJECT/a/b"),
            ("a/b/**", false, true, "$PROJECT/a/b"),
            ("**", false, true, "$PROJECT"),
            ("**/.env", false, true, "$PROJECT/**/.env"),
            ("*.pem", false, true, "$PROJECT/**/*.pem"),
            ("config/*.json", false, true, "$PROJECT/config/*.json"),
            ("a/**/b/**", false, true, "$PROJECT/a/**/b"),
        ] {
            assert_eq!(text(pattern, anchored, denies).as_deref(), Ok(expected), "{pattern}");
        }
    }

    #[test]
    fn characters_keep_their_meaning() {
        for (pattern, expected) in [
            (r"a\*b", r"$PROJECT/a\*b"),
            (r"a\b/*", "$PROJECT/ab/*"),
            ("{a,b}/$x", r"$PROJECT/\{a,b\}/\$x"),
            ("x/a**b*?", "$PROJECT/x/a*b*?"),
            ("[!a-c]x/y", "$PROJECT/[!a-c]x/y"),
            (r"\!x", "$PROJECT/!x"),
        ] {
            assert_eq!(text(pattern, true, true).as_deref(), Ok(expected), "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for pattern in ["!x", "../x", "a/../b", "[[:alpha:]]", "[]a]", "[a\\]b]", "x*\\"] {
            assert!(text(pattern, false, true).is_err(), "{pattern}");
        }
    }
}

//! `filesystem` and `credentials` of srt, which Claude Code's sandbox has too.

use serde_json::{Map, Value};

use super::Error;
use super::draft::Draft;
use super::keys::{Fate, Keys, from, is_variable, join, list, switch, tell};
use super::place::{Base, Pattern, Place, Target};
use super::settle::{Lists, Wish};
use super::srt_glob;

const FILES: &Keys = &[
    ("denyRead", Fate::Read),
    ("allowRead", Fate::Read),
    ("allowWrite", Fate::Read),
    ("denyWrite", Fate::Read),
    ("allowGitConfig", Fate::Read),
    (
        "disabled",
        Fate::Refused("a run always has a policy; these lists would count again", Some("run the command without it")),
    ),
    ("allowManagedReadPathsOnly", Fate::Refused("other settings are not known here", None)),
];

const NO_MASK: &str = "a masked value is put back by a proxy, and a run has no network";
const CREDENTIALS: &Keys = &[
    ("files", Fate::Read),
    ("envVars", Fate::Read),
    ("allowPlaintextInject", Fate::Refused(NO_MASK, None)),
    ("awsPairs", Fate::Refused(NO_MASK, None)),
    ("sigv4", Fate::Refused(NO_MASK, None)),
];

/// Where relative paths start; none: that cannot be told.
pub(super) type Relative = Option<Place>;

/// Reads the four lists.
pub(super) fn filesystem(
    object: &Map<String, Value>,
    prefix: &str,
    relative: &Relative,
    lists: &mut Lists,
    draft: &mut Draft,
) -> Result<(), Error> {
    tell(object, prefix, FILES, draft);
    lists.hide.extend(wishes(object, prefix, "denyRead", relative, draft)?);
    lists.show.extend(allowed(wishes(object, prefix, "allowRead", relative, draft)?));
    lists.write.extend(allowed(wishes(object, prefix, "allowWrite", relative, draft)?));
    lists.read.extend(wishes(object, prefix, "denyWrite", relative, draft)?);
    Ok(())
}

/// A pattern that allows is not also the name that it spells: only the disk can say that.
fn allowed(wishes: Vec<Wish>) -> impl Iterator<Item = Wish> {
    let patterns: Vec<String> = wishes.iter().filter(|wish| is_pattern(wish)).map(|wish| wish.from.clone()).collect();
    wishes.into_iter().filter(move |wish| is_pattern(wish) || !patterns.contains(&wish.from))
}

fn is_pattern(wish: &Wish) -> bool {
    matches!(wish.target, Target::Pattern(_))
}

fn wishes(
    object: &Map<String, Value>,
    prefix: &str,
    key: &str,
    relative: &Relative,
    draft: &mut Draft,
) -> Result<Vec<Wish>, Error> {
    let key = (join(prefix, key), list(object, prefix, key)?);
    let mut all = Vec::new();
    for value in key.1 {
        let (path, literal) = entry(value).ok_or_else(|| Error::wrong(&key.0, "a list of paths"))?;
        let from = from(&key.0, value);
        match targets(path, literal, relative) {
            Ok(targets) => all.extend(targets.into_iter().map(|target| Wish { target, from: from.clone() })),
            Err(why) => draft.refuse(&from, why, Some("write the path from the root, without it")),
        }
    }
    Ok(all)
}

/// A path, or `{ "path": …, "literal": true }`.
fn entry(value: &Value) -> Option<(&str, bool)> {
    let (path, literal) = match value {
        Value::String(path) => (path.as_str(), false),
        Value::Object(object) if object.len() == 2 && object.get("literal") == Some(&Value::Bool(true)) => {
            (object.get("path")?.as_str()?, true)
        }
        _ => return None,
    };
    (!path.is_empty()).then_some((path, literal))
}

fn targets(path: &str, literal: bool, relative: &Relative) -> Result<Vec<Target>, &'static str> {
    let at = |base| Place { base, names: Vec::new() };
    let (base, rest) = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (at(Base::Home), rest),
        Some(_) => return Err("`~name` is a name there, and nobody's home directory"),
        None if path.starts_with('/') => (at(Base::Root), path),
        None => (relative.clone().ok_or("where relative paths start cannot be told from where the file is")?, path),
    };
    srt_glob::targets(&base, rest, literal)
}

/// Reads what holds secrets.
pub(super) fn credentials(
    object: &Map<String, Value>,
    prefix: &str,
    relative: &Relative,
    lists: &mut Lists,
    draft: &mut Draft,
) -> Result<(), Error> {
    tell(object, prefix, CREDENTIALS, draft);
    for value in list(object, prefix, "files")? {
        let key = join(prefix, "files");
        let (path, from) = declared(value, "path", &key, draft)?;
        match targets(path, false, relative) {
            Ok(targets) => lists.secret.extend(targets.into_iter().map(|target| Wish { target, from: from.clone() })),
            Err(why) => draft.refuse(&from, why, Some("write the path from the root, without it")),
        }
    }
    for value in list(object, prefix, "envVars")? {
        let key = join(prefix, "envVars");
        let (name, from) = declared(value, "name", &key, draft)?;
        // A star would take more with it.
        if !is_variable(name) || name.contains('*') {
            return Err(Error::wrong(key, "a list of variables"));
        }
        draft.unset.push((name.to_owned(), from));
    }
    Ok(())
}

/// What an entry speaks of. One that is masked is denied, which is stricter.
fn declared<'a>(value: &'a Value, what: &str, key: &str, draft: &mut Draft) -> Result<(&'a str, String), Error> {
    let name = value.get(what).and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Error::wrong(key, "a list of objects with `path` or `name`, and `mode`"))?;
    let from = from(key, value);
    match value.get("mode").and_then(Value::as_str) {
        Some("deny") => {}
        Some("mask") => draft.refuse(&from, format!("{NO_MASK}: it is denied instead"), None),
        _ => return Err(Error::wrong(format!("{key}: mode"), "\"deny\" or \"mask\"")),
    }
    Ok((name, from))
}

/// Names that srt never lets commands write, in the project and below.
const NEVER: [(&str, &str); 4] = [
    ("**", "{.gitconfig,.gitmodules,.bashrc,.bash_profile,.zshrc,.zprofile,.profile,.ripgreprc,.mcp.json}"),
    ("**", "{.vscode,.idea}"),
    ("**/.claude", "{commands,agents}"),
    ("**/.git", "{hooks,config}"),
];

/// What srt denies by itself; more costs time in every directory of the project.
pub(super) fn never(
    object: &Map<String, Value>,
    prefix: &str,
    lists: &mut Lists,
    draft: &mut Draft,
) -> Result<(), Error> {
    let git_config = switch(object, prefix, "allowGitConfig")?.unwrap_or_default();
    if lists.write.is_empty() && lists.project.is_none() {
        return Ok(());
    }
    let project = Target::Place(Place::project());
    if git_config && (lists.project.is_some() || lists.write.iter().any(|wish| wish.target == project)) {
        let from = join(prefix, "allowGitConfig: true");
        for name in [".git/config", ".git/config.lock"] {
            lists.write.push(Wish { target: Target::Place(Place::project().join(name)), from: from.clone() });
        }
        draft.note(&from, "git outside runs programs that .git/config names");
    }
    for (above, name) in NEVER {
        let name = if git_config && above == "**/.git" { "hooks" } else { name };
        let names = above.split('/').chain([name]).map(str::to_owned).collect();
        let target = Target::Pattern(Pattern { anchor: Place::project(), names });
        lists.read.push(Wish { target, from: "always denied by srt, at any depth".to_owned() });
    }
    Ok(())
}

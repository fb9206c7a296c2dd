//! `[shell_environment_policy]`: which variables Codex's commands get.
//!
//! Its patterns ignore letters' case and take `*` and `?` anywhere. A policy's are exact, with `*` at the end. So what is to
//! be kept out of a *known* set of variables is worked out here; out of an unknown one it is refused, and a small known set
//! is kept instead.

use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Map, Value};

use super::Error;
use super::draft::Draft;
use super::keys::{Fate, Keys, is_variable, object, switch, tell, text, texts};

const KEY: &str = "shell_environment_policy";
const KEYS: &Keys = &[
    ("inherit", Fate::Read),
    ("ignore_default_excludes", Fate::Read),
    ("exclude", Fate::Read),
    ("include_only", Fate::Read),
    ("set", Fate::Read),
    ("experimental_use_profile", Fate::Note("how a shell is started is the command's business")),
];

/// What `inherit = "core"` means on Linux.
const CORE: [&str; 11] =
    ["PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"];
const BY_DEFAULT: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];
const CASE: &str = "its patterns ignore letters' case, a policy's do not: only a few known variables are kept";
const USE_CORE: &str = "use inherit = \"core\", or include_only";

pub(super) fn read(table: &Map<String, Value>, draft: &mut Draft) -> Result<(), Error> {
    tell(table, KEY, KEYS, draft);
    let include = matchers(&texts(table, KEY, "include_only")?)?;
    let exclude = excluded(table)?;
    let kept = |name: &str| !any(&exclude, name) && (include.is_empty() || any(&include, name));
    let core = || CORE.into_iter().filter(|name| kept(name)).map(str::to_owned).collect();
    draft.keep = match text(table, KEY, "inherit")?.unwrap_or("all") {
        "none" => Some((Vec::new(), format!("{KEY}.inherit: \"none\""))),
        "core" => Some((core(), format!("{KEY}.inherit: \"core\", less what is excluded"))),
        "all" => inherited(table, !exclude.is_empty(), core(), draft)?,
        _ => return Err(Error::wrong(format!("{KEY}.inherit"), "\"all\", \"core\" or \"none\"")),
    };
    for (name, value) in object(table, KEY, "set")? {
        let value = value.as_str().filter(|value| !value.contains('\0') && is_variable(name));
        let value = value.ok_or_else(|| Error::wrong(format!("{KEY}.set"), "a table of texts"))?;
        if include.is_empty() || any(&include, name) {
            draft.set.insert(name.clone(), (value.to_owned(), format!("{KEY}.set: {name:?}")));
        }
    }
    Ok(())
}

/// Of all variables of the caller, those that are kept; `None`: every one.
fn inherited(
    table: &Map<String, Value>,
    excludes: bool,
    core: Vec<String>,
    draft: &mut Draft,
) -> Result<Option<(Vec<String>, String)>, Error> {
    let include = texts(table, KEY, "include_only")?;
    let simple = |name: &&str| is_variable(name) && !name.trim_end_matches('*').contains(['*', '?', '[', '{', '\\']);
    let from = format!("{KEY}.include_only: {include:?}");
    if excludes {
        draft.refuse(&format!("{KEY}.exclude, ignore_default_excludes"), CASE, Some(USE_CORE));
        return Ok(Some((
            core,
            "what is excluded cannot be told apart: the variables of inherit = \"core\"".to_owned(),
        )));
    }
    if include.is_empty() {
        return Ok(None);
    }
    if !include.iter().all(simple) {
        draft.refuse(&from, CASE, Some("name the variables, with `*` at the end only"));
        return Ok(Some((core, format!("{from}: those of inherit = \"core\""))));
    }
    draft.note(&from, "letters' case counts here");
    Ok(Some((include.iter().map(|name| (*name).to_owned()).collect(), from)))
}

fn excluded(table: &Map<String, Value>) -> Result<Vec<GlobMatcher>, Error> {
    let by_default = switch(table, KEY, "ignore_default_excludes")? == Some(false);
    let mut patterns = texts(table, KEY, "exclude")?;
    patterns.extend(BY_DEFAULT.into_iter().filter(|_| by_default));
    matchers(&patterns)
}

fn matchers(patterns: &[&str]) -> Result<Vec<GlobMatcher>, Error> {
    let matcher = |pattern: &&str| {
        let glob = GlobBuilder::new(pattern).case_insensitive(true).build();
        glob.map(|glob| glob.compile_matcher()).map_err(|_| Error::wrong(KEY, "patterns of variables' names"))
    };
    patterns.iter().map(matcher).collect()
}

fn any(matchers: &[GlobMatcher], name: &str) -> bool {
    matchers.iter().any(|matcher| matcher.is_match(name))
}

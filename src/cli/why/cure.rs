//! What would allow what is refused. Each cure is tried, by planning the run with it, before it is told.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::account::Account;
use super::question::Act;
use super::scene::{Refusal, Scene, Subject, any_name};
use super::{Asked, Error, look, replan};
use crate::guard::decide::Cause;
use crate::policy::{Access, Flag, GitMode, Origin, Rule, Sources, Target};

/// What can be done about a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cure {
    /// It was tried, and works.
    Works(String),
    /// Nothing that was tried does, and why.
    None(String),
}

/// Something to try.
struct Candidate {
    /// As it is told.
    text: String,
    sources: Sources,
}

/// The first cure that works.
pub(super) fn find(asked: &Asked, account: &Account<'_>, act: Act, refusal: Refusal) -> Cure {
    let (scene, written) = (account.scene, &account.seen.written);
    let mut failed = None;
    for Candidate { text, sources } in candidates(asked, scene, account.subject(), act, refusal) {
        match try_out(asked, scene, &sources, written, act) {
            Ok(Ok(())) => return Cure::Works(text),
            Ok(Err(Refusal::Host)) => failed = failed.or(Some(why_none(Refusal::Host).to_owned())),
            Ok(Err(_)) => {}
            Err(error) => failed = failed.or(Some(in_one_line(&error))),
        }
    }
    Cure::None(failed.unwrap_or_else(|| why_none(refusal).to_owned()))
}

/// A rule that makes `at` writable, if that allows it.
pub(super) fn by_rule(asked: &Asked, scene: &Scene<'_>, at: &Path, written: &Path, act: Act) -> Option<String> {
    let value = value_of(&Target::Path(at.to_owned()), &asked.sources.context.cwd);
    let Candidate { text, sources } = ruled(&asked.sources, Access::Write, value);
    matches!(try_out(asked, scene, &sources, written, act), Ok(Ok(()))).then_some(text)
}

/// Ask again in a run of other sources.
fn try_out(
    asked: &Asked,
    scene: &Scene<'_>,
    sources: &Sources,
    written: &Path,
    act: Act,
) -> Result<Result<(), Refusal>, Error> {
    let plan = replan(asked, sources)?;
    let scene = Scene { plan: &plan, ..*scene };
    Ok(scene.may(&look(&scene, written)?.subject, act))
}

fn in_one_line(error: &Error) -> String {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let causes: Vec<String> = std::iter::once(error.to_string()).chain(error.causes()).collect();
    format!("{}{hint}", causes.join(": "))
}

fn why_none(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Rule(Cause::AboveStricter) => "the stricter names below it would have to be writable, each by a rule",
        Refusal::Host => "the host does not permit it: owner, mode, or a read-only mount",
        Refusal::NoDirectory => "its directory is none, or does not exist and cannot be made",
        Refusal::NoNames => "name what shall be made in it",
        Refusal::Mounted => "something of the run's own is mounted there",
        Refusal::System => "no rule is about what the run has for itself there",
        Refusal::Rule(_) | Refusal::NotServed => "no single rule allows it",
    }
}

fn candidates(asked: &Asked, scene: &Scene<'_>, subject: &Subject, act: Act, refusal: Refusal) -> Vec<Candidate> {
    let (sources, path) = (&asked.sources, subject.of(act));
    let rule = scene.judge(path).rule;
    match refusal {
        Refusal::Mounted | Refusal::System | Refusal::Host => Vec::new(),
        Refusal::NoNames => without_flag(sources, scene.judge(&any_name(path)).rule).into_iter().collect(),
        Refusal::Rule(Cause::AboveStricter) => {
            let below = scene.plan.names.stricter_below(path, Access::Write);
            let [only] = below[..] else { return Vec::new() };
            let stricter = &scene.plan.names.all()[only];
            let value = value_of(&stricter.target, &sources.context.cwd);
            without_flag(sources, stricter).into_iter().chain([ruled(sources, Access::Write, value)]).collect()
        }
        Refusal::Rule(_) | Refusal::NotServed | Refusal::NoDirectory => {
            let access = if act == Act::Read { Access::Read } else { Access::Write };
            let value = |path: &Path| value_of(&Target::Path(path.to_owned()), &sources.context.cwd);
            let said = rule.reason.as_deref().and_then(in_reason).and_then(|option| by_reason(sources, option));
            let removed = without_flag(sources, rule);
            let exchanged = removed.as_ref().map(|candidate| {
                let added = ruled(&candidate.sources, access, value(path));
                Candidate { text: format!("{} and {}", candidate.text, added.text), ..added }
            });
            let exact = ruled(sources, access, value(path));
            // Who may make the first directory that is missing may make the rest.
            let whole = subject.absent_above.last().map(|dir| ruled(sources, access, value(dir)));
            said.into_iter().chain(removed).chain(exchanged).chain([exact]).chain(whole).collect()
        }
    }
}

/// The option that a built-in rule's reason names: "…; `--git open` allows it".
fn in_reason(reason: &str) -> Option<&str> {
    reason.strip_suffix("` allows it")?.rsplit_once('`').map(|(_, option)| option)
}

fn by_reason(sources: &Sources, option: &str) -> Option<Candidate> {
    let text = format!("allow with {option}");
    match option.split_once(' ')? {
        ("--git", "open") => {
            let git = Some((GitMode::Open, Origin::Flag(option.to_owned())));
            Some(Candidate { text, sources: Sources { git, ..sources.clone() } })
        }
        ("--write", value) => Some(Candidate { text, ..ruled(sources, Access::Write, value.into()) }),
        _ => None,
    }
}

/// One rule more on the command line.
fn ruled(sources: &Sources, access: Access, value: OsString) -> Candidate {
    let mut sources = sources.clone();
    let text = format!("allow with --{access} {}", quoted(&value));
    sources.flags.push(Flag { access, value });
    Candidate { text, sources }
}

/// The command line without the flag that made a rule: one layer cannot say two things about one path.
fn without_flag(sources: &Sources, rule: &Rule) -> Option<Candidate> {
    let Origin::Flag(text) = &rule.origin else { return None };
    let made = |flag: &Flag| format!("--{} {}", flag.access, flag.value.display()) == *text;
    let index = sources.flags.iter().position(made)?;
    let mut sources = sources.clone();
    let Flag { access, value } = sources.flags.remove(index);
    Some(Candidate { text: format!("leave out --{access} {}", quoted(&value)), sources })
}

/// A path as the value of a flag, short where it can be; what means something in a rule is escaped.
fn value_of(target: &Target, cwd: &Path) -> OsString {
    let path = match target {
        Target::Pattern(pattern) => return pattern.to_string().into(),
        Target::Path(path) => path,
    };
    let near = path.strip_prefix(cwd).ok().filter(|rest| !rest.as_os_str().is_empty() && cwd != Path::new("/"));
    let (start, rest) = near.map_or((&b""[..], path.as_path()), |rest| (&b"./"[..], rest));
    let mut value = start.to_vec();
    for &byte in rest.as_os_str().as_bytes() {
        if b"*?[{\\$".contains(&byte) {
            value.push(b'\\');
        }
        value.push(byte);
    }
    OsString::from_vec(value)
}

/// A word for a shell. What is not printable is written as `$'…'` takes it.
fn quoted(word: &OsStr) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.bytes().all(plain) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let shown = |&byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(byte)),
                b' '..=b'~' => char::from(byte).to_string(),
                other => format!("\\x{other:02x}"),
            };
            format!("$'{}'", word.as_bytes().iter().map(shown).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_quoted() {
        let value = |path: &str| value_of(&Target::Path(path.into()), Path::new("/p"));
        assert_eq!(value("/p/a*b"), r"./a\*b");
        assert_eq!(value("/p"), "/p");
        assert_eq!(value("/q/$x[1]"), r"/q/\$x\[1]");
        assert_eq!(quoted(&value("/p/a*b")), r"'./a\*b'");
        assert_eq!(quoted(OsStr::new("/a b'c")), r"'/a b'\''c'");
        assert_eq!(quoted(OsStr::from_bytes(b"/\xff\n'")), r"$'/\xff\x0a\''");
    }

    #[test]
    fn reasons_that_name_an_option() {
        assert_eq!(in_reason("git trusts it; `--git open` allows it"), Some("--git open"));
        assert_eq!(in_reason("plain `git rebase` works, `--git open` allows it"), Some("--git open"));
        assert_eq!(in_reason("holds secrets"), None);
    }
}

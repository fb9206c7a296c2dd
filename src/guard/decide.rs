//! May this be done to these names? Pure: rules and names in, a verdict out.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::policy::{Access, Judgement, Rules};

/// What a call does to the names it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Make a directory.
    MakeDirectory,
    /// Remove an empty directory.
    RemoveDirectory,
    /// Change mode, owner, times or attributes of what is there, or ask whether it may be written.
    Attributes,
    /// Write into a file, making it where it is absent.
    Content,
    /// Make a file without a name in a directory. The name that it gets later is judged then.
    Nameless,
    /// Make something that is neither a directory nor a symbolic link: a socket, a fifo, a name of a nameless file.
    Make,
    /// Make a symbolic link.
    MakeSymlink,
    /// Remove something that is no directory.
    Remove,
    /// Give the file of the first name the second one too.
    Link,
    /// Move the first name to the second.
    Rename { directory: bool },
    /// Swap the two.
    Exchange { directory: bool },
}

/// One question.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub change: Change,
    /// The real path of the parent and the name: absolute, and free of links up to the last step.
    pub path: &'a Path,
    /// The other name, of changes that have two.
    pub second: Option<&'a Path>,
}

/// Which name of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Which {
    First,
    Second,
}

/// Why a name may not be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The rule's access is not `write`.
    Access(Access),
    /// A stricter rule holds below: the name must stay what it is and where it is.
    AboveStricter,
    /// It must not become a symbolic link, and this is one or could be one.
    Plain,
    /// Names below it that a pattern protects would leave the pattern's reach.
    LeavesPattern,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    Grant,
    Deny {
        /// Index of the rule in [`Rules::all`].
        rule: usize,
        which: Which,
        cause: Cause,
    },
}

/// Judge a request. A pattern is matched here and now, so that it holds for names that appear later.
pub fn decide(rules: &Rules, request: &Request<'_>) -> Verdict {
    match (judge(rules, request.change, request.path, Which::First), request.second) {
        (Verdict::Grant, Some(second)) => decide_second(rules, request, second),
        (verdict, _) => verdict,
    }
}

fn decide_second(rules: &Rules, request: &Request<'_>, second: &Path) -> Verdict {
    match judge(rules, request.change, second, Which::Second) {
        Verdict::Grant if !is_plain(rules, request.path) && is_plain(rules, second) => {
            // What lies where links can be made could be one by the time it is moved, whatever it is now.
            Verdict::Deny { rule: rules.judge(second).index, which: Which::Second, cause: Cause::Plain }
        }
        Verdict::Grant if is_exchange(request.change) && is_plain(rules, request.path) != is_plain(rules, second) => {
            Verdict::Deny { rule: rules.judge(request.path).index, which: Which::First, cause: Cause::Plain }
        }
        Verdict::Grant if leaves_pattern(rules, request, second) => {
            Verdict::Deny { rule: rules.judge(request.path).index, which: Which::First, cause: Cause::LeavesPattern }
        }
        verdict => verdict,
    }
}

/// Must it not become a symbolic link? Where a rule says so; and in a directory that cannot be written itself, where a rule
/// grants single names: the next run would write where the link leads.
#[must_use]
pub fn is_plain(rules: &Rules, path: &Path) -> bool {
    let lies_in_writable = path.parent().is_some_and(|parent| rules.judge(parent).access == Access::Write);
    !lies_in_writable || rules.judge(path).rule.plain
}

fn is_exchange(change: Change) -> bool {
    matches!(change, Change::Exchange { .. })
}

fn judge(rules: &Rules, change: Change, path: &Path, which: Which) -> Verdict {
    let Judgement { access, index: rule, above_stricter, .. } = rules.judge(path);
    if access != Access::Write {
        Verdict::Deny { rule, which, cause: Cause::Access(access) }
    } else if above_stricter && !leaves_in_place(change) {
        Verdict::Deny { rule, which, cause: Cause::AboveStricter }
    } else if change == Change::MakeSymlink && is_plain(rules, path) {
        Verdict::Deny { rule, which, cause: Cause::Plain }
    } else {
        Verdict::Grant
    }
}

/// What may be done to a directory with stricter names below: they stay under the same names, or are not there at all.
fn leaves_in_place(change: Change) -> bool {
    matches!(change, Change::MakeDirectory | Change::RemoveDirectory | Change::Attributes | Change::Nameless)
}

fn leaves_pattern(rules: &Rules, request: &Request<'_>, second: &Path) -> bool {
    match request.change {
        Change::Rename { directory: true } => !rules.patterns_follow(request.path, second),
        Change::Exchange { directory: true } => {
            !rules.patterns_follow(request.path, second) || !rules.patterns_follow(second, request.path)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Context, Flag, Sources, load};

    fn rules() -> Rules {
        let rule = |access, path: &str| Flag { access, value: path.into() };
        let flags = vec![
            rule(Access::Write, "/p"),
            rule(Access::Read, "/p/.claude/hooks"),
            rule(Access::Read, "/p/.mcp.json"),
            rule(Access::Read, "/p/ro"),
            rule(Access::Write, "/p/ro/one"),
            rule(Access::Hide, "/p/secret"),
            rule(Access::Read, "/p/**/keys/private"),
            rule(Access::Read, "/p/*.lock"),
        ];
        let context = Context {
            home: "/h".into(),
            cwd: "/p".into(),
            project: "/p".into(),
            state: "/h/s".into(),
            ..Context::default()
        };
        load(&Sources { context, flags, ..Sources::default() }).expect("rules").rules
    }

    const ALL: [Change; 12] = [
        Change::MakeDirectory,
        Change::RemoveDirectory,
        Change::Attributes,
        Change::Content,
        Change::Nameless,
        Change::Make,
        Change::MakeSymlink,
        Change::Remove,
        Change::Link,
        Change::Rename { directory: true },
        Change::Rename { directory: false },
        Change::Exchange { directory: true },
    ];

    fn granted(change: Change, path: &str, second: Option<&str>) -> bool {
        let request = Request { change, path: Path::new(path), second: second.map(Path::new) };
        decide(&rules(), &request) == Verdict::Grant
    }

    #[test]
    fn stricter_names_grant_nothing() {
        for change in ALL {
            for path in
                ["/p/.mcp.json", "/p/ro", "/p/ro/two", "/p/secret/x", "/p/a/keys/private", "/p/x.lock", "/etc/passwd"]
            {
                assert!(!granted(change, path, None), "{change:?} {path}");
                assert!(!granted(change, "/p/plain", Some(path)), "{change:?} {path}");
            }
        }
    }

    #[test]
    fn free_and_single_names_grant_everything() {
        for change in ALL {
            let is_link = change == Change::MakeSymlink;
            assert!(granted(change, "/p/src/x", Some("/p/src/y")), "{change:?}");
            assert_eq!(granted(change, "/p/ro/one", None), !is_link, "{change:?}");
            assert_eq!(granted(change, "/p/ro/one", Some("/p/ro/one")), !is_link, "{change:?}");
        }
    }

    /// Where the directory cannot be written, what a rule grants is that one name: nobody leaves a link there for the next
    /// run, which would write where it leads. What lies where links can be made could be one by the time it is moved.
    #[test]
    fn a_single_name_does_not_become_a_link() {
        for change in [Change::Link, Change::Rename { directory: false }, Change::Exchange { directory: false }] {
            assert!(!granted(change, "/p/src/x", Some("/p/ro/one")), "{change:?}");
        }
        assert!(!granted(Change::Exchange { directory: false }, "/p/ro/one", Some("/p/src/x")));
        assert!(granted(Change::Rename { directory: false }, "/p/ro/one", Some("/p/src/x")));
    }

    #[test]
    fn what_lies_above_a_stricter_name_stays_in_place() {
        for change in ALL {
            let stays = matches!(
                change,
                Change::MakeDirectory | Change::RemoveDirectory | Change::Attributes | Change::Nameless
            );
            assert_eq!(granted(change, "/p/.claude", None), stays, "{change:?}");
            assert_eq!(granted(change, "/p/a/keys", None), stays, "{change:?}");
        }
        assert!(granted(Change::Rename { directory: true }, "/p/a", Some("/p/b")));
    }

    #[test]
    fn a_denial_names_the_rule_and_the_side() {
        let rules = rules();
        let request =
            Request { change: Change::Link, path: Path::new("/p/x"), second: Some(Path::new("/p/.mcp.json")) };
        let Verdict::Deny { rule, which, cause } = decide(&rules, &request) else { panic!("granted") };
        assert_eq!((which, cause), (Which::Second, Cause::Access(Access::Read)));
        assert_eq!(rules.all()[rule].origin.to_string(), "--read /p/.mcp.json");
    }
}

//! What holds for any rules, checked against the plainest possible reading of the design.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::builtin::target_rule;
use super::super::layers::Layers;
use super::*;

/// The names that paths and patterns are made of; few, so that rules meet.
const NAMES: [&str; 3] = ["a", "b", "ab"];
const PARTS: [&str; 6] = ["a", "b", "ab", "*", "a*", "**"];

/// What was written: layer, access, path or pattern.
type Written = (usize, Access, String);

fn rules(written: &[Written]) -> Rules {
    let mut layers = Layers::new(Path::new(""));
    layers.add_built_in(rule(Access::Read, "/"));
    for layer in 1..=3 {
        layers.begin();
        for (_, access, text) in written.iter().filter(|(at, ..)| *at == layer) {
            layers.add(rule(*access, text)).expect("no contradiction");
        }
    }
    layers.finish(Vec::new())
}

fn rule(access: Access, text: &str) -> Rule {
    let target = if text.contains('*') {
        Target::Pattern(Pattern::parse(text.as_bytes(), Path::new("/"), text).expect("a pattern"))
    } else {
        Target::Path(text.into())
    };
    target_rule(target, access, None)
}

/// The rules in force: what each text says, and from which layer.
fn in_force(written: &[Written]) -> BTreeMap<&str, (usize, Access)> {
    let mut force = BTreeMap::from([("/", (0, Access::Read))]);
    for layer in 1..=3 {
        force.extend(
            written.iter().filter(|(at, ..)| *at == layer).map(|(at, access, text)| (text.as_str(), (*at, *access))),
        );
    }
    force
}

fn split(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}

fn fits(parts: &[&str], names: &[&str]) -> bool {
    match (parts, names) {
        ([], _) => names.is_empty(),
        (["**"], _) => !names.is_empty(),
        (["**", more @ ..], _) => (0..=names.len()).any(|skipped| fits(more, &names[skipped..])),
        ([part, more @ ..], [name, rest @ ..]) => {
            let same = part.strip_suffix('*').map_or(part == name, |start| name.starts_with(start));
            same && fits(more, rest)
        }
        (_, []) => false,
    }
}

/// How much of a path a rule names; `None` if it says nothing about the path.
fn depth(text: &str, path: &[&str]) -> Option<usize> {
    (0..=path.len()).rev().find(|depth| fits(&split(text), &path[..*depth]))
}

fn anchor(text: &str) -> usize {
    split(text).iter().take_while(|part| !part.contains('*')).count()
}

/// The answer to `judge`, found by asking every rule about every part of the path.
fn reference(written: &[Written], path: &str) -> Access {
    let names = split(path);
    let force = in_force(written);
    let plain = |text: &str| !text.contains('*');
    let said = |text: &&str, (layer, access): (usize, Access)| {
        depth(text, &names)
            .map(|depth| (depth, plain(text), layer, std::cmp::Reverse(access.rank()), anchor(text), access))
    };
    let said: Vec<_> = force.iter().filter_map(|(text, rule)| said(text, *rule)).collect();
    let deepest = said.iter().filter(|it| it.1).max_by_key(|it| it.0).expect("the root");
    let shadow = !matches!(deepest.5, Access::Read | Access::Write);
    let heard = said.iter().filter(|it| it.1 || !shadow || it.4 >= deepest.0);
    heard.max_by_key(|it| (it.0, it.1, it.2, it.3)).expect("the root").5
}

/// Every path of up to four names.
fn paths() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..4 {
        last = last.iter().flat_map(|path| NAMES.map(|name| format!("{path}/{name}"))).collect();
        all.extend(last.iter().cloned());
    }
    all[0] = "/".to_owned();
    all
}

fn below<'a>(all: &'a [String], directory: &str) -> impl Iterator<Item = &'a String> {
    let start = if directory == "/" { "/".to_owned() } else { format!("{directory}/") };
    all.iter().filter(move |path| path.len() > start.len() && path.starts_with(&start))
}

fn text(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(select(parts), 1..=3).prop_map(|parts| {
        // `**` after `**` and patterns that are written differently but are the same are tested elsewhere.
        let mut parts = parts;
        parts.dedup_by(|one, other| *one == "**" && *other == "**");
        format!("/{}", parts.join("/"))
    })
}

fn any_access() -> impl Strategy<Value = Access> {
    select(vec![Access::Hide, Access::Read, Access::Overlay, Access::Private, Access::Write])
}

fn plain_rule() -> impl Strategy<Value = Written> {
    (1..=3usize, any_access(), text(&NAMES))
}

fn any_rule() -> impl Strategy<Value = Written> {
    let pattern = (1..=3usize, select(vec![Access::Read, Access::Write]), text(&PARTS));
    prop_oneof![plain_rule(), pattern]
}

/// At most one rule for each text in each layer.
fn consistent(rules: impl Strategy<Value = Written>) -> impl Strategy<Value = Vec<Written>> {
    prop::collection::vec(rules, 0..12).prop_map(|rules| {
        let by_text: BTreeMap<_, _> = rules.into_iter().map(|(at, access, text)| ((at, text), access)).collect();
        by_text.into_iter().map(|((at, text), access)| (at, access, text)).collect()
    })
}

/// Read patterns and plain rules in two writable trees.
fn moves() -> impl Strategy<Value = Vec<Written>> {
    let read = (Just(2), Just(Access::Read), text(&PARTS));
    prop::collection::vec(read, 0..5).prop_map(|mut rules| {
        rules.dedup_by(|one, other| one.2 == other.2);
        rules.extend(["/a", "/b"].map(|path| (1, Access::Write, path.to_owned())));
        rules
    })
}

fn access_at(rules: &Rules, path: &str) -> Access {
    rules.judge(Path::new(path)).access
}

proptest! {
    // `PROPTEST_CASES` makes this a longer run.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn judgement_is_that_of_the_reference(written in consistent(any_rule())) {
        let rules = rules(&written);
        for path in paths() {
            prop_assert_eq!(access_at(&rules, &path), reference(&written, &path), "{}", path);
        }
    }

    #[test]
    fn who_speaks_of_a_path_decides_or_loses(written in consistent(any_rule())) {
        let rules = rules(&written);
        for path in paths() {
            let (names, at) = (split(&path), Path::new(&path));
            let winner = rules.judge(at).index;
            let mut heard: Vec<usize> = rules.losers(at).iter().map(|loser| loser.index).collect();
            prop_assert!(!heard.contains(&winner));
            heard.push(winner);
            heard.sort_unstable();
            let speaks = |rule: &Rule| match &rule.target {
                Target::Path(path) => depth(path.to_str().expect("UTF-8"), &names).is_some(),
                Target::Pattern(pattern) => depth(&pattern.to_string(), &names).is_some(),
            };
            let expected: Vec<usize> = (0..rules.all().len()).filter(|&index| speaks(&rules.all()[index])).collect();
            prop_assert_eq!(heard, expected, "{}", path);
        }
    }

    #[test]
    fn what_names_more_loses_only_where_it_has_no_say(written in consistent(any_rule())) {
        let rules = rules(&written);
        for path in paths() {
            let path = Path::new(&path);
            let stricter = rules.stricter_below(path, rules.judge(path).access);
            prop_assert!(!rules.judge(path).above_stricter || !stricter.is_empty(), "{}", path.display());
            for loser in rules.losers(path) {
                let pattern = matches!(rules.all()[loser.index].target, Target::Pattern(_));
                prop_assert!(loser.why == Loss::Shallower || pattern, "{:?} at {}", loser, path.display());
            }
        }
    }

    #[test]
    fn order_in_a_layer_does_not_matter(
        written in consistent(any_rule()),
        seed in prop::collection::vec(any::<Index>(), 12),
    ) {
        let mut other = written.clone();
        for (position, index) in seed.iter().enumerate().take(written.len()) {
            other.swap(position, index.index(written.len()));
        }
        let (one, other) = (rules(&written), rules(&other));
        for path in paths() {
            let path = Path::new(&path);
            let (a, b) = (one.judge(path), other.judge(path));
            prop_assert_eq!((a.access, a.above_stricter), (b.access, b.above_stricter));
            prop_assert_eq!(one.is_free(path), other.is_free(path));
        }
    }

    #[test]
    fn nothing_in_a_free_directory_is_anything_but_writable(written in consistent(any_rule())) {
        let rules = rules(&written);
        let all = paths();
        for free in all.iter().filter(|path| rules.is_free(Path::new(path))) {
            prop_assert_eq!(access_at(&rules, free), Access::Write);
            for path in below(&all, free) {
                prop_assert_eq!(access_at(&rules, path), Access::Write, "{} in {}", path, free);
                prop_assert!(rules.is_free(Path::new(path)), "{} in {}", path, free);
            }
        }
    }

    #[test]
    fn plain_rules_bind_no_more_than_they_must(written in consistent(plain_rule())) {
        let rules = rules(&written);
        let all = paths();
        for path in &all {
            let judgement = rules.judge(Path::new(path));
            let strictest = below(&all, path).map(|path| access_at(&rules, path).rank()).min();
            let above_stricter = strictest.is_some_and(|rank| rank < judgement.access.rank());
            prop_assert_eq!(judgement.above_stricter, above_stricter, "{}", path);
            prop_assert_eq!(rules.is_free(Path::new(path)), judgement.access == Access::Write && !above_stricter);
        }
    }

    #[test]
    fn what_is_below_a_renamed_directory_stays_protected(written in moves()) {
        let rules = rules(&written);
        let all = paths();
        let may_go = |path: &&String| {
            let judgement = rules.judge(Path::new(path));
            judgement.access == Access::Write && !judgement.above_stricter && split(path).len() < 3
        };
        let movable: Vec<_> = all.iter().filter(may_go).collect();
        for from in &movable {
            for to in movable.iter().filter(|to| rules.patterns_follow(Path::new(from), Path::new(to))) {
                for path in below(&all, from).filter(|path| access_at(&rules, path) == Access::Read) {
                    let moved = format!("{to}{}", &path[from.len()..]);
                    prop_assert_eq!(access_at(&rules, &moved), Access::Read, "{} to {}", path, moved);
                }
            }
        }
    }

    #[test]
    fn a_name_only_makes_stricter_what_another_rule_names(
        written in consistent(plain_rule()),
        index in any::<Index>(),
        path in text(&NAMES),
    ) {
        let before = rules(&written);
        let mut after = before.clone();
        let index = index.index(before.all().len());
        let stood = before.names().find(|(name, _)| *name == Path::new(&path)).map(|(_, index)| index);
        prop_assert!(after.add_name(index, path.clone().into()));
        let given = before.all()[index].access.rank();
        let expected = stood.map_or(given, |stood| before.all()[stood].access.rank().min(given));
        prop_assert_eq!(access_at(&after, &path).rank(), expected);
        for other in paths().iter().filter(|other| !other.starts_with(&path)) {
            prop_assert_eq!(access_at(&after, other), access_at(&before, other));
        }
    }

    #[test]
    fn no_text_is_too_odd_to_be_refused(parts in prop::collection::vec(select(vec![
        "[files]", "\n", "read", "=", "[", "]", "'", "\"", "a/..", "$", "{", "}", "~", "*", "é", "\t", ",", "path",
        "\u{7f}", "\\", "size", "1", "''", "'*['", "#", "\r\n", "hide", "'$'", " ",
    ]), 0..24)) {
        let text = parts.concat();
        if let Err(error) = with_files(&[&text]) {
            prop_assert!(error.to_string().starts_with("0.toml:"), "{}", error);
            prop_assert!(error.excerpt().is_some());
        }
    }
}

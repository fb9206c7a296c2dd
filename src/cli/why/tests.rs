//! What is told agrees with what the broker would answer and with what the plan mounts.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;

use super::question::Act;
use super::scene::{Means, Refusal, Scene};
use super::{Kind, look};
use crate::guard::decide::{Change, Request, Verdict, decide};
use crate::plan::{self, Op, Plan, View};
use crate::policy::{Access, Context, Flag, Sources, load};
use crate::probe;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A tree of two levels in which `c` is a file, or absent.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    for name in ["a/a", "a/b", "b"] {
        fs::create_dir_all(dir.path().join(name)).expect("made");
    }
    for name in ["c", "a/c"] {
        fs::write(dir.path().join(name), "").expect("written");
    }
    dir
}

fn paths(base: &Path) -> Vec<PathBuf> {
    let mut all = vec![base.to_owned()];
    let mut last = all.clone();
    for _ in 0..3 {
        last = last.iter().flat_map(|path| NAMES.map(|name| path.join(name))).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// The plan for these rules in a tree; `None` where they are refused.
fn plan(base: &Path, rules: &[(Access, String)]) -> Option<Plan> {
    let flag = |access, path: &str| Flag { access, value: base.join(path).into() };
    let mut flags = vec![flag(Access::Write, "")];
    flags.extend(rules.iter().map(|(access, path)| flag(*access, path)));
    let cwd = base.to_owned();
    let context = Context { home: "/nowhere".into(), cwd: cwd.clone(), project: "/".into(), ..Context::default() };
    let policy = load(&Sources { context, flags, ..Sources::default() }).ok()?;
    let facts = plan::Facts { can_guard: true, ..probe::facts(&policy).ok()? };
    plan::build(&policy, facts, plan::Request { cwd, ..plan::Request::default() }).ok()
}

fn rules() -> impl Strategy<Value = Vec<(Access, String)>> {
    let access = select(vec![Access::Hide, Access::Read, Access::Overlay, Access::Private, Access::Write]);
    let path = prop::collection::vec(select(NAMES.to_vec()), 1..=3).prop_map(|names| names.join("/"));
    let plain = (access, path);
    let patterns = select(vec!["**/c", "a/*", "*/b", "**/a/c"]).prop_map(str::to_owned);
    let pattern = (select(vec![Access::Read, Access::Write]), patterns);
    prop::collection::vec(prop_oneof![3 => plain, 1 => pattern], 0..5)
}

/// The broker's answer, as its own callers ask it.
fn grants(plan: &Plan, change: Change, path: &Path) -> bool {
    decide(&plan.names, &Request { change, path, second: None }) == Verdict::Grant
}

/// Does the last mount that covers a path let everything be written?
fn is_writable(plan: &Plan, path: &Path) -> bool {
    let covers = |op: &&Op| !matches!(op, Op::Stub { .. } | Op::Link { .. }) && path.starts_with(op.path());
    let last = plan.mounts.iter().rfind(covers);
    matches!(last, Some(Op::Bind { view: View::Write, .. } | Op::Overlay { .. } | Op::Private { .. }))
}

proptest! {
    // `PROPTEST_CASES` makes this a longer run.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_broker_and_the_mounts(rules in rules()) {
        let dir = tree();
        let Some(plan) = plan(dir.path(), &rules) else { return Ok(()) };
        let scene = Scene { plan: &plan, mount_of: &probe::mount_of, permits: &|_, _| true };
        for path in paths(dir.path()) {
            let subject = look(&scene, &path).expect("a way").subject;
            let judged = plan.names.judge(&path);
            let writable = is_writable(&plan, &path) || path.parent().is_some_and(|dir| is_writable(&plan, dir));
            for act in [Act::Write, Act::Create, Act::RenameTo] {
                let change = match act {
                    Act::RenameTo => Change::Rename { directory: subject.as_directory },
                    Act::Create if subject.as_directory => Change::MakeDirectory,
                    Act::Write if subject.kind == Some(Kind::Directory) => Change::Nameless,
                    _ => Change::Content,
                };
                let may = scene.may(&subject, act);
                // A directory that takes no name at all cannot be written either.
                let takes = change != Change::Nameless || grants(&plan, Change::Content, &path.join("other"));
                let granted = grants(&plan, change, &path) && takes;
                let told = format!("{act} {}: {may:?}, {:?}", path.display(), judged.access);
                // A yes is the broker's, or lies on something that the plan mounts writable.
                prop_assert!(may.is_err() || writable || granted, "{}", told);
                match scene.means(&subject, act) {
                    Means::Broker if may.is_ok() => prop_assert!(granted && !plan.guarded.is_empty(), "{}", told),
                    Means::Broker if may != Err(Refusal::NoDirectory) => prop_assert!(!granted, "{}", told),
                    Means::ReadOnly => prop_assert!(may.is_err(), "{}", told),
                    _ => {}
                }
                if judged.access == Access::Hide {
                    prop_assert!(may.is_err() || writable, "{}", told);
                }
            }
            if is_writable(&plan, &path) && !subject.is_blocked {
                prop_assert_eq!(scene.may(&subject, Act::Read), Ok(()), "read {}", path.display());
            }
            if plan.names.is_free(&path) && subject.kind == Some(Kind::Directory) {
                prop_assert_eq!(scene.may(&subject, Act::Write), Ok(()), "free {}", path.display());
            }
        }
    }
}

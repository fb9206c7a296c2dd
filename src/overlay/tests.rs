use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::layer::{is_opaque, look};
use super::merge::merge;
use super::{Kept, Stack};
use crate::sys::fs::CWD;
use crate::sys::layer;

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn opaque(path: &Path) {
    fs::create_dir_all(path).unwrap();
    layer::set_xattr(look(path).unwrap().unwrap().fd, &c"user.overlay.opaque".to_owned(), b"y").unwrap();
}

fn whiteout(dir: &Path, name: &str) {
    fs::create_dir_all(dir).unwrap();
    layer::whiteout(CWD, &dir.join(name)).unwrap();
}

fn is_whiteout(path: &Path) -> bool {
    look(path).unwrap().is_some_and(|there| there.meta.is_whiteout())
}

#[test]
fn the_newest_of_each_name_is_taken_and_what_hides_the_host_stays() {
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let [new, mid, old, to] = ["new", "mid", "old", "to"].map(|name| base.path().join(name));
    write(&old, "a", "old");
    write(&mid, "a", "mid");
    write(&new, "a", "new");
    write(&old, "gone", "old");
    whiteout(&mid, "gone");
    write(&old, "d/old", "");
    write(&mid, "d/mid", "");
    write(&new, "d/new", "");
    write(&old, "opaque/old", "");
    opaque(&mid.join("opaque"));
    write(&new, "opaque/new", "");
    write(&old, "back/old", "");
    whiteout(&mid, "back");
    opaque(&new.join("back"));
    write(&old, "file-then-dir", "old");
    opaque(&new.join("file-then-dir"));
    merge(&[new.clone(), mid, old], &to).unwrap();
    assert_eq!(fs::read_to_string(to.join("a")).unwrap(), "new");
    assert_eq!(fs::metadata(to.join("a")).unwrap().ino(), fs::metadata(new.join("a")).unwrap().ino());
    assert!(is_whiteout(&to.join("gone")));
    let names = |dir: &str| super::layer::names(&to.join(dir)).unwrap();
    assert_eq!(names("d"), ["mid", "new", "old"]);
    assert_eq!(names("opaque"), ["new"]);
    assert!(names("back").is_empty() && names("file-then-dir").is_empty());
    for (dir, expected) in [("d", false), ("opaque", true), ("back", true), ("file-then-dir", true)] {
        assert_eq!(is_opaque(&look(&to.join(dir)).unwrap().unwrap()), expected, "{dir}");
    }
}

#[test]
fn layers_in_use_are_not_given_for_deletion() {
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let stack = Stack::open(base.path(), Path::new("/some/where")).unwrap();
    let push = |number: usize| {
        let upper = base.path().join(format!("upper{number}"));
        write(&upper, &format!("f{number}"), "x");
        stack.push(&upper).unwrap()
    };
    push(0);
    let (lower, leases) = stack.lower().unwrap();
    assert_eq!((lower.len(), leases.len()), (1, 1));
    let unused: Vec<_> = (1..12).flat_map(push).collect();
    assert_eq!(unused.len(), 11, "all but the one in use");
    for (dir, _) in unused {
        fs::remove_dir_all(dir).unwrap();
    }
    let held = fs::read_dir(base.path().join("overlay/+some+where")).unwrap();
    let kept = held.filter(|entry| entry.as_ref().unwrap().path().join("tree/f0").exists()).count();
    assert_eq!(kept, 2, "the merged layer and the one in use");
    drop(leases);
    assert_eq!(push(12).len(), 1);
    let (merged, _) = stack.lower().unwrap();
    assert_eq!(super::layer::names(&merged[1]).unwrap().len(), 12);
}

#[test]
fn a_large_layer_at_the_bottom_stays_as_it_is() {
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let stack = Stack::open(base.path(), Path::new("/x")).unwrap();
    for number in 0..40 {
        let upper = base.path().join(format!("upper{number}"));
        for file in 0..if number == 0 { 500 } else { 1 } {
            write(&upper, &format!("d/f{number}-{file}"), "x");
        }
        for (dir, _) in stack.push(&upper).unwrap() {
            fs::remove_dir_all(dir).unwrap();
        }
    }
    let (lower, _) = stack.lower().unwrap();
    assert!(lower.len() <= 12, "{lower:?}");
    assert!(lower.last().unwrap().ends_with("00000001/tree"));
    let names: usize = lower.iter().map(|tree| super::layer::names(&tree.join("d")).unwrap().len()).sum();
    assert_eq!(names, 539);
}

#[test]
fn an_empty_layer_adds_nothing() {
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let stack = Stack::open(base.path(), Path::new(&"/long".repeat(100))).unwrap();
    let upper = base.path().join("upper");
    fs::create_dir(&upper).unwrap();
    assert!(stack.push(&upper).unwrap().is_empty());
    assert!(stack.lower().unwrap().0.is_empty());
}

#[test]
fn names_of_what_is_kept_stay_in_their_directory() {
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in ["", ".", "..", "a/b", "-x", ".hidden", "a\nb", &"x".repeat(65)] {
        assert!(Kept::create(base.path(), name, "c", &[]).is_err(), "{name:?}");
        assert!(Kept::open(base.path(), name).is_err(), "{name:?}");
    }
    assert!(Kept::list(base.path()).unwrap().is_empty());
}

//! Second ways to a guarded name: the same directory of a file system, mounted once more by the host.
//!
//! A rule is about a name, and a host's bind mount gives the same file another one. Where that other name lies in a place
//! that some rule makes writable, the stricter rule holds for it too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::policy::{Access, Rules, Target, is_at_or_below};
use crate::sys::mountinfo::{self, Entry};

/// Let every stricter rule inside a writable place hold at each further mount of that place.
pub(super) fn add(names: &mut Rules) -> std::io::Result<()> {
    let mounts = mountinfo::read()?;
    for group in by_file_system(names, &mounts).values().filter(|group| group.len() > 1) {
        for (index, path) in guarded_names(names) {
            for alias in aliases(&path, group) {
                if names.judge(&alias).access == Access::Write {
                    names.add_name(index, alias);
                }
            }
        }
    }
    Ok(())
}

/// The mounts on which something may be writable, by file system.
fn by_file_system<'a>(names: &Rules, mounts: &'a [Entry]) -> BTreeMap<&'a str, Vec<&'a Entry>> {
    let writable: Vec<&Path> = names
        .all()
        .iter()
        .filter(|rule| rule.access == Access::Write)
        .filter_map(|rule| if let Target::Path(path) = &rule.target { Some(path.as_path()) } else { None })
        .collect();
    let mut groups: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for mount in mounts {
        if writable.iter().any(|path| is_at_or_below(path, &mount.point) || is_at_or_below(&mount.point, path)) {
            groups.entry(&mount.dev).or_default().push(mount);
        }
    }
    groups
}

/// The names of stricter rules that lie in writable places.
fn guarded_names(names: &Rules) -> Vec<(usize, PathBuf)> {
    let lies_in_writable =
        |path: &Path| path.parent().is_some_and(|parent| names.judge(parent).access == Access::Write);
    names
        .names()
        .filter(|(path, index)| names.all()[*index].access.is_stricter_than(Access::Write) && lies_in_writable(path))
        .map(|(path, index)| (index, path.to_owned()))
        .collect()
}

/// The other paths under which the mounts of one file system show a name, or show something of what lies below it.
fn aliases(path: &Path, mounts: &[&Entry]) -> Vec<PathBuf> {
    let holds = |mount: &&&Entry| path.starts_with(&mount.point);
    let Some(home) = mounts.iter().filter(holds).max_by_key(|mount| mount.point.components().count()) else {
        return Vec::new();
    };
    let Ok(below) = path.strip_prefix(&home.point) else { return Vec::new() };
    let inner = home.root.join(below);
    mounts
        .iter()
        .filter(|mount| mount.point != home.point)
        .filter_map(|mount| match inner.strip_prefix(&mount.root) {
            Ok(rest) if rest == Path::new("") => Some(mount.point.clone()),
            Ok(rest) => Some(mount.point.join(rest)),
            Err(_) => mount.root.starts_with(&inner).then(|| mount.point.clone()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(root: &str, point: &str) -> Entry {
        Entry { dev: "8:1".into(), root: root.into(), point: point.into(), kind: "ext4".into() }
    }

    #[test]
    fn a_name_is_found_at_every_mount_that_shows_it() {
        let (root, whole, below) = (mount("/", "/"), mount("/home/p", "/alt"), mount("/home/p/.git/hooks", "/hooks"));
        let mounts = [&root, &whole, &below];
        let found = aliases(Path::new("/home/p/.git/hooks"), &mounts);
        assert_eq!(found, [PathBuf::from("/alt/.git/hooks"), PathBuf::from("/hooks")]);
        assert_eq!(aliases(Path::new("/home/q/x"), &mounts), Vec::<PathBuf>::new());
    }

    #[test]
    fn seen_from_the_second_mount_the_first_is_the_other_way() {
        let (root, alt) = (mount("/", "/"), mount("/home/p", "/alt"));
        assert_eq!(aliases(Path::new("/alt/.mcp.json"), &[&root, &alt]), [PathBuf::from("/home/p/.mcp.json")]);
    }
}

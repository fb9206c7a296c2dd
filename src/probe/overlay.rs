//! What overlays need to know: mounts, and what lies in directories that cannot be overlays as a whole.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{Error, directories};
use crate::plan::{Child, Mount, Place};
use crate::policy::{Access, Policy, Rules};

const MOUNTINFO: &str = "/proc/self/mountinfo";

#[derive(Default)]
pub(super) struct Found {
    pub(super) mounts: Vec<Mount>,
    pub(super) split: BTreeMap<PathBuf, Vec<Child>>,
}

/// Nothing is read where nothing is an overlay.
pub(super) fn look(policy: &Policy, names: &Rules, places: &[Option<Place>]) -> Result<Found, Error> {
    let rules = names.all().iter().zip(places);
    let overlays = rules.filter(|(rule, _)| rule.access == Access::Overlay);
    let mut roots: Vec<PathBuf> = overlays.filter_map(|(_, place)| Some(place.as_ref()?.real.clone())).collect();
    if policy.redirect.value {
        roots.push("/".into());
    }
    if roots.is_empty() {
        return Ok(Found::default());
    }
    let mut found = Found { mounts: mounts()?, split: BTreeMap::new() };
    for root in roots {
        found.list(&root, &policy.context.state);
    }
    Ok(found)
}

impl Found {
    /// List a directory that a mount or the state directory lies in, and the directories on the way there.
    fn list(&mut self, dir: &Path, state: &Path) {
        let below = |path: &Path| path != dir && path.starts_with(dir);
        if self.split.contains_key(dir) || !(self.mounts.iter().any(|mount| below(&mount.path)) || below(state)) {
            return;
        }
        let children = directories(dir);
        let paths: Vec<_> = children.iter().map(|child| dir.join(&child.name)).collect();
        self.split.insert(dir.to_owned(), children);
        for path in paths.iter().filter(|path| !is_special(path)) {
            self.list(path, state);
        }
    }
}

/// Never an overlay, whatever is mounted there.
fn is_special(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|special| path == Path::new(special))
}

fn mounts() -> Result<Vec<Mount>, Error> {
    let text = std::fs::read(MOUNTINFO).map_err(|source| Error::Read { path: MOUNTINFO, source })?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(mount).collect())
}

/// A line of `proc_pid_mountinfo(5)`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let path = unescape(fields.nth(4)?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount { path, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, more)) = rest.split_first() {
        let code = more.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) if first == b'\\' => {
                bytes.push(code);
                rest = &more[3..];
            }
            _ => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_space_and_optional_fields() {
        let line = b"36 35 98:0 /m1 /mnt/a\\040b rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let found = mount(line).unwrap();
        assert_eq!((found.path.to_str().unwrap(), &*found.kind), ("/mnt/a b", "ext3"));
        assert_eq!(mount(b""), None);
    }
}

//! Where a linked work tree has its repository.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::policy::{Access, GitLacks, Linked, Origin, Policy, Rule, Target, is_at_or_below};
use crate::sys::fs::{self, Mode, OFlags, ResolveFlags};
use crate::sys::{Errno, process};

/// Longer than any path that the kernel takes, with `gitdir: ` before it.
const MAX_TEXT: u64 = 4200;

/// The repository of a linked work tree, or `None`.
///
/// The text of `.git` alone is never believed: a command that was allowed to write there could have planted it, to have
/// the next one write where it leads. The repository must name this very `.git` in `worktrees/<id>/gitdir`, belong to
/// the caller, and have no symbolic link where something will be writable.
#[must_use]
pub fn linked(project: &Path) -> Option<Linked> {
    let file = project.join(".git");
    let own = read_path(&file, b"gitdir: ")?;
    let own = project.join(own).canonicalize().ok()?;
    let common = own.parent().filter(|parent| parent.ends_with("worktrees"))?.parent()?.to_owned();
    let agrees = same_file(&own.join(read_path(&own.join("gitdir"), b"")?), &file)
        && same_file(&own.join(read_path(&own.join("commondir"), b"")?), &common);
    let plain = [&common, &own].into_iter().all(|dir| is_ours(dir) && holds_no_link(dir));
    (agrees && plain).then_some(Linked { common, own })
}

/// The bare repository that a project without `.git` is, or lies in, as git would find it.
pub(super) fn bare_repository(project: &Path) -> Option<PathBuf> {
    if fs::lstat(&project.join(".git")).is_ok() {
        return None;
    }
    let is_dir = |path: &Path| fs::stat(path).is_ok_and(|stat| stat.is_dir());
    let is_bare =
        |dir: &&Path| fs::lstat(&dir.join("HEAD")).is_ok() && is_dir(&dir.join("objects")) && is_dir(&dir.join("refs"));
    project.ancestors().find(is_bare).map(Path::to_owned)
}

/// What is not there in the `.git` of a project. A link counts as something.
#[must_use]
pub fn git_lacks(project: &Path) -> GitLacks {
    let git = project.join(".git");
    let is_absent = |name| matches!(fs::lstat(&git.join(name)), Err(error) if error.is(Errno::NOENT));
    // What lies in the repository of a linked work tree is not this one's to name.
    GitLacks { worktrees: is_absent("worktrees"), modules: is_absent("modules") }
}

/// Does a rule that somebody wrote get by a link to what is not there in the project's `.git`? Rules that name it are known
/// to the policy.
#[must_use]
pub fn opens_what_git_lacks(policy: &Policy) -> bool {
    let GitLacks { worktrees, modules } = policy.context.git_lacks;
    let git = policy.context.project.join(".git");
    let lacking = [(worktrees, git.join("worktrees")), (modules, git.join("modules"))];
    let opens = |rule: &&Rule| rule.origin != Origin::BuiltIn && Access::Read.is_stricter_than(rule.access);
    (worktrees || modules)
        && policy.rules.all().iter().filter(opens).any(|rule| {
            let Target::Path(path) = &rule.target else { return false };
            let place = super::place(path);
            !place.links.is_empty() && lacking.iter().any(|(lacks, dir)| *lacks && is_at_or_below(&place.real, dir))
        })
}

/// The path in a file that git wrote: behind `prefix`, before the end of the line. A link is not followed.
fn read_path(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let opened =
        fs::openat2(fs::CWD, file, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let mut text = Vec::new();
    let opened = std::fs::File::from(opened.ok()?);
    opened.metadata().ok().filter(std::fs::Metadata::is_file)?;
    opened.take(MAX_TEXT).read_to_end(&mut text).ok()?;
    let path = text.strip_prefix(prefix)?.trim_ascii_end();
    (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path.to_owned())))
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((fs::stat(one), fs::lstat(other)), (Ok(one), Ok(other)) if one.file == other.file)
}

fn is_ours(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.uid() == process::user().0)
}

fn holds_no_link(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let is_link = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    entries.is_ok_and(|entries| !entries.iter().any(is_link))
}

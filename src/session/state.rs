//! The state directory: where it is, whether it can be trusted, and what must be in it.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use super::store::PARTS;
use super::{Error, Result};
use crate::sys::{self, Errno, attr, fs, host};
use fs::{OFlags, RenameFlags, ResolveFlags, Stat};

/// The version of the layout that this program reads and writes.
const SCHEMA: u64 = 1;
const SCHEMA_FILE: &str = "schema";
/// Whom files of unmapped users seem to belong to in a user namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW: u32 = 65534;

/// Where the state directory is: `$STOCKADE_STATE`, `$XDG_STATE_HOME/stockade` or `~/.local/state/stockade`. An empty
/// variable is as good as none.
///
/// # Errors
/// When the variable that decides is no absolute path, or none is set.
pub fn locate(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    for (variable, below) in [("STOCKADE_STATE", ""), ("XDG_STATE_HOME", "stockade"), ("HOME", ".local/state/stockade")]
    {
        let Some(value) = env(variable).filter(|value| !value.is_empty()) else { continue };
        let value = PathBuf::from(value);
        if !value.is_absolute() {
            return Err(Error::Relative { variable, value });
        }
        return Ok(if below.is_empty() { value } else { value.join(below) });
    }
    Err(Error::NoPlace)
}

/// Open the state directory at `path`, make it if it is missing, and check it.
pub(super) fn open(path: &Path) -> Result<OwnedFd> {
    if !path.is_absolute() {
        return Err(Error::NotAbsolute(path.into()));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let state = match fs::openat2(fs::CWD, path, flags, fs::Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(state) => state,
        // A link on the way, something missing, or no right to read: go step by step and see.
        Err(_) => walk(path)?,
    };
    check(path, &fs::fstat(&state).map_err(|error| Error::call("look at", path, error))?)?;
    schema(&state, path)?;
    Ok(state)
}

/// Only ours, and only for us.
fn check(path: &Path, stat: &Stat) -> Result<()> {
    let (path, us, mode) = (path.to_owned(), host::euid(), stat.mode & 0o7777);
    if stat.uid != us {
        return Err(Error::ForeignOwner { path, owner: stat.uid, us });
    }
    if mode & 0o077 != 0 {
        return Err(Error::OpenToOthers { path, mode });
    }
    if mode & 0o700 != 0o700 {
        return Err(Error::ClosedToUs { path, mode });
    }
    Ok(())
}

/// Go to the state directory component by component and make what is missing.
fn walk(path: &Path) -> Result<OwnedFd> {
    let call = |error| Error::call("open", path, error);
    let mut place = fs::open_place(Path::new("/")).map_err(call)?;
    let mut done = PathBuf::from("/");
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            if component == Component::ParentDir {
                return Err(Error::NotAbsolute(path.into()));
            }
            continue;
        };
        done.push(name);
        let last = components.peek().is_none();
        place = step(&place, Path::new(name), &Step { path, done: &done, last })?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    fs::open_beneath(&place, Path::new("."), flags).map_err(|error| closed(path, &place, error))
}

/// A directory that cannot even be opened: say why by its mode and owner, if they are the reason.
fn closed(path: &Path, place: &OwnedFd, error: sys::Error) -> Error {
    let judged = fs::fstat(place).map(|stat| check(path, &stat));
    if let Ok(Err(reason)) = judged { reason } else { Error::call("open", path, error) }
}

/// Where the walk is: the whole way, how far it has come with this step, and whether this is the last one.
struct Step<'a> {
    path: &'a Path,
    done: &'a Path,
    last: bool,
}

fn step(parent: &OwnedFd, name: &Path, at: &Step<'_>) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let look = || fs::openat2(parent, name, flags, fs::Mode::empty(), ResolveFlags::BENEATH);
    let place = match look() {
        Err(error) if error.is(Errno::NOENT) => {
            make(parent, name, at)?;
            look()
        }
        looked => looked,
    }
    .map_err(|error| Error::call("open", at.done, error))?;
    let stat = fs::fstat(&place).map_err(|error| Error::call("look at", at.done, error))?;
    if stat.is_link() {
        return follow(parent, name, at, &stat);
    }
    if !stat.is_dir() {
        return Err(if at.last {
            Error::NotDirectory(at.path.into())
        } else {
            Error::call("open", at.done, sys::Error::new("openat2", format_args!("{:?}", at.done), Errno::NOTDIR))
        });
    }
    Ok(place)
}

/// Follow a link on the way to the state directory, if it is ours or root's: homes and disks are often reached through
/// links, but another user's may lead anywhere, and elsewhere the next time.
fn follow(parent: &OwnedFd, name: &Path, at: &Step<'_>, link: &Stat) -> Result<OwnedFd> {
    if at.last {
        return Err(Error::Link(at.path.into()));
    }
    if ![host::euid(), 0, OVERFLOW].contains(&link.uid) {
        return Err(Error::ForeignLink { path: at.path.into(), link: at.done.into(), owner: link.uid });
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    fs::openat2(parent, name, flags, fs::Mode::empty(), ResolveFlags::empty())
        .map_err(|error| Error::call("open", at.done, error))
}

fn make(parent: &OwnedFd, name: &Path, at: &Step<'_>) -> Result<()> {
    let call = |error| Error::call("create", at.done, error);
    let owner = fs::fstat(parent).map_err(call)?.uid;
    let us = host::euid();
    if ![us, 0, OVERFLOW].contains(&owner) {
        // Root with a user's $HOME would leave directories there that the user cannot use.
        let parent = at.done.parent().unwrap_or(at.done).to_owned();
        return Err(Error::ForeignParent { path: at.path.into(), parent, owner, us });
    }
    let mode = if at.last { 0o700 } else { 0o755 };
    match fs::mkdir_at(parent, name, mode) {
        Err(error) if !error.is(Errno::EXIST) => return Err(call(error)),
        _ if !at.last => return Ok(()),
        _ => {}
    }
    // Whatever the umask, so that the next run does not refuse what this one made.
    let new = fs::open_beneath(parent, name, OFlags::PATH | OFlags::DIRECTORY).map_err(call)?;
    let stat = fs::fstat(&new).map_err(call)?;
    if stat.uid == us && stat.mode & 0o700 != 0o700 {
        attr::chmod(&new, 0o700).map_err(call)?;
    }
    Ok(())
}

/// Check the version of the layout; write ours into an empty directory.
fn schema(state: &OwnedFd, path: &Path) -> Result<()> {
    // Twice: somebody else may put it there just now.
    for _ in 0..2 {
        match attr::read(state, Path::new(SCHEMA_FILE), 64) {
            Ok(bytes) => return judge_schema(path, &bytes),
            Err(error) if error.is(Errno::NOENT) => {}
            Err(error) => return Err(Error::call("read", path.join(SCHEMA_FILE), error)),
        }
        match stranger(state.as_fd()).map_err(|error| Error::call("read", path, error))? {
            Some(name) if name == SCHEMA_FILE => {}
            Some(entry) => return Err(Error::NotOurs { path: path.into(), entry: entry.into() }),
            None => {
                write_schema(state.as_fd()).map_err(|error| Error::call("create", path.join(SCHEMA_FILE), error))?;
            }
        }
    }
    Ok(())
}

fn judge_schema(path: &Path, bytes: &[u8]) -> Result<()> {
    let path = path.to_owned();
    let text = String::from_utf8_lossy(bytes).trim().to_owned();
    match text.parse::<u64>() {
        Ok(SCHEMA) => Ok(()),
        Ok(found) if found > SCHEMA => Err(Error::Newer { path, found, known: SCHEMA }),
        _ => Err(Error::BadSchema { path, text }),
    }
}

/// The first entry of a directory without a schema; the schema itself, if it has come meanwhile.
fn stranger(state: BorrowedFd<'_>) -> sys::Result<Option<OsString>> {
    let mut names: Vec<OsString> = fs::entries(state)?.into_iter().map(|entry| entry.name).collect();
    names.retain(|name| !name.to_string_lossy().starts_with(".schema-"));
    Ok(names.iter().find(|name| *name == SCHEMA_FILE).or(names.first()).cloned())
}

fn write_schema(state: BorrowedFd<'_>) -> sys::Result<()> {
    let temp = format!(".schema-{}", host::random_name()?);
    let temp = Path::new(&temp);
    let written = fs::create_at(state, temp, 0o600)
        .and_then(|file| attr::write(file, format!("{SCHEMA}\n").as_bytes()))
        .and_then(|()| fs::rename_at(state, temp, state, Path::new(SCHEMA_FILE), RenameFlags::empty()));
    if written.is_err() {
        // The cause is reported; nothing of ours should stay.
        let _ = fs::unlink_at(state, temp);
    }
    written
}

/// What this machine's part of the state directory is called.
pub(super) fn machine() -> String {
    ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        .iter()
        .filter_map(|path| host::text(Path::new(path)).ok())
        .find(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .unwrap_or_else(|| host_name(&host::name()))
}

fn host_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    format!("host-{}", name.chars().map(safe).collect::<String>())
}

/// Make the directories of this machine and open the one they lie in.
pub(super) fn open_machine(state: &OwnedFd, path: &Path, machine: &str) -> Result<OwnedFd> {
    let path = path.join(machine);
    let open = || fs::open_beneath(state, Path::new(machine), OFlags::RDONLY | OFlags::DIRECTORY);
    match open() {
        Ok(dir) => return Ok(dir),
        Err(error) if error.is(Errno::NOENT) => {}
        Err(error) => return Err(Error::call("open", path, error)),
    }
    mkdir(state.as_fd(), Path::new(machine)).map_err(|error| Error::call("create", &path, error))?;
    let dir = open().map_err(|error| Error::call("open", &path, error))?;
    make_parts(dir.as_fd()).map_err(|error| Error::call("create the directories in", &path, error))?;
    Ok(dir)
}

/// Make its parts, as far as they are missing.
pub(super) fn make_parts(machine: BorrowedFd<'_>) -> sys::Result<()> {
    PARTS.iter().try_for_each(|part| mkdir(machine, Path::new(part)))
}

/// Make a directory of mode 0700 unless it is there.
pub(super) fn mkdir(dir: BorrowedFd<'_>, name: &Path) -> sys::Result<()> {
    match fs::mkdir_at(dir, name, 0o700) {
        Err(error) if !error.is(Errno::EXIST) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs as std_fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn locate_in(vars: &[(&str, &str)]) -> Result<PathBuf> {
        locate(|name| vars.iter().find(|(var, _)| *var == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_first_variable_decides() {
        let all = [("STOCKADE_STATE", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(locate_in(&all).unwrap(), Path::new("/s"));
        assert_eq!(locate_in(&all[1..]).unwrap(), Path::new("/x/stockade"));
        assert_eq!(locate_in(&all[2..]).unwrap(), Path::new("/h/.local/state/stockade"));
        assert_eq!(locate_in(&[("STOCKADE_STATE", ""), all[2]]).unwrap(), Path::new("/h/.local/state/stockade"));
        assert!(matches!(locate_in(&[]), Err(Error::NoPlace)));
        let relative = locate_in(&[("XDG_STATE_HOME", "x"), all[2]]).unwrap_err();
        assert_eq!(relative.to_string(), r#"$XDG_STATE_HOME is "x", which is not an absolute path"#);
    }

    #[test]
    fn missing_parents_are_made() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b/c");
        open(&path).unwrap();
        let mode = |path: &Path| std_fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&temp.path().join("a")), 0o755);
        assert_eq!(std_fs::read_to_string(path.join("schema")).unwrap(), "1\n");
        open(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_trusted_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state");
        open(&path).unwrap();
        for mode in [0o770, 0o701, 0o777, 0o750] {
            std_fs::set_permissions(&path, std_fs::Permissions::from_mode(mode)).unwrap();
            let error = open(&path).unwrap_err();
            assert!(matches!(error, Error::OpenToOthers { .. }), "{error}");
            assert_eq!(error.hint().unwrap(), format!("chmod 0700 {}", path.display()));
        }
        for mode in [0o500, 0o000] {
            std_fs::set_permissions(&path, std_fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(open(&path), Err(Error::ClosedToUs { .. })), "{mode:o}");
        }
        std_fs::set_permissions(&path, std_fs::Permissions::from_mode(0o700)).unwrap();
        let link = temp.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(open(&link), Err(Error::Link(_))));
        symlink("/nowhere", temp.path().join("dangling")).unwrap();
        assert!(matches!(open(&temp.path().join("dangling")), Err(Error::Link(_))));
        let file = temp.path().join("file");
        std_fs::write(&file, "").unwrap();
        assert!(matches!(open(&file), Err(Error::NotDirectory(_))));
        assert!(matches!(open(&file.join("x")), Err(Error::Call { .. })));
        assert!(matches!(open(Path::new("state")), Err(Error::NotAbsolute(_))));
        assert!(matches!(open(&path.join("../state2")), Err(Error::NotAbsolute(_)) | Ok(_)));
    }

    #[test]
    fn our_own_links_on_the_way_are_followed() {
        let temp = tempfile::tempdir().unwrap();
        std_fs::create_dir(temp.path().join("disk")).unwrap();
        symlink("disk", temp.path().join("home")).unwrap();
        open(&temp.path().join("home/state")).unwrap();
        assert!(temp.path().join("disk/state/schema").exists());
    }

    #[test]
    fn another_users_is_refused() {
        // As root make one; as an ordinary user the root directory is one.
        let temp = tempfile::tempdir().unwrap();
        let mut path = PathBuf::from("/");
        if host::euid() == 0 {
            path = temp.path().join("theirs");
            std_fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
            let below = open(&path.join("below")).unwrap_err();
            assert!(matches!(below, Error::ForeignParent { .. }), "{below}");
            symlink("theirs", temp.path().join("link")).unwrap();
            std::os::unix::fs::lchown(temp.path().join("link"), Some(1234), None).unwrap();
            let link = open(&temp.path().join("link/below")).unwrap_err();
            assert!(matches!(link, Error::ForeignLink { owner: 1234, .. }), "{link}");
        }
        assert!(matches!(open(&path), Err(Error::ForeignOwner { .. })));
    }

    #[test]
    fn versions() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state");
        open(&path).unwrap();
        std_fs::write(path.join("schema"), "3\n").unwrap();
        let newer = open(&path).unwrap_err();
        assert!(newer.to_string().ends_with("was written by a newer stockade (schema 3, this one knows 1)"), "{newer}");
        std_fs::write(path.join("schema"), "x").unwrap();
        assert!(matches!(open(&path), Err(Error::BadSchema { .. })));
        std_fs::rename(path.join("schema"), path.join("letters")).unwrap();
        assert!(matches!(open(&path), Err(Error::NotOurs { .. })));
    }

    #[test]
    fn machines_have_safe_names() {
        assert!(!machine().contains('/') && !machine().starts_with('.'));
        assert_eq!(host_name("a/../b c"), "host-a_.._b_c");
    }
}

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::*;
use crate::bwrap::parse::parse;
use crate::plan::ordered::Step;

/// A host with a project, its `.git`, and what clients deny names with.
struct Fake(BTreeMap<PathBuf, Look>);

impl Fake {
    fn new() -> Self {
        let dirs = ["/", "/p", "/p/.git", "/p/.git/hooks", "/empty", "/dev", "/tmp", "/o"];
        let files = ["/p/.git/config", "/p/a", "/dev/null", "/full"];
        let mut all: BTreeMap<PathBuf, Look> = dirs.map(|dir| (dir.into(), Look::Directory)).into();
        all.extend(files.map(|file| (file.into(), Look::File)));
        all.insert("/p/link".into(), Look::Link(".git/hooks".into()));
        Self(all)
    }
}

impl Host for Fake {
    fn look(&self, path: &Path) -> Look {
        self.0.get(path).cloned().unwrap_or(Look::Absent)
    }
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        match self.look(path) {
            Look::Absent => Err(io::Error::from_raw_os_error(2)),
            _ => Ok(path.to_owned()),
        }
    }
    fn shows_nothing(&self, path: &Path) -> bool {
        path == Path::new("/dev/null") || path == Path::new("/empty")
    }
    fn links(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let links = self.0.iter().filter(|(path, look)| path.parent() == Some(dir) && matches!(look, Look::Link(_)));
        Ok(links.filter_map(|(path, _)| path.file_name().map(OsString::from)).collect())
    }
    fn descriptor(&self, _: i32) -> io::Result<PathBuf> {
        Err(io::Error::from_raw_os_error(9))
    }
    fn directories(&self, path: &Path) -> Vec<OsString> {
        let inside = self.0.iter().filter(|(known, look)| known.parent() == Some(path) && **look == Look::Directory);
        inside.filter_map(|(known, _)| known.file_name().map(OsString::from)).collect()
    }
    fn gives_nothing(&self, fd: i32) -> bool {
        fd == 9
    }
}

fn laid(text: &str) -> Result<Layout, String> {
    laid_on(&Fake::new(), text)
}

fn laid_on(host: &Fake, text: &str) -> Result<Layout, String> {
    let words = text.split(' ').map(OsString::from).chain(["true".into()]).collect();
    let options = parse(words, Vec::new(), &|_| Ok(Vec::new())).expect("options");
    lay_out(&options.steps, None, host).map_err(|Failure(text)| text)
}

fn access(guard: &Guard, path: &str) -> policy::Access {
    guard.rules.judge(Path::new(path)).access
}

fn steps(layout: &Layout) -> Vec<&str> {
    layout.steps.iter().filter_map(|step| step.place().written.to_str()).collect()
}

const ROOT: &str = "--ro-bind / / --bind /p /p";

#[test]
fn absent_names_are_guarded_and_nothing_is_mounted_on_them() {
    let denials = [
        "--ro-bind /dev/null /p/.mcp.json",
        "--ro-bind /empty /p/.mcp.json",
        "--ro-bind-data 9 /p/.mcp.json",
        "--perms 555 --tmpfs /p/.mcp.json --remount-ro /p/.mcp.json",
        "--ro-bind /dev/null /p/deep/er/x",
    ];
    for denial in denials {
        let layout = laid(&format!("{ROOT} {denial}")).expect(denial);
        let guard = layout.guard.as_ref().expect(denial);
        let name = denial.rsplit(' ').next().unwrap_or_default();
        assert_eq!(access(guard, name), policy::Access::Read, "{denial}");
        assert_eq!(access(guard, "/p/other"), policy::Access::Write, "{denial}");
        assert_eq!(steps(&layout), ["/", "/p"], "{denial}");
        assert!(matches!(&layout.steps[1], Step::Bind { served: true, .. }), "{denial}");
    }
}

#[test]
fn existing_names_are_guarded() {
    let layout =
        laid(&format!("{ROOT} --ro-bind /p/.git/hooks /p/.git/hooks --ro-bind /dev/null /p/a")).expect("layout");
    let guard = layout.guard.as_ref().expect("guard");
    assert_eq!(access(guard, "/p/.git/hooks/x"), policy::Access::Read);
    assert_eq!(access(guard, "/p/.git/index"), policy::Access::Write);
    assert!(guard.rules.judge(Path::new("/p/.git")).above_stricter);
    // The directory needs no mount of its own, the file is to show nothing.
    assert_eq!(steps(&layout), ["/", "/p", "/p/a"]);
}

#[test]
fn what_is_not_denied_is_not_served() {
    for options in [ROOT, "--bind / / --tmpfs /tmp --proc /proc --dev /dev", "--ro-bind / / --ro-bind /p/.git /p/.git"]
    {
        let options = options.replace(" --proc /proc", "");
        assert!(laid(&options).expect("layout").guard.is_none(), "{options}");
    }
}

#[test]
fn what_an_option_covers_is_forgotten() {
    let layout = laid("--ro-bind / / --ro-bind /p/.git /p/.git --bind /p /p").expect("layout");
    assert!(layout.guard.is_none());
}

#[test]
fn a_denied_name_is_denied_wherever_it_is_shown() {
    let layout = laid("--ro-bind / / --bind /p /o --bind /p /p --ro-bind /p/.git /p/.git").expect("layout");
    let guard = layout.guard.as_ref().expect("guard");
    assert_eq!(access(guard, "/o/.git/config"), policy::Access::Read);
    assert_eq!(access(guard, "/o/x"), policy::Access::Write);
    assert!(guard.regions.contains(&("/o".into(), Some("/p".into()))));
}

#[test]
fn directories_without_guarded_names_are_free() {
    let free = |options: &str| {
        let guard = laid(options).expect(options).guard.expect(options);
        guard.free.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(free(&format!("{ROOT} --ro-bind /dev/null /p/x")), "/p/.git");
    // What lies above a guarded name is not, what lies beside it is.
    assert_eq!(free(&format!("{ROOT} --ro-bind /dev/null /p/.git/x")), "/p/.git/hooks");
    assert_eq!(free(&format!("{ROOT} --ro-bind /p/.git/hooks /p/.git/hooks")), "");
    assert_eq!(free(&format!("{ROOT} --ro-bind /p/.git /p/.git")), "");
    // Nor is what a later option covers, or what is guarded by the name of another place.
    assert_eq!(free(&format!("{ROOT} --ro-bind /dev/null /p/x --bind /tmp /p/.git")), "");
    let twice = "--ro-bind / / --bind /p/.git /o --bind /p /p --ro-bind /dev/null /p/.git/hooks/x";
    assert_eq!(free(twice), "");
    assert_eq!(free(&format!("{ROOT} --ro-bind /dev/null /p/x --remount-ro /p/.git")), "");
}

#[test]
fn the_sessions_tmp_is_where_the_hosts_would_be() {
    let tmp = PrivateTmp { host: "/s/tmp".into(), option: "private-tmp".into() };
    let laid = |text: &str| {
        let words = text.split(' ').map(OsString::from).chain(["true".into()]).collect();
        let options = parse(words, Vec::new(), &|_| Ok(Vec::new())).expect("options");
        lay_out(&options.steps, Some(&tmp), &Fake::new()).expect(text).steps
    };
    let private = |steps: &[Step]| steps.iter().map(|step| matches!(step, Step::Private { .. })).collect::<Vec<_>>();
    assert_eq!(private(&laid("--ro-bind / /")), [false, true]);
    assert_eq!(private(&laid("--bind / / --bind /tmp /tmp")), [false, true, false, true]);
    assert_eq!(private(&laid("--ro-bind / / --tmpfs /tmp")), [false, true, false]);
    assert_eq!(private(&laid("--ro-bind / / --bind /p /tmp/new")), [false, true, false]);
    // No name of the host's.
    for other in ["--bind /p /p", "--tmpfs /tmp", "--bind /p /tmp", "--ro-bind /tmp /o"] {
        assert_eq!(private(&laid(other)), [false], "{other}");
    }
}

#[test]
fn links_on_the_way_are_guarded_too() {
    let layout = laid(&format!("{ROOT} --ro-bind /dev/null /p/link/pre-commit")).expect("layout");
    let guard = layout.guard.as_ref().expect("guard");
    assert_eq!(access(guard, "/p/.git/hooks/pre-commit"), policy::Access::Read);
    assert_eq!(access(guard, "/p/link"), policy::Access::Read);
}

#[test]
fn links_that_lead_to_denied_names_are_guarded_too() {
    let mut host = Fake::new();
    let links = [
        ("/p/.mcp.json", "cfg/absent"),
        ("/p/above", "cfg"),
        ("/p/below", "/p/cfg/absent/x"),
        ("/p/chain", "cfg/next"),
        ("/p/cfg/next", "absent"),
        ("/p/other", "a"),
        ("/p/self", "."),
        ("/p/cfg/up", "../cfg"),
        ("/p/out", "/o"),
        ("/p/loop", "loop"),
    ];
    host.0.insert("/p/cfg".into(), Look::Directory);
    host.0.extend(links.map(|(link, target)| (link.into(), Look::Link(target.into()))));
    let layout = laid_on(&host, &format!("{ROOT} --ro-bind /dev/null /p/cfg/absent")).expect("layout");
    let guard = layout.guard.as_ref().expect("guard");
    for (link, _) in links {
        let guarded = !["/p/other", "/p/self", "/p/cfg/up", "/p/out", "/p/loop"].contains(&link);
        let wanted = if guarded { policy::Access::Read } else { policy::Access::Write };
        assert_eq!(access(guard, link), wanted, "{link}");
    }
}

#[test]
fn what_would_have_to_be_seen_is_refused() {
    let refused = [
        ("--bind /tmp /p/new", "Can't mkdir /p/new: Read-only file system"),
        ("--ro-bind /full /p/new", "Can't create file at /p/new: Read-only file system"),
        ("--tmpfs /p/new", "Can't mkdir /p/new: Read-only file system"),
        ("--dir /p/a/b", "Can't mkdir parents for /p/a/b: Read-only file system"),
        ("--symlink x /p/new", "Can't make symlink at /p/new: Read-only file system"),
        ("--file 9 /p/new", "Can't create file /p/new: Read-only file system"),
        ("--chmod 700 /p/a", "Can't chmod 0700 /p/a: Read-only file system"),
        ("--ro-bind /absent /p/new", "Can't find source path /absent: No such file or directory"),
    ];
    for (option, message) in refused {
        assert_eq!(laid(&format!("{ROOT} {option}")).err().as_deref(), Some(message), "{option}");
    }
}

//! Both sides of a case.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, RwLock};

use stockade::guard::calls::Arch;
use stockade::guard::filter::{FilterSpec, program};
use stockade::guard::{Broker, Denials, Happened, Setup, Tell};
use stockade::policy::{Access, Context, Flag, Rules, Sources, load};
use stockade::sys::caller::Caller;
use stockade::sys::fs::{CWD, fstat, open_place};
use stockade::sys::{mount, process, seccomp};

/// Held to fork, or to keep others from it: a child has copies of all the descriptors that brokers hold here until it
/// executes, so that for a moment a file handed to a sandbox is still open for writing.
static FORKS: RwLock<()> = RwLock::new(());

/// Names the case to the sandboxed process.
const CASE: &str = "STOCKADE_TEST_CASE";
/// Set for a case that runs unsandboxed.
const NATIVE: &str = "STOCKADE_TEST_NATIVE";

/// Can this machine run the cases? If not, says why; with `STOCKADE_REQUIRE` naming what lacks, that is a failure.
pub(crate) fn require() -> bool {
    let _forks = FORKS.read();
    let userns = Command::new("unshare")
        .args(["-Um", "--map-current-user", "--keep-caps", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if userns && seccomp::can_notify() {
        return true;
    }
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    assert!(!required.contains("userns") && !required.contains("notify"), "no user namespaces or no notification");
    println!("skipped: no user namespaces or no notification");
    false
}

/// A project with rules, its host side.
pub(crate) struct Project {
    /// Removes the directory at the end.
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Project {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().canonicalize().expect("its path");
        for name in ["sub", "free", "free2", "ro", "pat"] {
            std::fs::create_dir(path.join(name)).expect(name);
        }
        for name in ["prot", "plain", "sub/file", "free/file", "ro/file"] {
            std::fs::write(path.join(name), name).expect(name);
        }
        Self { _dir: dir, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn rules(&self) -> Rules {
        let flag = |access, name: &str| Flag { access, value: self.path.join(name).into() };
        let flags = vec![
            Flag { access: Access::Write, value: self.path.clone().into() },
            flag(Access::Read, "prot"),
            flag(Access::Read, ".claude/hooks"),
            flag(Access::Read, "ro"),
            flag(Access::Write, "ro/allowed"),
            flag(Access::Read, "pat/*.lock"),
        ];
        let home = PathBuf::from("/nonexistent");
        let context = Context {
            state: home.join("state"),
            cwd: self.path.clone(),
            project: self.path.clone(),
            home,
            ..Context::default()
        };
        load(&Sources { context, flags, ..Sources::default() }).expect("the rules").rules
    }

    /// Nothing that a case does may change these.
    pub(crate) fn check_protected(&self) {
        for name in ["prot", "ro/file"] {
            assert_eq!(std::fs::read_to_string(self.path.join(name)).expect(name), name);
        }
        assert!(!self.path.join(".claude/hooks").exists());
        assert!(!self.path.join("pat/x.lock").exists());
    }

    /// Run a case; it must succeed.
    pub(crate) fn run(&self, case: &str) -> Denials {
        let denials = Arc::default();
        self.run_with(case, &denials, None);
        Arc::into_inner(denials).expect("the broker is gone").into_inner().expect("no panic")
    }

    pub(crate) fn run_told(&self, case: &str) -> Vec<PathBuf> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = told.clone();
        let tell = Box::new(move |happened: &Happened<'_>| {
            let Happened::New { path, file, .. } = happened else { return };
            let there = std::fs::metadata(path).expect("it is there");
            assert_eq!(there.ino(), file.ino);
            tell.lock().expect("no panic").push(path.to_path_buf());
        });
        self.run_with(case, &Arc::default(), Some(tell));
        Arc::into_inner(told).expect("the broker is gone").into_inner().expect("no panic")
    }

    fn run_with(&self, case: &str, denials: &Arc<Mutex<Denials>>, tell: Option<Tell>) {
        let mut sandbox = Sandbox::start(self, case);
        let setup = Setup {
            rules: Arc::new(self.rules()),
            mounts: HashSet::from([sandbox.mount]),
            denials: denials.clone(),
            regions: None,
            renumbered: None,
            tell,
            offline: None,
            watch: None,
        };
        let listener = sandbox.take_listener();
        let broker = std::thread::spawn(move || Broker::new(listener, setup).expect("a broker").run());
        let alone = matches!(case, "executables_are_not_busy" | "locks_end_with_their_file").then(|| FORKS.write());
        sandbox.finish();
        drop(alone);
        broker.join().expect("no panic").expect("the broker ends with the sandbox");
    }

    /// Run a case without filter and read-only mounts: what the same calls do on their own.
    pub(crate) fn run_native(&self, case: &str) {
        let output = command(&self.path, case).env(NATIVE, "1").output().expect("unshare");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn run_without_broker(&self, case: &str) {
        let mut sandbox = Sandbox::start(self, case);
        drop(sandbox.take_listener());
        sandbox.finish();
    }
}

/// The sandboxed process, seen from outside.
struct Sandbox {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    listener: i32,
    mount: u64,
}

impl Sandbox {
    fn start(project: &Project, case: &str) -> Self {
        let forks = FORKS.read().expect("no panic");
        let mut child =
            command(&project.path, case).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare");
        drop(forks);
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (mount, listener) = ready(&mut output).expect("the sandbox is ready");
        Self { child, output, listener, mount }
    }

    fn take_listener(&mut self) -> OwnedFd {
        Caller::new(self.child.id().cast_signed()).take_fd(self.listener).expect("the listener")
    }

    /// Let the case begin, and wait for its end.
    fn finish(mut self) {
        self.child.stdin.take().expect("a pipe").write_all(b"go\n").expect("it listens");
        let rest: Vec<String> = self.output.lines().map_while(Result::ok).collect();
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", rest.join("\n"));
    }
}

/// This binary again, for one case.
fn command(dir: &Path, case: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["-Um", "--map-current-user", "--keep-caps"])
        .arg(std::env::current_exe().expect("this binary"))
        .args(["--exact", "inside", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .current_dir(dir);
    command
}

/// The line in which the sandboxed process says that it is ready; other lines are the test framework's.
fn ready(output: &mut impl BufRead) -> Option<(u64, i32)> {
    let line = output.lines().map_while(Result::ok).find(|line| line.contains("ready "))?;
    let mut words = line.split("ready ").nth(1)?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// One case, run in the project's directory.
pub(crate) type Case = (&'static str, fn(&Path));

/// The sandboxed side.
pub(crate) fn inside(cases: &[Case]) {
    let Ok(name) = std::env::var(CASE) else { return };
    let (_, case) = cases.iter().find(|(known, _)| *known == name).expect("a known case");
    let project = std::env::current_dir().expect("the project");
    if std::env::var_os(NATIVE).is_some() {
        process::drop_capabilities().expect("no capabilities");
        return case(&project);
    }
    let mount = make_read_only(&project);
    std::env::set_current_dir(&project).expect("the project, on its new mount");
    process::drop_capabilities().expect("no capabilities");
    process::set_no_new_privs().expect("no new privileges");
    let spec = FilterSpec { arch: Arch::HOST, guarded: true, strict: false, preload: false, offline: false };
    let listener = seccomp::install_with_listener(&program(&spec)).expect("the filter");
    println!("ready {mount} {}", listener.as_raw_fd());
    std::io::stdin().lines().next().expect("a line").expect("go");
    drop(listener);
    case(&project);
}

/// The project read-only, with two writable mounts in it; the id of the first.
fn make_read_only(project: &Path) -> u64 {
    let attach = |tree: OwnedFd, path: &Path| {
        mount::attach(tree, open_place(path).expect("a place")).expect("attached");
    };
    let free: Vec<_> = ["free", "free2"].map(|name| project.join(name)).into();
    let trees: Vec<_> = free.iter().map(|path| mount::clone_tree(CWD, path).expect("a clone")).collect();
    attach(mount::clone_tree(CWD, project).expect("a clone"), project);
    let root = open_place(project).expect("the project");
    let read_only = mount::Attributes { set: mount::RDONLY, ..Default::default() };
    mount::set_attributes(&root, Path::new(""), false, read_only).expect("read-only");
    for (tree, path) in trees.into_iter().zip(&free) {
        attach(tree, path);
    }
    fstat(&root).expect("its mount").mount
}

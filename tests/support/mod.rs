//! A directory of its own for every test, the real binary, and what came of it.
#![allow(dead_code, unused_imports, reason = "two test binaries share this and neither uses all of it")]

mod filtered;
pub(crate) mod git;
mod machine;
mod outcome;
mod process;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

pub(crate) use filtered::Answer;
pub(crate) use machine::{delegated_groups, is_root, need, original, real_home, size};
pub(crate) use outcome::Outcome;
pub(crate) use process::{Running, alive, eventually};

const PTY: &str = include_str!("pty.py");
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A number that no other test of this process and no test of another live process uses.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes a program. What a test wrote itself cannot be executed (`ETXTBSY`) while the child of another test that is
/// just being started holds the descriptor, so another process writes it.
fn install(from: &Path, to: &Path) {
    let status = Command::new("install").args(["-D", "-m", "755"]).args([from, to]).status().unwrap();
    assert!(status.success(), "install {} {}", from.display(), to.display());
}

/// A project, a home, a state directory, all of them gone when the test ends.
pub(crate) struct Sandbox {
    base: TempDir,
    /// The working directory of every run, and so `$PROJECT`.
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    /// `$STOCKADE_STATE`; not made before the first run.
    pub(crate) state: PathBuf,
    /// Part of the command line of everything that a run of this sandbox starts on its own account.
    pub(crate) marker: String,
    binary: OsString,
}

impl Sandbox {
    /// Below `$STOCKADE_TEST_DIR`, else `/var/tmp`.
    pub(crate) fn new() -> Self {
        Self::below(std::env::var_os("STOCKADE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into()))
    }

    /// Below a given directory.
    pub(crate) fn below(dir: impl AsRef<Path>) -> Self {
        let base = tempfile::Builder::new().prefix("sk").rand_bytes(6).tempdir_in(dir).unwrap();
        let path = base.path().canonicalize().unwrap();
        let (project, home) = (path.join("p"), path.join("h"));
        fs::create_dir(&project).unwrap();
        fs::create_dir(&home).unwrap();
        let binary = std::env::var_os("STOCKADE_TEST_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_stockade").into());
        Self { base, project, home, state: path.join("s"), marker: format!("mark-{}", unique()), binary }
    }

    /// Use a copy of the binary that belongs to the test's own user.
    pub(crate) fn own_binary(mut self) -> (Self, PathBuf) {
        let copy = self.beside("stockade");
        install(self.binary.as_ref(), &copy);
        self.binary = copy.clone().into();
        (self, copy)
    }

    /// A path beside the project: no rule speaks of it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.project.parent().unwrap().join(name)
    }

    /// A file in the project.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.project.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A file beside the project.
    pub(crate) fn file_beside(&self, name: &str, content: &str) -> PathBuf {
        let path = self.beside(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A program in the project or beside it.
    pub(crate) fn program(&self, path: &Path, text: &str) -> PathBuf {
        let source = tempfile::NamedTempFile::new_in(&self.base).unwrap();
        fs::write(&source, text).unwrap();
        install(source.path(), path);
        path.to_owned()
    }

    /// A run, to be described further.
    pub(crate) fn run(&self) -> Run<'_> {
        let run = Run::new(self, &["run"]);
        run.options(["--no-config", "--setenv"]).option(format!("SANDBOX_TEST={}", self.marker))
    }

    /// `sh -c SCRIPT` in a sandbox with nothing but the built-in rules.
    #[must_use]
    pub(crate) fn sh(&self, script: &str) -> Outcome {
        self.run().sh(script)
    }

    /// Any other command of stockade.
    pub(crate) fn stockade(&self, args: &[&str]) -> Run<'_> {
        Run::new(self, args)
    }

    /// The binary as a word of a shell script.
    pub(crate) fn binary(&self) -> String {
        self.binary.clone().into_string().unwrap()
    }

    /// A program outside of any sandbox, with the environment that a run would have: the control of an attack, or the
    /// shell that calls stockade (`$SK run …`).
    #[must_use]
    pub(crate) fn outside<S: AsRef<OsStr>>(&self, argv: &[S]) -> Outcome {
        process::output(self.bare(argv), None)
    }

    /// A shell script outside that may call `$SK`.
    #[must_use]
    pub(crate) fn script(&self, script: &str) -> Outcome {
        self.outside(&["sh", "-c", script])
    }

    /// `argv` on a terminal of its own, outside; see `pty.py` for the steps.
    pub(crate) fn terminal<S: AsRef<OsStr>>(&self, steps: &[(&str, &str)], argv: &[S]) -> Outcome {
        let mut command = self.bare(&[PYTHON, "-c", PTY, &serde_json::to_string(steps).unwrap()]);
        command.args(argv);
        process::output(command, None)
    }

    /// Names below the state directory that belong to a session or wait to be deleted.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for machine in entries(&self.state) {
            for part in ["sessions", "runs", "trash"] {
                left.extend(entries(&machine.join(part)));
            }
        }
        left
    }

    fn bare<S: AsRef<OsStr>>(&self, argv: &[S]) -> Command {
        let mut command = Command::new(argv[0].as_ref());
        command.args(&argv[1..]).env_clear().current_dir(&self.project);
        command.env("PATH", PATH).env("HOME", &self.home).env("LANG", "C.UTF-8").env("TERM", "xterm");
        command.env("SHELL", "/bin/sh").env("STOCKADE_STATE", &self.state).env("SK", &self.binary);
        command
    }
}

impl Drop for Sandbox {
    /// A test may have taken permissions from its own directories.
    fn drop(&mut self) {
        let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(self.base.path()).stderr(Stdio::null()).status();
    }
}

/// Starts a Python program that makes `ready` in the project, waits for `go`, and makes `done` last; all that it does in
/// between it does while the supervisor is stopped, which answers nothing.
#[track_caller]
pub(crate) fn works_unanswered(sandbox: &Sandbox, program: &str, [ready, go, done]: [&str; 3]) {
    let mut running = sandbox.run().spawn(python(program));
    let exists = |name: &str| sandbox.project.join(name).exists().then_some(());
    eventually("the program runs", || exists(ready));
    running.signal(Signal::STOP);
    fs::write(sandbox.project.join(go), "").unwrap();
    eventually("it is done", || exists(done));
    running.signal(Signal::CONT);
    running.wait().ok();
}

/// The entries of a directory; none when it does not exist.
pub(crate) fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// The program and arguments of a Python program.
pub(crate) fn python(program: &str) -> [&str; 3] {
    [PYTHON, "-c", program]
}

/// Starts a program in a user and mount namespace of its own, inside of a sandbox. Root inside has no capability, and
/// the kernel (5.12) lets only who has `CAP_SETFCAP` map uid 0; without a map it has the same power over mounts.
pub(crate) fn nested<'a>(argv: &[&'a str]) -> Vec<&'a str> {
    let flags = if is_root() { "-Um" } else { "-Urm" };
    ["unshare", flags].iter().chain(argv).copied().collect()
}

/// One call of stockade.
#[must_use]
pub(crate) struct Run<'a> {
    sandbox: &'a Sandbox,
    options: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    input: Option<Vec<u8>>,
    stdin: Option<File>,
}

impl<'a> Run<'a> {
    fn new(sandbox: &'a Sandbox, args: &[&str]) -> Self {
        let options = args.iter().map(OsString::from).collect();
        Self { sandbox, options, env: Vec::new(), cwd: sandbox.project.clone(), input: None, stdin: None }
    }

    pub(crate) fn option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.options.push(option.as_ref().into());
        self
    }

    pub(crate) fn options<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, options: I) -> Self {
        options.into_iter().fold(self, Self::option)
    }

    pub(crate) fn session(self, id: &str) -> Self {
        self.options(["--session", id])
    }

    pub(crate) fn write(self, path: impl AsRef<OsStr>) -> Self {
        self.option("--write").option(path)
    }

    pub(crate) fn read(self, path: impl AsRef<OsStr>) -> Self {
        self.option("--read").option(path)
    }

    pub(crate) fn hide(self, path: impl AsRef<OsStr>) -> Self {
        self.option("--hide").option(path)
    }

    /// A policy file with this text, outside of the project.
    pub(crate) fn policy(self, text: &str) -> Self {
        let path = self.sandbox.file_beside(&format!("policy{}.toml", unique()), text);
        self.option("--policy").option(path)
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    pub(crate) fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = dir.as_ref().into();
        self
    }

    /// What the command reads, through a pipe.
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// What the command reads, as it is.
    pub(crate) fn stdin(mut self, file: File) -> Self {
        self.stdin = Some(file);
        self
    }

    #[must_use]
    pub(crate) fn sh(self, script: &str) -> Outcome {
        self.argv(["sh", "-c", script])
    }

    #[must_use]
    pub(crate) fn python(self, program: &str) -> Outcome {
        self.argv(python(program))
    }

    #[must_use]
    pub(crate) fn argv<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, argv: I) -> Outcome {
        self.option("--").options(argv).plain()
    }

    /// With what was said so far as the whole command line.
    #[must_use]
    pub(crate) fn plain(mut self) -> Outcome {
        let input = self.input.take();
        process::output(self.command(), input)
    }

    /// Starts it and does not wait.
    pub(crate) fn spawn<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, argv: I) -> Running {
        Running::new(self.option("--").options(argv).command())
    }

    /// The words of the command line, for a terminal or a script.
    pub(crate) fn words<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, argv: I) -> Vec<OsString> {
        let run = self.option("--").options(argv);
        std::iter::once(run.sandbox.binary.clone()).chain(run.options).collect()
    }

    fn command(self) -> Command {
        let mut command = self.sandbox.bare(&[&self.sandbox.binary]);
        command.args(self.options).envs(self.env).current_dir(self.cwd);
        command.stdin(self.stdin.map_or_else(Stdio::null, Stdio::from));
        command
    }
}

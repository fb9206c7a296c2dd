//! The host goes on living while a command tries to write what is protected.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Running, Sandbox, eventually, need, python, real_home, size};

/// Tries every way of writing the protected names without end, until `stop` appears, and counts its rounds.
const WRITER: &str = "import os, time
def attempt(what, *args):
    try: return what(*args)
    except OSError: return None
def put(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644); os.write(fd, b'EVIL'); os.close(fd)
NAMES = ['.mcp.json', '.claude/hooks/hook', '.claude/settings.json', '.envrc', 'deep/er/secret', 'deep/er/new']
rounds = 0
while not os.path.exists('stop'):
    for name in NAMES:
        attempt(put, 'evil'); attempt(put, name); attempt(os.rename, 'evil', name); attempt(os.link, 'evil', name)
        attempt(os.symlink, 'evil', name); attempt(os.truncate, name, 0)
        attempt(put, 'free/x/evil'); attempt(os.rename, 'free/x/evil', name); attempt(os.chmod, name, 0o777)
    for name in ('.claude', '.claude/hooks', 'deep', 'deep/er'): attempt(os.rename, name, 'stolen'); attempt(os.symlink, 'free', name)
    rounds += 1
    attempt(put, 'rounds%d' % (rounds % 4))
print(rounds)";

struct Host {
    sandbox: Sandbox,
    running: Running,
}

impl Host {
    fn start() -> Option<Self> {
        if !need("python3") || !need("git") {
            return None;
        }
        let sandbox = Sandbox::below(real_home());
        for name in [".mcp.json", ".claude/hooks/hook", "deep/er/secret", "free/x/file", "tracked"] {
            sandbox.file(name, "good");
        }
        sandbox.script("git init -q . && git config user.name t && git config user.email t@t && git add -A && git commit -qm one").ok();
        let dir = sandbox.project.join("deep/er");
        let run = sandbox.run().read(dir.join("secret")).read(dir.join("new"));
        let running = run.spawn(python(WRITER));
        let host = Self { sandbox, running };
        host.round();
        Some(host)
    }

    /// The command has gone round once more.
    fn round(&self) {
        let time = |n: usize| {
            fs::metadata(self.sandbox.project.join(format!("rounds{n}"))).and_then(|meta| meta.modified()).ok()
        };
        let newest = || (0..4).filter_map(time).max();
        let before = newest();
        eventually("another round of the command", || (newest() > before).then_some(()));
    }

    /// Does something on the host again and again, and looks for what the command wrote after each time.
    fn does(mut self, script: &str) {
        let end = Instant::now() + Duration::from_millis(size(2_000, 30_000) as u64);
        while Instant::now() < end {
            self.sandbox.script(script).ok();
            self.innocent();
            assert!(!self.running.ended(), "the run ended: {}", self.running.wait().describe());
        }
        self.round();
        self.sandbox.file("stop", "");
        self.running.wait().ok();
        self.innocent();
    }

    fn innocent(&self) {
        for name in
            [".mcp.json", ".claude/hooks", ".claude/settings.json", ".envrc", "deep/er/secret", "deep/er/new", "stolen"]
        {
            let path = self.sandbox.project.join(name);
            assert!(!path.is_symlink(), "{name} is a link");
            assert!(!holds(&path, "EVIL"), "{name} was written");
        }
    }
}

/// Does a file, or any file below a directory, contain this?
fn holds(path: &Path, text: &str) -> bool {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().any(|entry| holds(&entry.path(), text)),
        Err(_) => fs::read_to_string(path).is_ok_and(|content| content.contains(text)),
    }
}

#[test]
fn renames_over_a_protected_file() {
    let Some(host) = Host::start() else { return };
    host.does("for f in .mcp.json .claude/hooks/hook deep/er/secret; do echo fresh > ../new; mv ../new $f; done");
}

#[test]
fn removes_and_makes_a_protected_file() {
    let Some(host) = Host::start() else { return };
    host.does("for f in .mcp.json .envrc .claude/settings.json deep/er/new deep/er/secret; do rm -f $f; sleep 0.01; echo fresh > ../n; mv ../n $f; rm -f $f; done");
}

#[test]
fn renames_and_makes_the_directory_of_a_protected_file() {
    let Some(host) = Host::start() else { return };
    host.does(
        "mv .claude ../away; sleep 0.01; mkdir -p ../fresh/hooks; echo fresh > ../fresh/hooks/hook; mv -T ../fresh .claude 2>/dev/null || { rm -rf ../fresh; rmdir .claude; }
         mv deep ../deeper; sleep 0.01; rm -rf deep; mv ../deeper deep; rm -rf .claude; mv ../away .claude",
    );
}

#[test]
fn removes_and_makes_the_directory_of_a_protected_file() {
    let Some(host) = Host::start() else { return };
    host.does("rm -rf deep .claude 2>/dev/null; sleep 0.005; mkdir -p ../d/er ../c/hooks; echo fresh > ../d/er/secret; echo fresh > ../c/hooks/hook; rm -rf deep .claude; mv -T ../d deep || rm -rf ../d; mv -T ../c .claude || rm -rf ../c; true");
}

#[test]
fn renames_and_makes_a_free_directory() {
    let Some(host) = Host::start() else { return };
    host.does("mv free ../gone; mkdir free; mkdir free/x; sleep 0.01; rm -rf free; mv -T ../gone free 2>/dev/null || rm -rf ../gone; mkdir -p free/x");
}

#[test]
fn switches_branches() {
    let Some(host) = Host::start() else { return };
    host.does(
        "git -c core.fsmonitor=false stash -qu >/dev/null 2>&1; git branch -f other; git checkout -q -f other; git checkout -q -f -; git checkout -q -f HEAD -- . ; git stash drop -q >/dev/null 2>&1; true",
    );
}

#[test]
fn cleans() {
    let Some(host) = Host::start() else { return };
    host.does("git clean -qfdx -e 'rounds*'; mkdir -p free/x; git checkout -q -f HEAD -- . || true");
}

#[test]
fn changes_the_repositorys_configuration() {
    let Some(host) = Host::start() else { return };
    host.does("git config test.value $$ && git config --get test.value >/dev/null && git config --unset test.value");
}

/// The mount of a free directory goes with it; that must not be the end of the run.
#[test]
fn free_directories_come_and_go_inside() {
    let sandbox = Sandbox::below(real_home());
    for n in 0..20 {
        sandbox.file(&format!("d{n}/e/file"), "x");
    }
    let script = "sleep 0.4; for n in 0 1 2 3 4 5 6 7 8 9; do rm -rf d$n; mv d1$n moved$n; mkdir d$n; echo x > d$n/x; done; sleep 0.4
        for n in 0 1 2 3 4 5 6 7 8 9; do echo y > moved$n/y; rm -rf moved$n d$n; done; sleep 0.4; echo end";
    sandbox.sh(script).ok().prints("end");
}

/// Opening a leased file waits for its holder, up to 45 s; the broker must not, others wait for it.
#[test]
fn a_lease_held_outside_keeps_nobody_waiting() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    sandbox.file("leased", "");
    // The command runs while the lease is held, in one process tree outside.
    let program = "import errno, fcntl, os, signal, subprocess, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = os.open('leased', os.O_RDWR)
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
inside = '''import os
for attempt in (lambda: os.close(os.open('leased', os.O_WRONLY)), lambda: os.truncate('leased', 3)):
    try: attempt(); print('waited')
    except BlockingIOError: print('refused')
open('other', 'w').close()'''
sys.exit(subprocess.run([os.environ['SK'], 'run', '--no-config', '--', sys.executable, '-c', inside]).returncode)";
    sandbox.outside(&python(program)).ok().prints("refused\nrefused");
}

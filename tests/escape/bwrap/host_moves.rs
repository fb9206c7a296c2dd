//! The host moves a directory that is mounted writable to a protected name, or out of everything that is bound.

use std::fs;

use super::{evil, innocent, project, sandboxed};
use crate::support::{PYTHON, Sandbox, eventually, need, nested};

/// Waits for what the host does, and tries to write there: by path, and by what it has open.
const WRITER: &str = "import os, sys, time
dir, to = sys.argv[1:]
time.sleep(float(os.environ.get('WAIT', '0')))
if not os.path.isdir(dir): os.mkdir(dir)
held = os.open(dir, os.O_RDONLY); open(dir + '/ready', 'w').close()
while not os.path.exists('moved'): time.sleep(0.005)
time.sleep(0.5)
for what in lambda: os.open('evil', os.O_CREAT | os.O_WRONLY, dir_fd=held), lambda: open(to + '/evil', 'w'):
    try: what(); print('written')
    except OSError as error: print(error.strerror)";

/// The sandbox is ended if the directory is a mount, and nothing was written.
fn moved(sandbox: &Sandbox, wait: &str, inner: bool, (dir, moves, to): (&str, &str, &str)) {
    let below = dir.strip_prefix(moves).unwrap();
    let program = sandbox.file_beside("writer.py", WRITER);
    let to_dir = format!("{to}{below}");
    let argv = vec![PYTHON, program.to_str().unwrap(), dir, &to_dir];
    let argv = if inner { nested(&argv) } else { argv };
    let mut running = sandboxed(sandbox).options(["--setenv", "WAIT", wait]).spawn(argv);
    eventually("it works", || sandbox.project.join(dir).join("ready").exists().then_some(()));
    fs::rename(sandbox.project.join(moves), sandbox.project.join(to)).unwrap();
    sandbox.file("moved", "");
    let done = running.wait();
    // What is made in an inner namespace is no mount: the broker serves it, and it is served as what it is now.
    let done = if inner && dir == "new" {
        done.ok().prints("Read-only file system\nRead-only file system")
    } else {
        done.status(1).says("was moved on the host to where not all may be written")
    };
    assert!(!done.out.contains("written"), "{}", done.describe());
    assert!(!evil(&sandbox.project.join(to)), "{dir} {to}");
    innocent(sandbox);
}

#[test]
fn what_it_holds_cannot_be_written_there() {
    if !need("userns") || !need("python3") {
        return;
    }
    for wait in ["0", "0.6"] {
        for inner in [false, true] {
            moved(&project(), wait, inner, ("src", "src", ".vscode"));
            moved(&project(), wait, inner, ("src", "src", "../away"));
            moved(&project(), wait, inner, ("a/free", "a", ".vscode"));
            // Made by the command.
            moved(&project(), wait, inner, ("new", "new", ".vscode"));
        }
    }
}

#[test]
fn where_all_may_be_written_it_goes_on() {
    if !need("userns") || !need("python3") {
        return;
    }
    let sandbox = project();
    let program = sandbox.file_beside("writer.py", WRITER);
    let mut running = sandboxed(&sandbox).spawn([PYTHON, program.to_str().unwrap(), "src", "lib/src"]);
    eventually("it works", || sandbox.project.join("src/ready").exists().then_some(()));
    fs::rename(sandbox.project.join("src"), sandbox.project.join("lib/src")).unwrap();
    fs::remove_dir_all(sandbox.project.join("a/free")).unwrap();
    sandbox.file("moved", "");
    running.wait().ok().prints("written\nwritten");
}

//! A directory that a command makes is mounted writable before the command goes on.

use std::fs;

use crate::support::{Sandbox, entries, eventually, need, python, works_unanswered};

/// Prints how many mounts there are at and below the project.
const MOUNTS: &str = "grep -c \" $PWD/\" /proc/self/mountinfo || :";

#[test]
fn a_new_directory_is_mounted_and_one_that_may_hold_a_guarded_name_is_not() {
    let sandbox = Sandbox::new();
    sandbox.sh(&format!("mkdir d; touch d/x; mkdir d/e; {MOUNTS}")).ok().prints("1");
    sandbox.sh(&format!("mkdir .claude; {MOUNTS}")).ok().prints("1");
    sandbox.sh("echo x > .claude/settings.json").fails().says("Read-only file system");
    sandbox.sh("mkdir n; mkdir n/hooks; mv n/hooks .claude/hooks").fails();
    assert_eq!(entries(&sandbox.project.join(".claude")).len(), 0);
}

/// The supervisor is stopped: nobody can make anything for the command.
#[test]
fn what_is_made_in_it_costs_no_question() {
    if !need("python3") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "import os, time
os.mkdir('new'); os.mkdir('new/ready')
while not os.path.exists('new/go'): time.sleep(0.01)
os.makedirs('new/a/b'); open('new/a/b/c', 'w').close(); os.mkdir('new/done')";
    works_unanswered(&sandbox, script, ["new/ready", "new/go", "new/done"]);
    assert!(sandbox.project.join("new/a/b/c").exists());
}

#[test]
fn it_can_be_renamed_moved_exchanged_and_removed_at_once() {
    let sandbox = Sandbox::new();
    let script = "set -e; for n in 1 2 3 4 5 6 7 8 9 10; do
        mkdir a b; touch a/x b/y; mv a b/a; rm -r b/a; mkdir c; mv b c; rm -r c/b; mv c d; touch d/z; mv d/z .; rmdir d; rm z
        mkdir -p e/f/g; mv e/f .; touch f/g/h; rm -r e f; done; ls -A";
    sandbox.sh(script).ok().prints("");
    if need("python3") {
        let exchange = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for n in range(20):
    os.mkdir('a'); os.mkdir('b'); open('a/in-a', 'w').close()
    assert libc.renameat2(-100, b'a', -100, b'b', 2) == 0, ctypes.get_errno()
    open('b/more', 'w').close(); open('a/other', 'w').close()
    assert sorted(os.listdir('b')) == ['in-a', 'more'], os.listdir('b')
    for d in 'a', 'b':
        for f in os.listdir(d): os.unlink(f'{d}/{f}')
        os.rmdir(d)";
        sandbox.run().python(exchange).ok();
    }
    assert_eq!(entries(&sandbox.project).len(), 0);
}

/// Made at any time of the run: before the watching begins, and after. The command works in it, with and without a file
/// open for writing.
#[test]
fn one_that_the_host_moves_to_a_guarded_name_cannot_be_written_there() {
    if !need("python3") {
        return;
    }
    for (options, wait, opens) in [
        (&[][..], 0.0, false),
        (&[], 0.6, false),
        (&["--strict"], 0.0, false),
        (&["--strict"], 0.6, false),
        (&[], 0.6, true),
    ] {
        let sandbox = Sandbox::new();
        let open = if opens { "held = open('new/held', 'w')" } else { "" };
        let script = format!(
            "import os, time
time.sleep({wait}); os.mkdir('new'); d = os.open('new', os.O_RDONLY); open('new/ready', 'w').close(); {open}
p = os.getcwd(); os.chdir('new')
while not os.path.exists(p + '/.vscode'): time.sleep(0.005)
time.sleep(0.5)
for what in lambda: open('tasks.json', 'w'), lambda: open(p + '/.vscode/tasks.json', 'w'), lambda: os.open('tasks.json', os.O_CREAT | os.O_RDWR, dir_fd=d):
    try: what(); print('written')
    except OSError as error: print(error.strerror)"
        );
        let mut running = sandbox.run().options(options).spawn(python(&script));
        eventually("it was made", || sandbox.project.join("new/ready").exists().then_some(()));
        fs::rename(sandbox.project.join("new"), sandbox.project.join(".vscode")).unwrap();
        let done = running.wait();
        if options.is_empty() && !opens {
            assert_eq!(done.out.lines().collect::<Vec<_>>(), ["Read-only file system"; 3], "{}", done.describe());
        } else {
            done.refused().says("was moved on the host");
        }
        assert!(!sandbox.project.join(".vscode/tasks.json").exists(), "{options:?} {wait} {opens}");
    }
}

/// Who has a directory open that may be written may write there wherever it goes: it goes to such places only.
#[test]
fn one_that_is_open_does_not_go_where_a_pattern_protects_names() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("x/z", "");
    let script = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(old, new, flags=0):
    print(errno(libc.renameat2(-100, old.encode(), -100, new.encode(), flags)))
def errno(result): return 'moved' if result == 0 else os.strerror(ctypes.get_errno())
os.makedirs('b/a'); d = os.open('b/a', os.O_RDONLY); attempt('b/a', 'x/a')
os.mkdir('c'); e = os.open('c', os.O_RDONLY); log = open('c/log', 'w'); attempt('c', 'x/c'); attempt('c', 'b/c'); attempt('b/c', 'x/c')
attempt('b/a', 'x/z', 2); os.mkdir('x/d'); attempt('x/d', 'c2')
open('b/f', 'w').close(); attempt('b/f', 'x/f')";
    let run = sandbox.run().options(["--read", "$PROJECT/x/**/y"]).python(script).ok();
    let cross = "Invalid cross-device link";
    assert_eq!(
        run.out.lines().collect::<Vec<_>>(),
        [cross, cross, "moved", cross, cross, "Read-only file system", cross],
        "{}",
        run.describe()
    );
    // As a copy it goes.
    sandbox.run().options(["--read", "$PROJECT/x/**/y"]).sh("mkdir n; touch n/f; mv n x/n; ls x/n").ok().prints("f");
}

#[test]
fn more_of_them_than_are_mounted_work() {
    let sandbox = Sandbox::new();
    let script = "for n in $(seq 300); do mkdir d$n && touch d$n/f || exit; done; ls | wc -l";
    sandbox.sh(&format!("{script}; {MOUNTS}; rm -r d*; ls -A | wc -l")).ok().prints("300\n256\n0");
}

//! A directory that a command makes is mounted writable before the command goes on.

use std::fs;

use rustix::process::Signal;

use crate::support::{Sandbox, entries, eventually, need, python};

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
    let mut running = sandbox.run().spawn(python(script));
    let exists = |name: &str| sandbox.project.join(name).exists().then_some(());
    eventually("the program runs", || exists("new/ready"));
    running.signal(Signal::STOP);
    fs::write(sandbox.project.join("new/go"), "").unwrap();
    eventually("it is done", || exists("new/done"));
    running.signal(Signal::CONT);
    running.wait().ok();
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

#[test]
fn one_that_the_host_moves_to_a_guarded_name_cannot_be_written_there() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "import os, time
os.mkdir('new'); open('new/ready', 'w').close()
while not os.path.exists('.vscode'): time.sleep(0.005)
end = time.time() + 60
while time.time() < end:
    try: open('.vscode/tasks.json', 'w').close()
    except OSError as error: print(error.strerror); break
    os.unlink('.vscode/tasks.json'); time.sleep(0.005)";
    let mut running = sandbox.run().spawn(python(script));
    eventually("it was made", || sandbox.project.join("new/ready").exists().then_some(()));
    fs::rename(sandbox.project.join("new"), sandbox.project.join(".vscode")).unwrap();
    let done = running.wait();
    assert_eq!(done.out.trim(), "Read-only file system", "{}", done.err);
}

#[test]
fn more_of_them_than_are_mounted_work() {
    let sandbox = Sandbox::new();
    let script = "for n in $(seq 300); do mkdir d$n && touch d$n/f || exit; done; ls | wc -l";
    sandbox.sh(&format!("{script}; {MOUNTS}; rm -r d*; ls -A | wc -l")).ok().prints("300\n256\n0");
}

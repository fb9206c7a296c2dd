//! Whose a session is, when it goes away, what its runs share, and what goes in and out of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::support::{Sandbox, alive, eventually, unique};

fn session(sandbox: &Sandbox, args: &[&str]) -> crate::support::Outcome {
    let words: Vec<&str> = ["session"].iter().chain(args).copied().collect();
    sandbox.stockade(&words).plain()
}

fn none() -> Vec<PathBuf> {
    Vec::new()
}

#[test]
fn a_session_ends_after_its_owner() {
    let sandbox = Sandbox::new();
    let mut owner = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = owner.id().to_string();
    session(&sandbox, &["start", "s1", "--owner", &pid]).ok().prints("s1");
    sandbox.run().session("s1").sh("echo v > /tmp/x").ok();
    let gc = || sandbox.stockade(&["gc"]).plain().ok();
    gc().prints("");
    session(&sandbox, &["show", "s1"]).ok().shows(&format!("process {pid}, alive")).shows("/tmp");
    owner.kill().unwrap();
    owner.wait().unwrap();
    let mut run = sandbox.run().session("s1").spawn(["sh", "-c", "touch started; exec sleep 1000"]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    gc().prints("");
    run.signal(rustix::process::Signal::TERM);
    run.wait().status(143);
    sandbox.stockade(&["gc", "--dry-run"]).plain().ok().shows("would remove session s1: its owner is gone");
    gc().shows("removed session s1");
    assert_eq!(sandbox.left_behind(), none());
}

#[test]
fn an_owner_that_is_not_there_is_refused() {
    let sandbox = Sandbox::new();
    session(&sandbox, &["start", "s1", "--owner", "4194304"]).refused().says("4194304");
    sandbox.run().options(["--owner", "1"]).argv(["true"]).refused().says("--session");
}

#[test]
fn start_makes_an_id_up() {
    let sandbox = Sandbox::new();
    let id = session(&sandbox, &["start"]).ok().out;
    sandbox.run().session(id.trim()).argv(["true"]).ok();
    session(&sandbox, &["list"]).ok().shows(id.trim());
}

#[test]
fn a_child_shares_its_parents_directories_and_keeps_it_alive() {
    let sandbox = Sandbox::new();
    let seconds = format!("8{}", unique());
    sandbox.run().session("top").sh("echo v > /tmp/x").ok();
    let child = || sandbox.run().options(["--parent", "top"]);
    child().session("sub").sh("cat /tmp/x; echo w > /tmp/y").ok().prints("v");
    // A run of its own can be a child too.
    child().sh("cat /tmp/x").ok().prints("v");
    sandbox.run().session("top").sh("cat /tmp/y").ok().prints("w");
    let mut run = child().session("sub").spawn(["sh", "-c", &format!("touch started; exec sleep {seconds}")]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    session(&sandbox, &["end", "top"]).refused().says("sleep").says("process");
    session(&sandbox, &["end", "--kill", "top"]).ok();
    run.wait().fails();
    eventually("no process", || alive(&format!("sleep {seconds}")).is_empty().then_some(()));
    assert_eq!(sandbox.left_behind(), none());
}

#[test]
fn end_can_wait() {
    let sandbox = Sandbox::new();
    let mut run =
        sandbox.run().session("s1").spawn(["sh", "-c", "touch started; sleep 0.3; echo v > /tmp/x; cat /tmp/x"]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    session(&sandbox, &["end", "--wait", "s1"]).ok();
    run.wait().ok().prints("v");
    assert_eq!(sandbox.left_behind(), none());
}

#[test]
fn records_of_other_boots_and_machines() {
    let sandbox = Sandbox::new();
    for id in ["old", "torn", "new"] {
        sandbox.run().session(id).argv(["true"]).ok();
    }
    let path = |id: &str| PathBuf::from(session(&sandbox, &["path", id]).ok().out.trim_end()).join("record.json");
    let record = fs::read_to_string(path("old")).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(path("old"), record.replace(boot.trim(), "another-boot")).unwrap();
    fs::write(path("torn"), &record[..20]).unwrap();
    fs::write(path("new"), "{\"schema\": 99}").unwrap();
    let elsewhere = sandbox.state.join("another-machine/sessions/old");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("record.json"), &record).unwrap();
    let gc = sandbox.stockade(&["gc"]).plain().ok();
    gc.shows("removed session old: the machine was restarted since").says("torn").says("newer stockade");
    assert!(elsewhere.join("record.json").exists());
}

#[test]
fn copying_in_and_out() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("in.txt", "content");
    sandbox.run().session("s1").sh("mkdir -p /tmp/d/e; echo f > /tmp/d/e/f; ln -s /etc /tmp/d/l; mkfifo /tmp/d/p").ok();
    let cp = |from: &str, to: &str| session(&sandbox, &["cp", from, to]);
    cp(file.to_str().unwrap(), "s1:/tmp/x").ok();
    sandbox.run().session("s1").argv(["cat", "/tmp/x"]).ok().prints("content");
    cp("s1:/tmp/x", "out.txt").ok();
    assert_eq!(fs::read_to_string(sandbox.project.join("out.txt")).unwrap(), "content");
    cp("s1:/tmp/d", "out").status(1).says("/tmp/d/p");
    assert_eq!(fs::read_to_string(sandbox.project.join("out/e/f")).unwrap(), "f\n");
    assert_eq!(fs::read_link(sandbox.project.join("out/l")).unwrap(), PathBuf::from("/etc"));
    cp("out", "s1:/tmp/d").ok();
    sandbox.run().session("s1").argv(["cat", "/tmp/d/out/e/f"]).ok().prints("f");
    cp("s1:/etc/passwd", "passwd").refused().says("/tmp");
    cp("a", "b").refused();
}

#[test]
fn copying_follows_no_link() {
    let sandbox = Sandbox::new();
    let secret = sandbox.file_beside("secret/file", "secret");
    let dir = secret.parent().unwrap();
    let script = format!("ln -s {0} /tmp/dir; ln -s {0}/file /tmp/file; ln -s {0}/made /tmp/made", dir.display());
    sandbox.run().session("s1").sh(&script).ok();
    let cp = |from: &str, to: &str| session(&sandbox, &["cp", from, to]);
    cp("s1:/tmp/dir/file", "got").refused().says("symbolic link");
    cp("s1:/tmp/file", "got").ok();
    assert!(sandbox.project.join("got").is_symlink());
    let new = sandbox.file("new", "new");
    for to in ["s1:/tmp/dir/file", "s1:/tmp/file", "s1:/tmp/made", "s1:/tmp/dir"] {
        let _ = cp(new.to_str().unwrap(), to);
    }
    // On the host too: the session could have made a link in the project.
    symlink(dir, sandbox.project.join("planted")).unwrap();
    symlink(dir.join("file"), sandbox.project.join("planted-file")).unwrap();
    sandbox.run().session("s1").sh("echo x > /tmp/x").ok();
    for to in ["planted", "planted/file", "planted-file"] {
        cp("s1:/tmp/x", to).refused().says("symbolic link");
    }
    cp("planted/file", "s1:/tmp/leak").refused();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
}

const SERVER: &str = "import socket
s = socket.create_server(('127.0.0.1', 8765))
print('listening', flush=True)
while True:
    c, _ = s.accept(); c.sendall(b'hello'); c.close()
";
const CLIENT: &str = "import socket
print(socket.create_connection(('127.0.0.1', 8765), 5).recv(9).decode())
";

#[test]
fn a_command_reaches_a_server_of_its_sessions_job() {
    let sandbox = Sandbox::new();
    let job = |session: &str| {
        let run = sandbox.run().option("--detach").session(session);
        let id = run.python(SERVER).ok().out.trim().to_owned();
        eventually("the server", || {
            sandbox.stockade(&["job", "logs", &id]).plain().ok().out.contains("listening").then_some(())
        });
        id
    };
    let id = job("s1");
    let test = |session: &str| sandbox.run().session(session).python(CLIENT);
    test("s1").ok().prints("hello");
    // Another session has another network, and so has a run of its own.
    test("s2").fails();
    sandbox.run().python(CLIENT).fails();
    // A child is in its parent's.
    sandbox.run().options(["--parent", "s1"]).python(CLIENT).ok().prints("hello");
    job("s2");
    test("s2").ok();
    // The first of a session may go, the others stay together.
    let run = sandbox.run().session("s1").option("--detach").argv(["sleep", "1000"]).ok().out.trim().to_owned();
    sandbox.stockade(&["job", "kill", &id]).plain().ok();
    let _ = job("s1");
    sandbox.stockade(&["job", "kill", &run]).plain().ok();
    test("s1").ok().prints("hello");
    // Nobody in it has power over it, or over the others.
    sandbox.run().session("s1").argv(["ip", "link", "set", "lo", "down"]).fails();
    test("s1").ok().prints("hello");
    for session in ["s1", "s2"] {
        self::session(&sandbox, &["end", "--kill", session]).ok();
    }
    assert_eq!(sandbox.left_behind(), none());
}

#[test]
fn runs_of_a_session_share_a_network_and_nothing_else() {
    let sandbox = Sandbox::new();
    let show = "for n in net user pid mnt ipc uts; do readlink /proc/self/ns/$n; done";
    let mut first = sandbox.run().session("s1").spawn(["sh", "-c", &format!("{show}; touch started; exec sleep 1000")]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    let second = sandbox.run().session("s1").sh(show).ok().out;
    first.signal(rustix::process::Signal::TERM);
    let first = first.wait().out;
    let both: Vec<(&str, &str)> = first.lines().zip(second.lines()).collect();
    assert_eq!(both.len(), 6, "{first}{second}");
    assert_eq!(both[0].0, both[0].1);
    assert!(both[1..].iter().all(|(a, b)| a != b), "{both:?}");
}

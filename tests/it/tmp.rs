//! `/tmp` and `/var/tmp` belong to the session.

use std::fs;
use std::path::Path;

use crate::support::{PYTHON, Sandbox, need, python, unique};

#[test]
fn a_run_without_a_session_starts_with_an_empty_tmp() {
    let sandbox = Sandbox::new();
    let name = format!("secret{}", unique());
    sandbox.sh(&format!("echo secret > /tmp/{name}; ls -A /tmp")).ok().prints(&name);
    assert!(!Path::new("/tmp").join(name).exists());
    sandbox.run().argv(["ls", "-A", "/tmp"]).ok().prints("");
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_the_host_has_in_tmp_is_out_of_sight() {
    let sandbox = Sandbox::new();
    let other = Sandbox::below("/tmp");
    let secret = other.file_beside("secret", "host");
    sandbox.run().argv(["cat".as_ref(), secret.as_os_str()]).status(1).prints("").says("No such file");
}

#[test]
fn it_is_writable_at_every_name() {
    let script = "set -e; test \"$TMPDIR\" = /tmp; f=$(mktemp); d=$(mktemp -d); echo x > \"$f\"; rm -r \"$f\" \"$d\"
        unset TMPDIR; for dir in /tmp /var/tmp; do echo x > $dir/f; rm $dir/f; done; stat -c %a /tmp /var/tmp";
    let outcome = Sandbox::new().sh(script).ok();
    for mode in outcome.out.lines() {
        assert!(mode == "1777" || mode == "700", "mode {mode}");
    }
}

#[test]
fn here_documents_work_in_every_shell() {
    let sandbox = Sandbox::new();
    let large = "x".repeat(100_000);
    sandbox.file("large.sh", &format!("cat <<E\n{large}\nE\n"));
    for shell in ["sh", "bash", "dash", "zsh"] {
        if sandbox.outside(&["sh", "-c", &format!("command -v {shell}")]).code == 0 {
            sandbox.run().argv([shell, "large.sh"]).ok().prints(&large);
        }
    }
}

#[test]
fn a_socket_path_of_a_temporary_directory_is_short_enough() {
    if need("python3") {
        let program = "import os, socket, tempfile\nd = os.path.join(os.environ['TMPDIR'], 'x' * 80)\nos.mkdir(d)\n\
            s = socket.socket(socket.AF_UNIX); s.bind(d + '/socket'); s.listen()\n\
            c = socket.socket(socket.AF_UNIX); c.connect(d + '/socket')";
        Sandbox::new().run().python(program).ok();
    }
}

#[test]
fn two_sessions_use_the_same_name_at_once() {
    let sandbox = Sandbox::new();
    let script = "mkfifo /tmp/fifo && touch $1 && until test -e $2; do sleep .02; done";
    let one = ["sh", "-c", script, "sh", "one", "two"];
    let two = ["sh", "-c", script, "sh", "two", "one"];
    let mut first = sandbox.run().session("a").spawn(one);
    let mut second = sandbox.run().session("b").spawn(two);
    first.wait().ok();
    second.wait().ok();
}

#[test]
fn a_project_below_tmp_stays_where_it_is() {
    for below in ["/tmp", "/var/tmp"] {
        let sandbox = Sandbox::below(below);
        sandbox.file("a", "here\n");
        let beside = sandbox.file_beside("b", "hidden");
        let script = format!("cat a; pwd; echo new > c; test ! -e '{}'; echo x > /tmp/x", beside.display());
        sandbox.sh(&script).ok().prints(&format!("here\n{}", sandbox.project.display()));
        assert_eq!(fs::read_to_string(sandbox.project.join("c")).unwrap(), "new\n");
    }
}

#[test]
fn a_named_path_below_tmp_is_seen_with_its_own_access() {
    let sandbox = Sandbox::new();
    let other = Sandbox::below("/tmp");
    let seen = other.file_beside("seen", "seen");
    let script = format!("cat {0}; echo x > {0}", seen.display());
    sandbox.run().read(&seen).sh(&script).fails().prints("seen").says("Read-only file system");
    assert_eq!(fs::read_to_string(seen).unwrap(), "seen");
}

#[test]
fn a_private_directory_of_ones_own_belongs_to_the_session() {
    let sandbox = Sandbox::new();
    let dir = sandbox.project.join("cache");
    fs::create_dir(&dir).unwrap();
    let run = || sandbox.run().session("s").option("--private").option(&dir);
    let outcome = run().sh("echo kept > cache/f");
    if outcome.code == 125 {
        outcome.says("private"); // a stricter rule inside a writable place may be refused, with its origin
        return;
    }
    assert!(!dir.join("f").exists());
    run().sh("cat cache/f").ok().prints("kept");
}

#[test]
fn host_tmp_may_be_a_link() {
    if !need("userns") {
        return;
    }
    let (sandbox, _) = Sandbox::below(crate::support::real_home()).own_binary();
    let marker = sandbox.file_beside("elsewhere/host", "x");
    // A root directory in which /tmp is a link, made of the host's own directories.
    let script = "set -e; mkdir root; mount -t tmpfs t root; cd root; mkdir -p proc dev etc usr var/lib
        for d in bin sbin lib lib32 lib64 libx32 opt sys run root home; do [ -e /$d ] || continue
        [ -L /$d ] && cp -d /$d . || { mkdir $d; mount --rbind /$d $d; }; done
        for d in proc dev etc usr; do mount --rbind /$d $d; done; mkdir -p var/elsewhere var/tmp; ln -s var/elsewhere tmp
        mkdir -p .$PWD_OUT; [ -e .$PWD_OUT/p ] || mount --rbind $PWD_OUT .$PWD_OUT; echo host > var/elsewhere/host
        mkdir old; pivot_root . old; umount -l old; cd /
        exec sh -c 'cd $PWD_OUT/p; exec $SK run --no-config -- sh -c \"echo x > /tmp/mine; ls -A /tmp\"'";
    let base = marker.parent().unwrap().parent().unwrap().display().to_string();
    let script = format!("PWD_OUT={base}; export PWD_OUT; cd {base}; {script}");
    sandbox.outside(&["unshare", "-Urm", "sh", "-c", &script]).ok().prints("mine");
}

#[test]
fn mounts_below_host_tmp_are_no_obstacle() {
    if !need("userns") {
        return;
    }
    let sandbox = Sandbox::new();
    let below = Sandbox::below("/tmp").beside("mounted");
    let dir = below.display();
    let script = format!("mkdir {dir} && mount -t tmpfs t {dir} && exec $SK run --no-config -- ls -A /tmp");
    let keep = Sandbox::below("/tmp");
    let dir = keep.beside("mounted").display().to_string();
    let script = script.replace(&below.display().to_string(), &dir);
    sandbox.outside(&["unshare", "-Urm", "sh", "-c", &script]).ok().prints("");
}

#[test]
fn multiprocessing_and_shared_memory_work() {
    if need("python3") {
        let program = "import multiprocessing as m, os\nm.Lock(); os.openpty(); open('/dev/full').close()\n\
            open('/dev/shm/x', 'w').write('x'); assert open('/dev/urandom', 'rb').read(1)";
        Sandbox::new().run().argv(python(program)).ok();
        assert_eq!(PYTHON, "/usr/bin/python3");
    }
}

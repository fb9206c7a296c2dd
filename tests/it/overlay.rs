//! Writes to an overlaid directory succeed, reach nobody else, and end with the run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Run, Sandbox, alive, eventually, is_root, need, real_home, size, unique};

fn overlay<'a>(run: Run<'a>, path: &Path) -> Run<'a> {
    run.option("--overlay").option(path)
}

/// Every path below a directory with its content, sorted.
fn snapshot(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(snapshot(&path));
            found.push((path, None));
        } else {
            let content = fs::read(&path).ok();
            found.push((path, content));
        }
    }
    found.sort();
    found
}

/// Below `/var/tmp`, where a directory of the session's own is around it, and below the home directory, where the host's is.
fn both() -> [Sandbox; 2] {
    [Sandbox::new(), Sandbox::below(real_home())]
}

#[test]
fn every_kind_of_write_succeeds_and_stays_inside() {
    for sandbox in both() {
        let lower = sandbox.file_beside("lower/sub/f", "old").parent().unwrap().parent().unwrap().to_owned();
        fs::write(lower.join("gone"), "x").unwrap();
        let before = snapshot(&lower);
        let script = format!(
            "set -e; cd {}; echo new > sub/f; cat sub/f; rm gone; test ! -e gone; mkdir d; mv sub/f d/g; ln d/g hard
             ln -s d/g soft; chmod 700 d; {}; mkfifo fifo; truncate -s 1M sparse; ls",
            lower.display(),
            // Before Linux 6.6 an overlay in memory cannot note that a directory hides another.
            if need("tmpfs_xattr") { "rm -r sub; mkdir sub; ls -A sub" } else { ":" }
        );
        let outcome = overlay(sandbox.run(), &lower).sh(&script).ok();
        assert_eq!(outcome.out, "new\nd\nfifo\nhard\nsoft\nsparse\nsub\n");
        assert_eq!(snapshot(&lower), before);
        assert_eq!(sandbox.left_behind(), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_next_run_sees_the_host_again_also_in_one_session() {
    let sandbox = Sandbox::new();
    let lower = sandbox.file_beside("lower/f", "old").parent().unwrap().to_owned();
    let script = format!("cat {0}/f; echo new > {0}/f", lower.display());
    for _ in 0..2 {
        overlay(sandbox.run().session("s"), &lower).sh(&script).ok().prints("old");
    }
}

#[test]
fn rules_below_an_overlay_hold() {
    for sandbox in both() {
        let lower = sandbox.file_beside("venv/bin/tool", "tool").parent().unwrap().parent().unwrap().to_owned();
        for dir in ["cache", "secret", "own"] {
            fs::create_dir(lower.join(dir)).unwrap();
        }
        fs::write(lower.join("secret/key"), "key").unwrap();
        let script = format!(
            "cd {}; echo c > cache/c; echo o > own/o; echo f > f; echo x > bin/tool; rm bin/tool; cat secret/key
             mv secret s2; rmdir cache; ls -A . own",
            lower.display()
        );
        let run = overlay(sandbox.run(), &lower).write(lower.join("cache")).read(lower.join("bin"));
        let run = run.hide(lower.join("secret")).option("--private").option(lower.join("own"));
        let outcome = run.sh(&script);
        assert_eq!(outcome.out, ".:\nbin\ncache\nf\nown\nsecret\n\nown:\no\n", "{}", outcome.describe());
        assert_eq!(fs::read_to_string(lower.join("cache/c")).unwrap(), "c\n");
        assert_eq!(fs::read_to_string(lower.join("bin/tool")).unwrap(), "tool");
        assert!(!lower.join("f").exists() && !lower.join("own/o").exists());
    }
}

#[test]
fn an_overlay_inside_a_guarded_project() {
    for sandbox in both() {
        sandbox.file(".venv/lib/m.py", "m");
        let script = "set -e; echo x > .venv/lib/new; rm .venv/lib/m.py; echo y > y; ls .venv/lib; ! mv .venv v2";
        sandbox.run().option("--overlay").option(".venv").sh(script).ok().prints("new");
        assert!(sandbox.project.join("y").exists());
        let left: Vec<_> = snapshot(&sandbox.project.join(".venv")).into_iter().map(|(path, _)| path).collect();
        assert_eq!(left, [sandbox.project.join(".venv/lib"), sandbox.project.join(".venv/lib/m.py")]);
    }
}

#[test]
fn two_sizes_nested() {
    let sandbox = Sandbox::new();
    let outer = sandbox.file_beside("outer/inner/f", "f").parent().unwrap().parent().unwrap().to_owned();
    let policy = format!(
        "[files]\noverlay = [{{ path = {0:?}, size = \"1M\" }}, {{ path = {1:?}, size = \"4M\" }}]\n",
        outer,
        outer.join("inner")
    );
    let script = format!("head -c 3000000 /dev/zero > {0}/inner/big && ls {0}/inner", outer.display());
    sandbox.run().policy(&policy).sh(&script).ok().prints("big\nf");
    let script = format!("head -c 3000000 /dev/zero > {0}/big", outer.display());
    sandbox.run().policy(&policy).sh(&script).fails().says("No space left");
}

#[test]
fn a_full_one_is_named_and_harms_nothing_else() {
    let sandbox = Sandbox::new();
    let (full, other) = (sandbox.file_beside("full/f", "f"), sandbox.file_beside("other/f", "f"));
    let policy = format!(
        "[files]\noverlay = [{{ path = {0:?}, size = \"1M\" }}, {1:?}]\n",
        full.parent().unwrap(),
        other.parent().unwrap()
    );
    let script = format!(
        "head -c 2000000 /dev/zero > {}; head -c 2000000 /dev/zero > {} && echo x > p && exit 3",
        full.display(),
        other.display()
    );
    let outcome = sandbox.run().policy(&policy).sh(&script).status(3).says("No space left").says("1 MiB");
    outcome.says(&full.parent().unwrap().display().to_string());
}

#[test]
fn the_limit_of_all_is_a_setting() {
    let sandbox = Sandbox::new();
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    let policy = format!("[overlay]\nsize = \"1M\"\n[files]\noverlay = [{lower:?}]\n");
    sandbox
        .run()
        .policy(&policy)
        .sh(&format!("head -c 2000000 /dev/zero > {}/b", lower.display()))
        .status(1)
        .says("1 MiB");
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    let file = sandbox.file_beside("file", "f");
    overlay(sandbox.run(), &file).argv(["true"]).refused().says("an overlay is of a directory");
    overlay(sandbox.run(), &file.with_file_name("absent")).argv(["true"]).refused().says("does not exist");
    overlay(sandbox.run(), Path::new("/sys")).argv(["true"]).refused().says("sysfs");
    overlay(sandbox.run(), Path::new("/proc/sys")).argv(["true"]).refused().says("/proc");
    let policy = format!("[files]\noverlay = [{{ path = {:?}, size = \"1M\", backing = \"disk\" }}]\n", sandbox.home);
    sandbox.run().policy(&policy).argv(["true"]).refused().says("cannot be limited");
}

#[test]
fn a_link_from_a_writable_place_is_not_followed() {
    let sandbox = Sandbox::new();
    symlink(&sandbox.home, sandbox.project.join("link")).unwrap();
    sandbox.run().option("--overlay").option("link").argv(["true"]).refused().says("follows the symbolic link");
}

#[test]
fn a_directory_with_a_mount_below_is_taken_apart() {
    if !need("root") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let lower = sandbox.file_beside("lower/plain/f", "f").parent().unwrap().parent().unwrap().to_owned();
    fs::create_dir_all(lower.join("way/mount")).unwrap();
    fs::create_dir(lower.join("way/side")).unwrap();
    let script = "mount -t tmpfs t $1/way/mount && echo m > $1/way/mount/m
        $SK run --no-config --overlay $1 -- sh -c 'cd $0; for d in plain way/mount way/side; do echo x > $d/x; cat $d/x; done
            cat way/mount/m; echo x > x || echo read-only; echo x > way/x || echo read-only' $1
        ls $1/way/mount; $SK explain --no-config --overlay $1 -- true | grep 'has mounts below'";
    let argv = ["unshare", "-m", "sh", "-c", script, "sh", lower.to_str().unwrap()];
    let outcome = sandbox.outside(&argv).ok();
    assert!(outcome.out.starts_with("x\nx\nx\nm\nread-only\nread-only\nm\nnote: "), "{}", outcome.describe());
}

#[test]
fn a_root_that_is_an_overlay_can_have_one_more() {
    if !need("root") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    let script = "set -e; mkdir -p /tmp/o; mount -t tmpfs t /tmp/o; mkdir /tmp/o/u /tmp/o/w /tmp/o/u2 /tmp/o/w2
        mount -t overlay o -o lowerdir=$1,upperdir=/tmp/o/u,workdir=/tmp/o/w $1
        $SK run --no-config --overlay $1 -- sh -c 'echo x > $0/x; cat $0/x' $1; ls $1
        mount -t overlay o -o lowerdir=$1,upperdir=/tmp/o/u2,workdir=/tmp/o/w2 $1
        $SK run --no-config --overlay $1 -- true";
    let argv = ["unshare", "-m", "sh", "-c", script, "sh", lower.to_str().unwrap()];
    sandbox.outside(&argv).status(125).prints("x\nf").says("cannot be a layer");
}

#[test]
fn concurrent_runs_do_not_see_each_other() {
    let sandbox = Sandbox::new();
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    thread::scope(|scope| {
        for number in 0..16 {
            let (sandbox, lower) = (&sandbox, &lower);
            let script = format!("cd {}; echo {number} > x; sleep 0.3; cat x; ls -A", lower.display());
            let session = format!("s{}", number % 2);
            scope.spawn(move || {
                overlay(sandbox.run().session(&session), lower).sh(&script).ok().prints(&format!("{number}\nf\nx"));
            });
        }
    });
    assert_eq!(fs::read_dir(&lower).unwrap().count(), 1);
}

#[test]
fn bytecode_of_many_runs_leaves_nothing() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let lower = sandbox.file_beside("venv/lib/m.py", "x = 1").parent().unwrap().to_owned();
    let before = snapshot(&lower);
    let program = format!("import sys, os; sys.path.insert(0, {lower:?}); import m; print(os.listdir({lower:?}))");
    overlay(sandbox.run().session("s"), &lower).python(&program).ok().shows("__pycache__");
    let state = snapshot(&sandbox.state).len();
    for _ in 0..size(30, 300) {
        overlay(sandbox.run().session("s"), &lower).python(&program).ok().shows("__pycache__");
    }
    assert_eq!(snapshot(&lower), before);
    assert_eq!(snapshot(&sandbox.state).len(), state);
}

#[test]
fn sigkill_leaves_nothing_in_memory_and_on_disk_nothing_after_the_next_run() {
    let sandbox = Sandbox::new();
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    let policy = |backing: &str| format!("[files]\noverlay = [{{ path = {lower:?}, backing = \"{backing}\" }}]\n");
    let mut random = std::process::id();
    for round in 0..size(20, 100) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let seconds = format!("7{}", unique());
        let script = format!("cd {}; mkdir -p d/e; touch d/e/f; chmod 0 d; sleep {seconds}", lower.display());
        let backing = if round % 2 == 0 { "memory" } else { "disk" };
        let mut run = sandbox.run().session("s").policy(&policy(backing)).spawn(["sh", "-c", &script]);
        thread::sleep(Duration::from_micros(u64::from(random >> 16)));
        run.signal(Signal::KILL);
        run.wait().status(1009);
        eventually("no process lives", || (alive(&sandbox.marker).is_empty()).then_some(()));
    }
    sandbox.run().session("s").argv(["true"]).ok();
    let session = PathBuf::from(sandbox.stockade(&["session", "path", "s"]).plain().ok().out.trim());
    assert_eq!(snapshot(&session.join("runs")), []);
    assert_eq!(fs::read_dir(&lower).unwrap().count(), 1);
}

#[test]
fn disk_backing_is_gone_at_the_end() {
    let sandbox = Sandbox::below(real_home());
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    let policy = format!("[files]\noverlay = [{{ path = {lower:?}, backing = \"disk\" }}]\n");
    let script = format!("cd {}; echo x > f; cat f; mkdir -m 0 d; touch g; chmod 0 g", lower.display());
    sandbox.run().policy(&policy).sh(&script).ok().prints("x");
    assert_eq!(sandbox.left_behind(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_to_string(lower.join("f")).unwrap(), "f");
}

#[test]
fn ownership_and_modes_are_as_below() {
    let sandbox = Sandbox::below(real_home());
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    fs::set_permissions(&lower, fs::Permissions::from_mode(0o751)).unwrap();
    let script = format!("stat -c '%a %U %Y' {0}", lower.display());
    let outside = sandbox.script(&script).ok().out;
    overlay(sandbox.run(), &lower).sh(&script).ok().prints(outside.trim());
    if !is_root() {
        overlay(sandbox.run(), Path::new("/usr")).sh("touch /usr/x").fails().says("Permission denied");
        let explained = sandbox.stockade(&["explain", "--no-config", "--overlay", "/usr", "--", "true"]).plain();
        explained.ok().shows("belongs to user 0");
    }
}

#[test]
fn redirect_lets_writes_succeed_where_only_reading_was_allowed() {
    let sandbox = Sandbox::below(real_home());
    let beside = sandbox.file_beside("dir/f", "f");
    let script = format!(
        "set -e; echo new > {0}; cat {0}; echo x > ~/dotfile; cat ~/dotfile; echo kept > in-project; echo x > /tmp/x
         ! echo x > /proc/sys/kernel/hostname",
        beside.display()
    );
    sandbox.run().option("--redirect").sh(&script).ok().prints("new\nx");
    assert_eq!(fs::read_to_string(&beside).unwrap(), "f");
    assert!(!sandbox.home.join("dotfile").exists());
    assert_eq!(fs::read_to_string(sandbox.project.join("in-project")).unwrap(), "kept\n");
    sandbox.run().policy("[files]\nredirect = true\n").sh("echo x > ~/dotfile; cat ~/dotfile").ok().prints("x");
}

#[test]
fn redirect_keeps_protected_names_and_secrets() {
    let sandbox = Sandbox::below(real_home());
    sandbox.file(".claude/hooks/h", "h");
    fs::create_dir(sandbox.home.join(".ssh")).unwrap();
    fs::write(sandbox.home.join(".ssh/id"), "key").unwrap();
    let script = "cat ~/.ssh/id; echo x > .claude/hooks/h; echo x > .mcp.json; ls -A";
    let outcome = sandbox.run().option("--redirect").sh(script);
    outcome.lacks("key").prints(".claude").says("Permission denied").says("Read-only");
    assert_eq!(fs::read_to_string(sandbox.project.join(".claude/hooks/h")).unwrap(), "h");
    assert!(!sandbox.project.join(".mcp.json").exists());
}

#[test]
fn caches_are_filled_and_never_change() {
    let sandbox = Sandbox::below(real_home());
    fs::create_dir_all(sandbox.home.join(".cache/pip")).unwrap();
    fs::write(sandbox.home.join(".cache/pip/wheel"), "wheel").unwrap();
    let script =
        "cat ~/.cache/pip/wheel; echo x > ~/.cache/pip/new; rm ~/.cache/pip/wheel; ls ~/.cache/pip; test ! -e ~/.npm";
    sandbox.run().option("--caches").sh(script).ok().prints("wheelnew");
    assert_eq!(fs::read_dir(sandbox.home.join(".cache/pip")).unwrap().count(), 1);
}

#[test]
fn a_writable_directory_below_an_overlay_that_the_host_moves_is_no_longer_reached() {
    let sandbox = Sandbox::below(real_home());
    let lower = sandbox.file_beside("lower/cache/f", "f").parent().unwrap().parent().unwrap().to_owned();
    let script =
        format!("touch started; while test ! -e go; do sleep 0.05; done; echo x > {}/cache/late", lower.display());
    let run = overlay(sandbox.run(), &lower).write(lower.join("cache"));
    let mut run = run.spawn(["sh", "-c", &script]);
    eventually("it runs", || sandbox.project.join("started").exists().then_some(()));
    // A run that lasts is watched, a short one is not.
    thread::sleep(Duration::from_millis(600));
    fs::rename(lower.join("cache"), lower.join("moved")).unwrap();
    thread::sleep(Duration::from_millis(600));
    sandbox.file("go", "");
    let _ = run.wait();
    assert!(!lower.join("moved/late").exists() && !lower.join("cache").exists());
}

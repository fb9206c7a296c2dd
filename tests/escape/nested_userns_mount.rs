//! A user namespace inside gives every capability over new mounts.

use crate::support::{Outcome, Sandbox, need, nested, real_home};

const WAYS: [&str; 4] = [
    "mkdir -p /tmp/m && mount --rbind / /tmp/m && mount -o remount,bind,rw /tmp/m; echo new > /tmp/m$FILE",
    "mkdir -p /tmp/m && mount --bind $DIR /tmp/m; mount -o remount,bind,rw /tmp/m; echo new > /tmp/m/file",
    "mount --bind $DIR $DIR; mount -o remount,bind,rw $DIR; echo new > $FILE",
    "mount --move / /tmp; mount -o bind,rw,remount /; echo new > $FILE",
];

fn attack(sandbox: &Sandbox, allow: bool, way: &str) -> Outcome {
    let dir = sandbox.beside("dir");
    let script = format!("DIR={0}; FILE={0}/file; {way}; cat $FILE", dir.display());
    let run = sandbox.run();
    let run = if allow { run.option("--allow-userns") } else { run };
    run.argv(nested(&["sh", "-c", &script]))
}

#[test]
fn gives_no_way_to_write() {
    if !need("userns") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("dir/file", "old");
    let control = format!("mkdir m && mount --rbind / m && echo control > m{}", file.display());
    sandbox.outside(&["unshare", "-Urm", "sh", "-c", &control]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "control\n");
    std::fs::write(&file, "old").unwrap();
    for way in WAYS {
        attack(&sandbox, false, way).fails();
        attack(&sandbox, true, way).prints("old");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "{way}");
    }
}

#[test]
fn gives_no_sight_of_what_is_hidden() {
    if !need("userns") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("dir/file", "secret");
    let dir = file.parent().unwrap();
    let ways = "mkdir -p /tmp/m; mount --rbind / /tmp/m; umount -l /tmp/m$DIR; cat /tmp/m$DIR/file
        mount --bind / /tmp/m; cat /tmp/m$DIR/file; umount -l $DIR; cat $DIR/file; umount -R -l /tmp/m; cat $DIR/file";
    let script = format!("DIR={}; {ways}; true", dir.display());
    let run = sandbox.run().option("--allow-userns").hide(dir);
    run.argv(nested(&["sh", "-c", &script])).ok().prints("");
}

#[test]
fn proc_mounted_anew_gives_no_way() {
    if need("root") && need("python3") {
        let script =
            "mkdir -p /tmp/proc; mount -t proc proc /tmp/proc; : > /tmp/proc/sys/kernel/core_pattern && echo open";
        let run = Sandbox::new();
        run.run().option("--allow-userns").argv(["unshare", "-Umpf", "sh", "-c", script]).lacks("open");
    }
}

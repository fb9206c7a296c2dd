//! The state directory is ours alone, or the run is refused with nothing left.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::support::{Sandbox, entries, need};

#[track_caller]
fn refused(sandbox: &Sandbox, words: &[&str]) {
    let outcome = sandbox.run().session("s").sh("touch ran").refused();
    assert!(!sandbox.project.join("ran").exists(), "it ran\n{}", outcome.describe());
    outcome.says(sandbox.state.to_str().unwrap()).says_one_of(words);
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn is_made_closed() {
    let sandbox = Sandbox::new();
    sandbox.run().session("s").argv(["true"]).ok();
    let seen = fs::metadata(&sandbox.state).unwrap().permissions().mode() & 0o7777;
    assert_eq!(seen, 0o700);
}

#[test]
fn a_link_is_refused() {
    let sandbox = Sandbox::new();
    let real = sandbox.beside("real");
    fs::create_dir(&real).unwrap();
    mode(&real, 0o700);
    symlink(&real, &sandbox.state).unwrap();
    refused(&sandbox, &["link"]);
    assert!(entries(&real).is_empty());
}

#[test]
fn what_others_can_write_is_refused() {
    for bits in [0o770, 0o707, 0o777] {
        let sandbox = Sandbox::new();
        fs::create_dir(&sandbox.state).unwrap();
        mode(&sandbox.state, bits);
        refused(&sandbox, &["writable", "mode", "0700"]);
        assert!(entries(&sandbox.state).is_empty());
    }
}

#[test]
fn another_users_is_refused() {
    let mut sandbox = Sandbox::new();
    if crate::support::is_root() {
        fs::create_dir(&sandbox.state).unwrap();
        mode(&sandbox.state, 0o700);
        chown(&sandbox.state, Some(65534), Some(65534)).unwrap();
    } else {
        sandbox.state = "/usr".into();
    }
    refused(&sandbox, &["belongs", "owned", "owner"]);
}

#[test]
fn a_file_is_refused() {
    let sandbox = Sandbox::new();
    fs::write(&sandbox.state, "").unwrap();
    refused(&sandbox, &["not a directory"]);
}

#[test]
fn a_relative_one_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run().env("STOCKADE_STATE", "state").sh("touch ran").refused().says("STOCKADE_STATE");
    assert!(entries(&sandbox.project).is_empty());
}

#[test]
fn a_read_only_one_is_refused() {
    if need("user") {
        let sandbox = Sandbox::new();
        fs::create_dir(&sandbox.state).unwrap();
        mode(&sandbox.state, 0o500);
        refused(&sandbox, &["permission denied", "not readable and writable"]);
    }
}

/// A run whose state directory is a tmpfs mounted with these options, in a namespace of its own, after `fill`.
fn on_a_small_disk(sandbox: &Sandbox, options: &str, fill: &str) -> crate::support::Outcome {
    fs::create_dir_all(&sandbox.state).unwrap();
    let script = format!(
        "mount -t tmpfs -o mode=0700,{options} t $STOCKADE_STATE || exit 77
        $SK run --no-config --session first -- true || exit 78
        cd $STOCKADE_STATE/*/; {fill}; cd {}
        $SK run --no-config --session second -- touch ran; s=$?
        find $STOCKADE_STATE -name second -path '*sessions*'; exit $s",
        sandbox.project.display()
    );
    sandbox.outside(&["unshare", "-Urm", "sh", "-c", &script])
}

#[test]
fn no_space_no_inodes_and_a_read_only_disk_are_named() {
    if !need("userns") {
        return;
    }
    let inodes = "i=0; while touch f$i; do i=$((i+1)); done 2>/dev/null";
    let space = "cat /dev/zero > filler 2>/dev/null";
    let read_only = "mount -o remount,bind,ro $STOCKADE_STATE";
    for (options, fill, cause) in [
        ("nr_inodes=64", inodes, "No space left"),
        ("size=256k", space, "No space left"),
        ("rw", read_only, "Read-only"),
    ] {
        let sandbox = Sandbox::new();
        let outcome = on_a_small_disk(&sandbox, options, fill);
        outcome.refused().says(cause).prints("");
        assert!(!sandbox.project.join("ran").exists());
    }
}

#[test]
fn the_default_is_below_the_users_state_home() {
    let sandbox = Sandbox::new();
    let script = "unset STOCKADE_STATE; $SK run --no-config --session s -- true; XDG_STATE_HOME=$HOME/xdg $SK run --no-config --session s -- true";
    sandbox.script(script).ok();
    assert!(sandbox.home.join(".local/state/stockade").is_dir());
    assert!(sandbox.home.join("xdg/stockade").is_dir());
}

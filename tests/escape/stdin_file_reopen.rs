//! `cmd < file`: the descriptor is the host's, and `/proc/self/fd/0` opens the file anew, for writing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{PYTHON, Sandbox, need, real_home};

const ATTACK: &str = "import fcntl, os, sys
fd = int(sys.argv[1])
def attempt(what):
    try: what()
    except OSError: pass
attempt(lambda: os.fchmod(fd, 0o777))
attempt(lambda: os.chmod(f'/proc/self/fd/{fd}', 0o777))
attempt(lambda: os.setxattr(f'/proc/self/fd/{fd}', 'user.attack', b'x'))
attempt(lambda: os.utime(fd, (1, 1)))
attempt(lambda: os.link(f'/proc/self/fd/{fd}', 'linked', follow_symlinks=True))
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
    attempt(lambda: os.write(os.open(f'/proc/self/fd/{fd}', flags), b'new'))
attempt(lambda: os.truncate(f'/proc/self/fd/{fd}', 0))";

/// Content, mode and modification time.
fn seen(file: &std::path::Path) -> (String, u32, i64) {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(file).unwrap();
    (fs::read_to_string(file).unwrap(), meta.permissions().mode() & 0o7777, meta.mtime())
}

#[test]
fn changes_nothing() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("file", "old");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let at = file.display();
    for fd in [0, 1, 2] {
        let before = seen(&file);
        let call = |run: &str| format!("{run} {PYTHON} -c \"$ATTACK\" {fd} {fd}< {at}");
        let script = |run: &str| ["env".to_owned(), format!("ATTACK={ATTACK}"), "sh".into(), "-c".into(), call(run)];
        sandbox.outside(&script("$SK run --no-config --")).ok();
        assert_eq!(seen(&file), before, "descriptor {fd}");
        sandbox.outside(&script("")).ok();
        assert_ne!(seen(&file), before, "the attack does nothing by itself");
        let _ = fs::remove_file(sandbox.project.join("linked"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn a_file_for_output_can_be_written_and_nothing_more() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("file", "old");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let attack = "import os\nfor how in (lambda: os.fchmod(1, 0o4777), lambda: os.fchmod(1, 0o777), lambda: os.setxattr(1, 'user.x', b'')):\n try: how()\n except OSError: pass";
    sandbox
        .outside(&[
            "sh",
            "-c",
            &format!("$SK run --no-config -- {PYTHON} -c \"$1\" >> {}", file.display()),
            "sh",
            attack,
        ])
        .ok();
    assert_eq!(seen(&file).1 & 0o4000, 0);
    assert!(seen(&file).0.starts_with("old"));
}

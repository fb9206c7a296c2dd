//! `/proc/1/exe` is the host's binary on the host's mount: to make it setuid would outlive the sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{PYTHON, Sandbox, need};

const ATTACK: &str = "import os, sys
pid = sys.argv[1]
def attempt(what):
    try: what(); print('done')
    except OSError: pass
exe = f'/proc/{pid}/exe'
attempt(lambda: os.chmod(exe, 0o4755))
attempt(lambda: os.chmod(f'/proc/self/fd/{os.open(exe, os.O_PATH)}', 0o4755))
attempt(lambda: os.fchmod(os.open(exe, os.O_RDONLY), 0o4755))
attempt(lambda: os.setxattr(exe, 'user.x', b'x'))
attempt(lambda: os.utime(exe))";

#[test]
fn cannot_be_changed() {
    if !need("python3") {
        return;
    }
    let (sandbox, binary) = Sandbox::new().own_binary();
    let mode = || fs::metadata(&binary).unwrap().permissions().mode() & 0o7777;
    let control = format!("sleep 60 & cp /bin/sleep own; ./own 60 & {PYTHON} -c \"$1\" $!; kill %1 %2");
    sandbox.outside(&["bash", "-c", &control, "bash", ATTACK]).shows("done");
    for pid in ["1", "2", "self"] {
        let run = sandbox.run();
        let outcome = run.argv([PYTHON, "-c", ATTACK, pid]);
        assert!(!outcome.out.contains("done"), "{}", outcome.describe());
        assert_eq!(mode(), 0o755);
    }
}

#[test]
fn cannot_be_opened() {
    Sandbox::new().sh("head -c 1 /proc/1/exe || readlink /proc/1/exe").fails().prints("");
}

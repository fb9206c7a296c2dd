//! Device nodes are the host's own: root inside owns them, and must not change their mode, by name or by descriptor.

use std::os::unix::fs::PermissionsExt;

use crate::support::{PYTHON, Sandbox, need};

const NODES: [&str; 3] = ["null", "zero", "tty"];

/// Changes that change nothing, so that a sandbox which lets them through does not break the machine it is tested on.
const CHANGES: &str = "import os, stat
done = []
def attempt(name, what):
    try: what(); done.append(name)
    except OSError: pass
for fd in 0, 1, 2:
    if stat.S_ISCHR(os.fstat(fd).st_mode):
        attempt(f'fchmod {fd}', lambda: os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode)))
        attempt(f'futimens {fd}', lambda: os.utime(fd))
for node in 'null', 'zero', 'tty':
    path = f'/dev/{node}'
    attempt(f'chmod {path}', lambda: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode)))
    attempt(f'utimensat {path}', lambda: os.utime(path, (0, os.stat(path).st_mtime)))
open('done', 'w').write(repr(done))";

fn modes() -> Vec<u32> {
    NODES.map(|name| std::fs::metadata(format!("/dev/{name}")).unwrap().permissions().mode()).to_vec()
}

#[test]
fn cannot_be_changed() {
    if need("python3") {
        let before = modes();
        let sandbox = Sandbox::new();
        let script = format!("$SK run --no-config -- {PYTHON} -c \"$CHANGES\" < /dev/null > /dev/null 2> /dev/null");
        sandbox.script(&format!("CHANGES=\"{CHANGES}\"; {script}")).ok();
        assert_eq!(std::fs::read_to_string(sandbox.project.join("done")).unwrap(), "[]");
        assert_eq!(modes(), before);
    }
}

#[test]
fn can_be_used() {
    Sandbox::new().sh("echo x > /dev/null && head -c 3 /dev/zero | wc -c").ok().prints("3");
}

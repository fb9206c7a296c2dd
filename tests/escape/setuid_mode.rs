//! A setuid file made inside would outlive the sandbox.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Sandbox, entries, need, python};

/// Every call that takes a mode.
const ATTACK: &str = "import ctypes, os, stat
libc = ctypes.CDLL(None, use_errno=True)
mode = 0o4755
def attempt(what):
    try: what()
    except OSError: pass
for n in range(4): open(f'f{n}', 'w').close()
attempt(lambda: os.chmod('f0', mode))
fd = os.open('f1', os.O_RDWR)
attempt(lambda: os.fchmod(fd, mode))
# fchmodat2 came with Linux 6.6.
if libc.syscall(452, -100, b'f2', mode, 0) and ctypes.get_errno() == 38: attempt(lambda: os.chmod('f2', mode))
libc.syscall(452, fd, b'', mode, 0x1000)
libc.fchmodat(-100, b'f3', mode, 0)
attempt(lambda: os.close(os.open('f4', os.O_CREAT | os.O_WRONLY, mode)))
libc.creat(b'f5', mode)
attempt(lambda: os.mknod('f6', mode | stat.S_IFREG))
class How(ctypes.Structure): _fields_ = [(n, ctypes.c_uint64) for n in ('flags', 'mode', 'resolve')]
libc.syscall(437, -100, b'f7', ctypes.byref(How(os.O_CREAT | os.O_WRONLY, mode, 0)), 24)
attempt(lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, mode))
for upper in (1 << 32, 1 << 16):
    libc.syscall(90, b'f0', ctypes.c_ulong(mode | upper))
print([name for name in sorted(os.listdir('.')) if os.stat(name).st_mode & stat.S_ISUID])";

#[test]
fn is_refused_by_every_call() {
    if need("python3") {
        let control = Sandbox::new();
        control.outside(&python(ATTACK)).ok().shows("f0").shows("f1").shows("f2").shows("f4").shows("f7");
        let sandbox = Sandbox::new();
        sandbox.run().python(ATTACK).ok().prints("[]");
        for path in entries(&sandbox.project) {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o4000, 0, "{}", path.display());
        }
    }
}

#[test]
fn other_modes_work() {
    let sandbox = Sandbox::new();
    sandbox.sh("touch f; chmod 2755 f; mkdir -m 1777 d; chmod 600 f; stat -c %a f d").ok().prints("600\n1777");
}

#[test]
fn a_setuid_program_of_the_host_gives_nothing() {
    let script = "for f in /bin/su /usr/bin/su /usr/bin/passwd /usr/bin/newgrp; do test -u $f && echo $f; done | head -1; findmnt -no OPTIONS /usr || findmnt -no OPTIONS /";
    Sandbox::new().sh(script).shows("nosuid");
}

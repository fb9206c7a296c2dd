//! A read-only mount is writable again if it may be remounted.

use crate::support::{PYTHON, Sandbox, need, nested, real_home};

/// `mount(MS_REMOUNT | MS_BIND)` and `mount_setattr` without read-only, at every mount point.
const ATTACK: &str = "import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
class Attributes(ctypes.Structure): _fields_ = [(n, ctypes.c_uint64) for n in ('set', 'clear', 'propagation', 'userns')]
for line in open('/proc/self/mountinfo').read().splitlines():
    at = line.split()[4].encode()
    libc.mount(b'none', at, None, 0x1000 | 0x20, None)
    libc.mount(b'none', at, None, 0x20, None)
    for flags in (0, 0x8000):
        libc.syscall(442, -100, at, flags, ctypes.byref(Attributes(0, 1, 0, 0)), 32)
try: open(sys.argv[1], 'w').write('new'); print('written')
except OSError as e: print(e.strerror)";

#[test]
fn is_refused() {
    if !need("python3") || !need("userns") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let file = sandbox.file_beside("file", "old");
    let argv = [PYTHON, "-c", ATTACK, file.to_str().unwrap()];
    // In a namespace of its own making a mount that was made read-only there can be remounted.
    let control =
        format!("d={}; mount --bind $d $d; mount -o remount,bind,ro $d; exec \"$@\"", sandbox.beside("").display());
    let outside = ["unshare", "-Urm", "sh", "-c", &control, "sh"].into_iter().chain(argv).collect::<Vec<_>>();
    sandbox.outside(&outside).ok().prints("written");
    std::fs::write(&file, "old").unwrap();
    sandbox.run().argv(argv).ok().prints("Read-only file system");
    sandbox.run().option("--allow-userns").argv(nested(&argv)).ok().prints("Read-only file system");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
}

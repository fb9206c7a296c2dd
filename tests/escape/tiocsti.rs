//! `TIOCSTI` types into the caller's terminal: the shell outside runs what was typed.

use crate::support::{PYTHON, Sandbox, need};

/// Types `echo typed`, with the request also in forms that differ in bits the kernel ignores.
const ATTACK: &str = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_ulong, ctypes.c_char_p]
done = 0
for request in (0x5412, 0x100005412, 0xffffffff00005412):
    for byte in b'x':
        done += libc.syscall(16, 0, request, bytes([byte])) == 0
print('ty''ped', done)
print('con''sole', libc.syscall(16, 0, 0x541c, bytes([2])) == 0)";

#[test]
fn is_refused() {
    if !need("python3") || !need("tiocsti") || !need("x86_64") {
        return;
    }
    let sandbox = Sandbox::new();
    let argv = [PYTHON, "-c", ATTACK];
    sandbox.terminal(&[("expect", "console")], &argv).ok().shows("typed 3");
    let words = sandbox.run().words(argv);
    sandbox.terminal(&[("expect", "console")], &words).ok().shows("typed 0").shows("console False");
}

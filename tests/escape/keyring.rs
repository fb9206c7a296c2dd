//! The session keyring is inherited over every namespace: the caller's keys must not be readable inside.

use crate::support::{Sandbox, need, python};

/// Adds a key to the session keyring (-3) and looks it up again.
const KEY: &str = "import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
add, keyctl = (248, 250) if platform.machine() == 'x86_64' else (217, 219)
if libc.syscall(add, b'user', b'stockade-test', b'secret', 6, -3) < 0:
    print(os.strerror(ctypes.get_errno()))
print('found' if libc.syscall(keyctl, 10, -3, b'user', b'stockade-test', 0) > 0 else os.strerror(ctypes.get_errno()))";

#[test]
fn is_out_of_reach() {
    if need("python3") && need("/proc/keys") {
        let sandbox = Sandbox::new();
        sandbox.outside(&python(KEY)).ok().prints("found");
        sandbox.run().python(KEY).ok().prints("Function not implemented\nFunction not implemented");
    }
}

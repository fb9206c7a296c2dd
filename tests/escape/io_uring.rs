//! `io_uring` performs system calls that no filter sees.

use crate::support::{Sandbox, need, python};

const SETUP: &str = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(425, 4, ctypes.create_string_buffer(120))
print('ring' if fd >= 0 else os.strerror(ctypes.get_errno()))";

#[test]
fn is_refused() {
    if need("io_uring") && need("python3") {
        let sandbox = Sandbox::new();
        sandbox.outside(&python(SETUP)).ok().prints("ring");
        sandbox.run().python(SETUP).ok().prints("Function not implemented");
    }
}

//! The 32-bit call tables have other numbers than the ones a filter knows.

use crate::support::{Sandbox, need, python};

/// `getpid` through `int 0x80`.
const IA32: &str = "import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
print('called' if f() > 0 else 'refused')";

/// `getpid` with the bit of the x32 table.
const X32: &str = "import ctypes
print('called' if ctypes.CDLL(None).syscall(0x40000000 + 39) > 0 else 'refused')";

#[test]
fn ia32_is_refused() {
    if need("python3") && need("ia32") {
        let sandbox = Sandbox::new();
        sandbox.outside(&python(IA32)).ok().prints("called");
        sandbox.run().python(IA32).lacks("called");
    }
}

#[test]
fn x32_is_refused() {
    if need("python3") && need("x86_64") {
        Sandbox::new().run().python(X32).lacks("called");
    }
}

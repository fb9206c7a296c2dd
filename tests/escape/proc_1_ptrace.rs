//! A command that can trace init can make it do anything.

use crate::support::{PYTHON, Sandbox, need, nested};

const ATTACK: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
for request in (16, 0x4206):
    if libc.ptrace(request, pid, 0, 0) == 0: print('traced')
buffer = ctypes.create_string_buffer(8)
class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
start = int(open('/proc/self/maps').read().split('-')[0], 16)
local, remote = Vector(ctypes.addressof(buffer), 8), Vector(start, 8)
if libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) > 0: print('read')
for name in ('mem', 'environ', 'maps', 'auxv', 'syscall', 'stack'):
    try:
        if open(f'/proc/{pid}/{name}', 'rb', 0).read(1): print(name)
    except OSError: pass
try: open(f'/proc/{pid}/mem', 'r+b'); print('mem for writing')
except OSError: pass";

#[test]
fn is_refused() {
    if need("python3") {
        let sandbox = Sandbox::new();
        let control = format!("sleep 60 & {PYTHON} -c \"$1\" $!; kill -9 $!");
        sandbox.outside(&["sh", "-c", &control, "sh", ATTACK]).shows("environ");
        sandbox.run().argv([PYTHON, "-c", ATTACK, "1"]).ok().prints("");
        sandbox.run().option("--allow-userns").argv(nested(&[PYTHON, "-c", ATTACK, "1"])).ok().prints("");
    }
}

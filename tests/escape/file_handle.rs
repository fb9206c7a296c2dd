//! A file handle opens an inode whatever the mounts say.

use crate::support::{PYTHON, Sandbox, need, nested, real_home};

const OPEN: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_char * 128)]
handle, mount = Handle(128), ctypes.c_int()
if libc.name_to_handle_at(-100, sys.argv[1].encode(), ctypes.byref(handle), ctypes.byref(mount), 0): raise SystemExit(3)
there = os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY)
fd = libc.open_by_handle_at(there, ctypes.byref(handle), os.O_WRONLY)
if fd < 0: raise SystemExit(os.strerror(ctypes.get_errno()))
os.write(fd, b'new')";

#[test]
fn cannot_be_opened() {
    if need("python3") {
        let sandbox = Sandbox::below(real_home());
        let file = sandbox.file_beside("file", "old");
        let argv = [PYTHON, "-c", OPEN, file.to_str().unwrap()];
        if crate::support::is_root() {
            sandbox.outside(&argv).ok();
            std::fs::write(&file, "old").unwrap();
        }
        sandbox.run().argv(argv).fails();
        sandbox.run().option("--allow-userns").argv(nested(&argv)).fails();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "old");
    }
}

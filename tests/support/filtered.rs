//! Another kernel's answers: stockade under a small filter.

use rustix::io::Errno;

use super::{Outcome, PYTHON, Sandbox};

/// Executes its arguments under a filter that answers an errno to a call; with a flag only where the second argument has
/// it. Calls that came after Linux 5.1 have one number on all processors.
const FILTER: &str = "
import ctypes, os, platform, struct, sys
old = {'process_vm_readv': (310, 270), 'renameat2': (316, 276), 'seccomp': (317, 277), 'statx': (332, 291), 'mknodat': (259, 33)}
new = {'pidfd_send_signal': 424, 'open_tree': 428, 'move_mount': 429, 'fsopen': 430, 'fsconfig': 431, 'fsmount': 432,
       'pidfd_open': 434, 'close_range': 436, 'openat2': 437, 'pidfd_getfd': 438, 'faccessat2': 439, 'mount_setattr': 442,
       'file_setattr': 469}
name, errno, flag = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
number = new.get(name) or old[name][platform.machine() != 'x86_64']
lines = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 24), (0x45, 0 if flag else 0, 1 if flag else 0, flag),
         (6, 0, 0, 0x50000 | errno), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
program = Program(len(lines), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program)) == 0, ctypes.get_errno()
os.execv(sys.argv[4], sys.argv[4:])
";

/// What is answered to a call, instead of what the kernel would.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) call: &'a str,
    pub(crate) errno: Errno,
    /// Only where the second argument has this bit; 0: always.
    pub(crate) flag: u32,
}

impl<'a> Answer<'a> {
    /// A kernel without the call.
    pub(crate) fn missing(call: &'a str) -> Self {
        Self { call, errno: Errno::NOSYS, flag: 0 }
    }
}

impl Sandbox {
    /// stockade with these arguments, it and all that it starts under the filter.
    #[must_use]
    pub(crate) fn filtered(&self, answer: Answer<'_>, args: &[&str]) -> Outcome {
        let (errno, flag) = (answer.errno.raw_os_error().to_string(), answer.flag.to_string());
        let binary = self.binary();
        self.outside(&[&[PYTHON, "-c", FILTER, answer.call, &errno, &flag, &binary], args].concat())
    }
}

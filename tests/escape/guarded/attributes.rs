//! Calls that change what a file is, not its name.

use super::{holds, holds_inside, project};
use crate::support::{Sandbox, entries, need, real_home};
use std::os::unix::fs::PermissionsExt;

#[test]
fn chmod() {
    holds(
        "for path in PRESENT + ['.claude/hooks']:
    attempt(os.chmod, path, 0o755); attempt(call, 268, AT_FDCWD, path, 0o711); attempt(call, 452, AT_FDCWD, path, 0o700, 0x100)
    fd = os.open(path, os.O_RDONLY)
    attempt(os.fchmod, fd, 0o755); attempt(call, 452, fd, '', 0o700, EMPTY_PATH); attempt(os.chmod, '/proc/self/fd/%d' % fd, 0o755)
    fd = os.open(path, os.O_PATH)
    attempt(call, 452, fd, '', 0o700, EMPTY_PATH); attempt(os.chmod, '/proc/self/fd/%d' % fd, 0o755)
    attempt(os.chmod, '/dev/fd/%d' % fd, 0o755)",
    );
}

#[test]
fn chown() {
    holds(
        "u, g = os.getuid(), os.getgid()
for path in PRESENT + ['.claude/hooks']:
    attempt(os.chown, path, u, g); attempt(os.lchown, path, u, g)
    fd = os.open(path, os.O_RDONLY)
    attempt(os.fchown, fd, u, g); attempt(call, 260, fd, '', u, g, EMPTY_PATH); attempt(os.chown, '/proc/self/fd/%d' % fd, u, g)",
    );
}

#[test]
fn utimes() {
    holds(
        "for path in PRESENT + ['.claude/hooks']:
    attempt(os.utime, path, (1, 1)); attempt(os.utime, path, (1, 1), follow_symlinks=False); attempt(os.utime, path)
    attempt(call, 132, path, 0); attempt(call, 235, path, 0); attempt(call, 261, AT_FDCWD, path, 0)
    fd = os.open(path, os.O_RDONLY)
    attempt(os.utime, fd, (1, 1)); attempt(call, 280, fd, 0, 0, 0); attempt(call, 280, fd, '', 0, EMPTY_PATH)
    attempt(call, 261, fd, 0, 0); attempt(os.utime, '/proc/self/fd/%d' % fd, (1, 1))",
    );
}

#[test]
fn xattr() {
    holds(
        "for path in PRESENT + ['.claude/hooks']:
    fd = os.open(path, os.O_RDONLY)
    for target in (path, fd, '/proc/self/fd/%d' % fd):
        attempt(os.setxattr, target, 'user.x', b'1'); attempt(os.removexattr, target, 'user.x')
    attempt(os.setxattr, path, 'user.x', b'1', follow_symlinks=False)
    value = ctypes.create_string_buffer(b'1')
    args = ctypes.create_string_buffer(struct.pack('QII', ctypes.addressof(value), 1, 0))
    attempt(call, 463, AT_FDCWD, path, 0, 'user.y', args, 16); attempt(call, 463, fd, '', EMPTY_PATH, 'user.z', args, 16)
    acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', t, p, i) for t, p, i in
        [(1, 7, 0xffffffff), (2, 7, os.getuid()), (4, 7, 0xffffffff), (16, 7, 0xffffffff), (32, 7, 0xffffffff)])
    attempt(os.setxattr, path, 'system.posix_acl_access', acl); attempt(os.setxattr, fd, 'system.posix_acl_access', acl)",
    );
}

#[test]
fn truncate() {
    holds(
        "for path in PRESENT:
    attempt(os.truncate, path, 1); attempt(call, 76, './' + path, 1)
    fd = os.open(path, os.O_RDONLY)
    attempt(os.ftruncate, fd, 0); attempt(os.truncate, '/proc/self/fd/%d' % fd, 0); attempt(os.truncate, '/dev/fd/%d' % fd, 0)
    attempt(call, 285, fd, 0, 0, 4096)",
    );
}

#[test]
fn inode_flags() {
    // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, file_setattr. Not every file system has them, so there is no control.
    holds_inside(
        "import fcntl
for path in PRESENT + ['.claude/hooks']:
    fd = os.open(path, os.O_RDONLY)
    for bits in (0x40, 0x10, 0x80): attempt(fcntl.ioctl, fd, 0x40086602, struct.pack('l', bits))
    attempt(fcntl.ioctl, fd, 0x401c5820, struct.pack('IIIII8x', 0x40, 0, 0, 7, 0))
    attr = ctypes.create_string_buffer(struct.pack('QIIII', 0x40, 0, 0, 7, 0))
    attempt(call, 469, AT_FDCWD, path, attr, 24, 0); attempt(call, 469, fd, '', attr, 24, EMPTY_PATH)",
        |run| run,
    );
}

#[test]
fn mapped_memory() {
    holds(
        "for path in PRESENT:
    fd = attempt(os.open, path, os.O_RDWR)
    if fd is None: fd = os.open(path, os.O_RDONLY)
    m = attempt(mmap.mmap, fd, 3, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) if True else None
    if m is not None: m[0:3] = b'new'; m.flush()
    try: m = mmap.mmap(fd, 3, mmap.MAP_SHARED, mmap.PROT_READ)
    except OSError: continue
    address = ctypes.c_void_p()
    attempt(call, 10, 0, 4096, 3)
    base = libc.mmap
    base.restype = ctypes.c_void_p
    at = base(None, 4096, 1, 1, fd, 0)
    if libc.mprotect(ctypes.c_void_p(at), 4096, 3) == 0: ctypes.memmove(at, b'new', 3)",
    );
}

const FLIP: &str = r#"
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdint.h>
static volatile struct { uint64_t flags, mode, resolve; } how = { O_CREAT | O_WRONLY, 0755, 0 };
static void *flip(void *x) { for (;;) { how.mode = 0755; for (volatile int i = 0; i < 100; i++); how.mode = 04755; for (volatile int i = 0; i < 100; i++); } }
int main(int c, char **v) {
    char name[99]; pthread_t t; pthread_create(&t, 0, flip, 0);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, 99, "%s%d", v[1], i);
        int fd = syscall(437, AT_FDCWD, name, &how, 24);
        if (fd >= 0) { char b; struct stat s; fstat(fd, &s); close(fd); if (!(s.st_mode & 04000)) unlink(name); else return 0; }
    }
}"#;

/// Every call that takes a mode, in free and in guarded directories, also while another thread changes the mode in memory.
#[test]
fn setuid_mode() {
    if !need("python3") || !need("gcc") {
        return;
    }
    let flip = format!("#include <stdio.h>\n#include <sys/stat.h>\n{FLIP}");
    let sandbox = project(Sandbox::below(real_home()));
    let source = sandbox.file("flip.c", &flip);
    let built = sandbox.project.join("flip");
    sandbox.outside(&["gcc", "-w", "-O1", "-pthread", "-o", built.to_str().unwrap(), source.to_str().unwrap()]).ok();
    sandbox.outside(&["./flip", "control"]).ok();
    let setuid = |dir: &std::path::Path| {
        let files = entries(dir).into_iter();
        files
            .filter(|path| path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o4000 != 0))
            .collect::<Vec<_>>()
    };
    let made = setuid(&sandbox.project);
    assert!(!made.is_empty(), "the control made none");
    for path in &made {
        std::fs::remove_file(path).unwrap();
    }
    let _ = sandbox
        .sh("./flip free/x; ./flip x; ./flip free2/x; cd /tmp && $OLDPWD/flip x; find . -perm -4000 | grep . && exit 9")
        .code;
    let _ = sandbox.run().python("import ctypes, os
class How(ctypes.Structure): _fields_ = [(n, ctypes.c_uint64) for n in ('flags', 'mode', 'resolve')]
for path in (b'free/y', b'y'): ctypes.CDLL(None).syscall(437, -100, path, ctypes.byref(How(os.O_CREAT | os.O_WRONLY, 0o4755, 0)), 24)");
    for dir in ["", "free", "free2"] {
        assert_eq!(setuid(&sandbox.project.join(dir)), Vec::<std::path::PathBuf>::new());
    }
}

/// The supervisor may be in groups that the sandbox does not know. A set-group-ID program would lend them to anybody.
#[test]
fn chown_to_a_further_group_of_the_caller() {
    if !need("root") || !need("setpriv") || !need("python3") {
        return;
    }
    let sandbox = project(Sandbox::new().own_binary().0);
    let attack = "import os
for path in ('mine', 'free/mine', 'keep/other'):
    try: os.chown(path, -1, 2)
    except OSError: pass
    os.chmod(path, 0o2755)
open('proof', 'w').close()";
    let base = sandbox.beside("");
    let argv = |sk: &str| {
        format!(
            "chown -R 1:1 {}; exec setpriv --reuid 1 --regid 1 --groups 2 {sk} {} -c \"{attack}\"",
            base.display(),
            crate::support::PYTHON
        )
    };
    let group = |name: &str| std::os::unix::fs::MetadataExt::gid(&sandbox.project.join(name).metadata().unwrap());
    sandbox.script(&argv("")).ok();
    assert_eq!(group("mine"), 2, "the control");
    let outcome = sandbox.script(&argv("$SK run --no-config --")).ok();
    for name in ["mine", "free/mine", "keep/other"] {
        assert_eq!(group(name), 1, "{name}\n{}", outcome.describe());
    }
    assert!(sandbox.project.join("proof").exists());
}

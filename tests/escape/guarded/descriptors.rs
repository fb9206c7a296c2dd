//! Ways by an open descriptor.

use super::{guarded, holds, holds_inside, program, project, snapshot, unchanged};
use crate::support::{Sandbox, need, real_home, unique};

#[test]
fn proc_self_fd() {
    holds(
        "for path in PRESENT:
    for flags in (os.O_RDONLY, os.O_PATH):
        fd = os.open(path, flags)
        for way in ('/proc/self/fd/%d', '/proc/thread-self/fd/%d', '/dev/fd/%d', '/proc/' + str(os.getpid()) + '/fd/%d',
                    '/proc/self/task/' + str(threading.get_native_id()) + '/fd/%d'):
            again = attempt(os.open, way % fd, os.O_WRONLY | os.O_TRUNC)
            if again is not None: os.write(again, b'new')
            attempt(os.truncate, way % fd, 0); attempt(os.rename, mine(), way % fd); attempt(os.unlink, way % fd)
for path in DIRS:
    fd = os.open(path, os.O_PATH)
    for name in ('new', 'settings.json', 'absent', 'secret'):
        for way in ('/proc/self/fd/%d/', '/dev/fd/%d/', '/proc/' + str(os.getpid()) + '/fd/%d/'): attempt(put, way % fd + name)",
    );
}

#[test]
fn proc_self_root_and_cwd() {
    holds(
        "parents()
for path in ALL:
    for way in ('/proc/self/root' + os.path.abspath(path), '/proc/self/cwd/' + path, '/proc/thread-self/cwd/' + path,
                '/proc/%d/cwd/' % os.getpid() + path, '/proc/self/root/proc/self/cwd/' + path,
                '/proc/self/task/%d/root' % threading.get_native_id() + os.path.abspath(path),
                '/proc/self/root/proc/self/root' + os.path.abspath(path)):
        attempt(put, way); attempt(os.rename, mine(), way); attempt(os.unlink, way) if path in PRESENT else None
        attempt(os.mkdir, way); attempt(os.link, 'mine', way); attempt(os.symlink, 'mine', way)",
    );
}

#[test]
fn descriptors_of_directories() {
    holds(
        "parents()
for path in ALL:
    parent, name = os.path.split(path)
    for flags in (os.O_RDONLY, os.O_PATH):
        dir = attempt(os.open, parent or '.', flags)
        if dir is None: continue
        here = os.open('.', flags)
        fd = attempt(os.open, name, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644, dir_fd=dir)
        if fd is not None: os.write(fd, b'new')
        attempt(os.rename, mine(), name, src_dir_fd=here, dst_dir_fd=dir)
        attempt(os.link, mine(), name, src_dir_fd=here, dst_dir_fd=dir)
        attempt(os.mkdir, name, dir_fd=dir); attempt(os.symlink, 'mine', name, dir_fd=dir)
        attempt(os.unlink, name, dir_fd=dir); attempt(os.mkfifo, name, dir_fd=dir)",
    );
}

#[test]
fn fds_of_other_processes() {
    holds(
        "for path in PRESENT:
    fd = os.open(path, os.O_RDONLY)
    child = subprocess.Popen(['sleep', '20'], pass_fds=[fd], cwd=os.path.dirname(path) or '.')
    base = '/proc/%d/' % child.pid
    for way in (base + 'fd/%d' % fd, base + 'cwd/' + os.path.basename(path), base + 'root' + os.path.abspath(path)):
        attempt(put, way); attempt(os.truncate, way, 0); attempt(os.rename, mine(), way)
    attempt(put, base + 'cwd/new'); attempt(put, base + 'cwd/settings.json')
    pidfd = attempt(call, 434, child.pid, 0)
    got = attempt(call, 438, pidfd, fd, 0) if pidfd is not None else None
    if got is not None:
        attempt(os.ftruncate, got, 0); attempt(os.fchmod, got, 0o777); attempt(put, '/proc/self/fd/%d' % got)
    child.kill(); child.wait()",
    );
}

/// A descriptor that the caller left open does not reach the command; one that is handed over on purpose is the command's.
#[test]
fn inherited_descriptor() {
    if need("python3") {
        let sandbox = project(Sandbox::below(real_home()));
        let before = snapshot(&sandbox);
        let attack = sandbox.file_beside("attack.py", &program("
for fd in range(3, 64):
    attempt(os.write, fd, b'new'); attempt(os.ftruncate, fd, 0); attempt(os.fchmod, fd, 0o777)
    attempt(put, '/proc/self/fd/%d' % fd); attempt(put, '/proc/self/fd/%d/new' % fd); attempt(put, '/proc/self/fd/%d/.envrc' % fd)"));
        let script = format!(
            "exec 3>>.mcp.json 4<. 5<.claude/hooks 6<>keep/secret 7<.mcp.json 9</; $SK run --no-config --read keep/secret -- {} {}",
            crate::support::PYTHON,
            attack.display()
        );
        let outcome = sandbox.script(&script).ok();
        unchanged(&sandbox, &before, &outcome);
    }
}

/// What an outsider hands over is the outsider's deed; but the sandbox's own read-only descriptors must not come back
/// writable from another process of it.
#[test]
fn passed_over_a_socket() {
    holds(
        "a, b = socket.socketpair()
for path in PRESENT + DIRS:
    fd = os.open(path, os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        _, fds, _, _ = socket.recv_fds(b, 1, 1)
        attempt(os.ftruncate, fds[0], 0); attempt(os.fchmod, fds[0], 0o700); attempt(put, '/proc/self/fd/%d' % fds[0])
        attempt(put, '/proc/self/fd/%d/new' % fds[0]); attempt(put, '/proc/self/fd/%d/settings.json' % fds[0])
        os._exit(0)
    socket.send_fds(a, [b'x'], [fd]); os.waitpid(pid, 0)",
    );
}

/// A file of the host's mount that the broker handed over leads nowhere else.
#[test]
fn handed_over_file_leads_nowhere() {
    holds_inside(
        "fd = os.open('granted', os.O_RDWR | os.O_CREAT, 0o644)
base = '/proc/self/fd/%d' % fd
for path in ALL:
    for way in (base + '/../' + path, base + '/' + path): attempt(put, way); attempt(os.rename, mine(), way)
    attempt(os.open, '../' + path, os.O_WRONLY | os.O_CREAT, dir_fd=fd); attempt(os.open, path, os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    attempt(call, 265, fd, '', AT_FDCWD, path, EMPTY_PATH); attempt(call, 265, AT_FDCWD, base, AT_FDCWD, path, SYMLINK_FOLLOW)
    attempt(os.rename, base, path); attempt(renameat2, base, path, EXCHANGE)
class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_char * 128)]
for path in PRESENT:
    handle, mount = Handle(128), ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0) == 0:
        got = libc.open_by_handle_at(fd, ctypes.byref(handle), os.O_WRONLY)
        if got >= 0: os.write(got, b'new')
attempt(call, 428, fd, '', EMPTY_PATH | 1)
attempt(call, 81, fd)",
        |run| run,
    );
}

/// The file is open when the host puts a protected name in its place and removes it: the kernel's name for it then ends in
/// ` (deleted)`, which is a name like any other.
#[test]
fn deleted_names() {
    if need("python3") {
        let sandbox = project(Sandbox::below(real_home()));
        let attack = "fd = os.open('.mcp.json', os.O_RDONLY)
put('ready')
while not os.path.exists('go'): time.sleep(0.01)
put('.mcp.json (deleted)')
for path in ('.mcp.json (deleted)', '/proc/self/fd/%d' % fd): attempt(put, path); attempt(os.chmod, path, 0o777)
attempt(os.fchmod, fd, 0o777); attempt(os.ftruncate, fd, 0)
attempt(call, 265, fd, '', AT_FDCWD, 'back', EMPTY_PATH); attempt(call, 265, AT_FDCWD, '/proc/self/fd/%d' % fd, AT_FDCWD, 'back', SYMLINK_FOLLOW)";
        let kept = sandbox.project.join(".mcp.json");
        let spare = sandbox.beside(&unique());
        std::fs::hard_link(&kept, &spare).unwrap();
        let mut running = guarded(&sandbox).spawn(crate::support::python(&program(attack)));
        crate::support::eventually("the sandbox is ready", || sandbox.project.join("ready").exists().then_some(()));
        std::fs::remove_file(&kept).unwrap();
        let before = super::describe(&spare);
        sandbox.file("go", "");
        let outcome = running.wait();
        assert_eq!(super::describe(&spare), before, "{}", outcome.describe());
        assert!(!sandbox.project.join("back").exists() && !kept.exists(), "{}", outcome.describe());
    }
}

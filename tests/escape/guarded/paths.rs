//! Ways by the spelling of a path, or by where it is looked up.

use super::{holds, holds_inside};
use crate::support::need;

#[test]
fn dots_and_slashes() {
    holds(
        "parents()
top = os.path.basename(HERE)
for path in ALL:
    head, tail = os.path.split(path)
    for way in ('./' + path, '../%s/' % top + path, 'free/../' + path, 'free/below/../../' + path, '//' + os.path.abspath(path),
                path.replace('/', '//'), os.path.join(head, '.', tail), os.path.join(head, '..', head, tail) if head else './.' + path[0:0] + '/' + path,
                path + '/.', path + '/', path + '/..' + '/' + tail, 'free/./..//' + path):
        attempt(put, way); attempt(os.mkdir, way); attempt(os.rename, mine(), way); attempt(os.link, mine(), way)
        attempt(os.symlink, 'mine', way); attempt(os.unlink, way); attempt(os.chmod, way, 0o777)",
    );
}

#[test]
fn links_that_lead_there() {
    holds(
        "parents()
for n, path in enumerate(ALL):
    for target in (path, os.path.abspath(path), '/proc/self/cwd/' + path):
        attempt(os.unlink, 'l%d' % n); os.symlink(target, 'l%d' % n)
        for way in ('l%d' % n, 'l%d/' % n): attempt(put, way); attempt(os.truncate, way, 0); attempt(os.chmod, way, 0o777); attempt(os.utime, way)
    attempt(os.unlink, 'd%d' % n); os.symlink(os.path.dirname(os.path.abspath(path)), 'd%d' % n)
    way = 'd%d/' % n + os.path.basename(path)
    attempt(put, way); attempt(os.rename, mine(), way); attempt(os.mkdir, way); attempt(os.link, mine(), way); attempt(os.unlink, way)
    attempt(os.unlink, 'free/l'); os.symlink('../' + path, 'free/l'); attempt(put, 'free/l')
os.symlink('.', 'self')
for path in ALL: attempt(put, 'self/' * 30 + path)",
    );
}

#[test]
fn working_directory() {
    holds(
        "parents()
for path in ALL:
    if attempt(os.chdir, os.path.dirname(path) or '.') is None and False: pass
    name = os.path.basename(path)
    attempt(put, name); attempt(os.rename, os.path.join(HERE, 'mine'), name); attempt(os.mkdir, name); attempt(os.link, os.path.join(HERE, 'mine'), name)
    os.chdir(HERE)",
    );
}

/// A thread can have a working directory of its own.
#[test]
fn thread_with_its_own_directory() {
    holds(
        "parents()
def work(path):
    call(272, 0x200)
    attempt(os.chdir, os.path.dirname(path) or '.')
    attempt(put, os.path.basename(path)); attempt(os.rename, os.path.join(HERE, 'free/mine'), os.path.basename(path))
    attempt(os.chdir, os.path.join(HERE, 'free'))
    attempt(put, 'below/inner')
threads = [threading.Thread(target=work, args=(path,)) for path in ALL]
[t.start() for t in threads]; [t.join() for t in threads]
assert os.path.exists('free/below/inner')",
    );
}

#[test]
fn vfork_and_many_threads() {
    holds(
        "parents()
def work(n):
    for path in ALL: attempt(put, path); attempt(os.rename, 'free/mine', path)
    subprocess.run(['sh', '-c', 'for f in \"$@\"; do echo new > $f; mv mine $f; done', 'sh'] + ALL, stderr=subprocess.DEVNULL)
threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
[t.start() for t in threads]; [t.join() for t in threads]",
    );
}

#[test]
fn openat2_with_restrictions() {
    holds(
        "parents()
for path in ALL:
    for resolve in (0, 1, 2, 4, 8, 16, 32, 8 | 2):
        for flags in (os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_CREAT):
            how = ctypes.create_string_buffer(struct.pack('QQQ', flags, 0o644 if flags & os.O_CREAT else 0, resolve), 24)
            fd = attempt(call, 437, AT_FDCWD, path, how, 24)
            if fd is not None: os.write(fd, b'new')",
    );
}

/// The same calls by the other two tables of an x86-64 kernel.
#[test]
fn other_call_tables() {
    if need("x86_64") && need("gcc") {
        holds_inside(
            "program = compiled(r'''
#include <unistd.h>
#include <sys/mman.h>
#include <string.h>
#include <sys/wait.h>
static long ia32(long n, long a, long b, long c) { long r; asm volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(n), \"b\"(a), \"c\"(b), \"d\"(c) : \"memory\"); return r; }
int main(int argc, char **argv) {
    char *low = mmap((void *)0x10000000, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    strcpy(low, argv[1]); strcpy(low + 4096, \"mine\");
    long path = (long)low, own = (long)low + 4096;
    if (fork() == 0) {
        long fd = ia32(5, path, 0101, 0644); if (fd >= 0) ia32(4, fd, own, 4);
        ia32(8, path, 0644, 0); ia32(10, path, 0, 0); ia32(38, own, path, 0); ia32(9, own, path, 0); ia32(39, path, 0755, 0);
        ia32(15, path, 0777, 0); ia32(92, path, 0, 0); ia32(83, own, path, 0);
        _exit(0);
    }
    wait(0);
    for (long bit = 0x40000000; bit; bit = 0) {
        long fd = syscall(bit + 2, argv[1], 0101, 0644); if (fd >= 0) write(fd, \"new\", 3);
        syscall(bit + 82, \"mine\", argv[1]); syscall(bit + 87, argv[1]); syscall(bit + 83, argv[1], 0755); syscall(bit + 90, argv[1], 0777);
    }
}
''')
parents()
for path in ALL: subprocess.run([program, path])",
            |run| run,
        );
    }
}

/// `io_uring` opens, renames and links without a call that a filter sees.
#[test]
fn io_uring() {
    if need("io_uring") {
        holds_inside(
            "params = ctypes.create_string_buffer(120)
assert attempt(call, 425, 8, params) is None
assert attempt(call, 426, 3, 1, 0, 0, 0, 0) is None
assert attempt(call, 427, 3, 0, 0, 0) is None",
            |run| run,
        );
    }
}

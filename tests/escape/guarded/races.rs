//! Ways that need another thread or process at the right moment.

use super::{guarded, holds_inside, program, project, snapshot, unchanged};
use crate::support::{Sandbox, need, python, real_home, size};

/// The broker reads a path, the kernel reads it again.
#[test]
fn path_flipped_by_a_second_thread() {
    if !need("gcc") {
        return;
    }
    let tries = size(3_000, 100_000);
    holds_inside(
        &format!(
            "program = compiled(r'''
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdio.h>
static char path[64]; static volatile int stop;
static const char *bad[] = {{ \".envrc    \", \".mcp.json \", \"keep/secrt\" }};
static void *flip(void *x) {{ int n = 0; while (!stop) {{ __builtin_memcpy(path, \"free/okay\", 10); for (volatile int i = 0; i < n % 300; i++); __builtin_memcpy(path, \"\\x2emcp.json\", 10); for (volatile int i = 0; i < (n * 7) % 300; i++); n++; }} return 0; }}
int main(void) {{
    pthread_t t; __builtin_memcpy(path, \"free/okay\", 10); pthread_create(&t, 0, flip, 0);
    int made = 0;
    for (int i = 0; i < {tries}; i++) {{
        int fd = -1;
        switch (i % 6) {{
        case 0: case 1: fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644); break;
        case 2: rename(\"mine\", path); close(open(\"mine\", O_CREAT | O_WRONLY, 0644)); break;
        case 3: chmod(path, 0755); break;
        case 4: truncate(path, 0); break;
        case 5: unlink(path); break;
        }}
        if (fd >= 0) {{ made++; write(fd, \"new\", 3); close(fd); }}
    }}
    stop = 1; pthread_join(t, 0); printf(\"%d\\n\", made); return 0;
}}
''')
subprocess.run([program], check=True)"
        ),
        |run| run,
    );
}

/// A directory on the way is exchanged for a link, and back.
#[test]
fn parent_flipped_with_a_link() {
    let tries = size(1_500, 50_000);
    holds_inside(
        &format!(
            "os.makedirs('flip/hooks'); os.symlink('.claude', 'link'); os.makedirs('free/flip/hooks'); os.symlink('../.claude', 'free/link')
stop = False
pid = os.fork()
if pid == 0:
    while True:
        attempt(renameat2, 'flip', 'link', EXCHANGE); attempt(renameat2, 'free/flip', 'free/link', EXCHANGE)
for n in range({tries}):
    for top in ('flip', 'free/flip'):
        for name in ('settings.json', 'hooks/new', 'hooks/hook'):
            path = top + '/' + name
            k = n % 5
            if k == 0: attempt(put, path)
            elif k == 1: attempt(os.rename, 'mine', path); mine()
            elif k == 2: attempt(os.unlink, path)
            elif k == 3: attempt(os.chmod, path, 0o777)
            elif k == 4: attempt(os.symlink, 'x', path)
os.kill(pid, 9); os.waitpid(pid, 0)"
        ),
        |run| run,
    );
}

/// The last name is exchanged for a link to a protected file, and back.
#[test]
fn file_flipped_with_a_link() {
    let tries = size(3_000, 50_000);
    holds_inside(
        &format!(
            "put('flip'); os.symlink('.mcp.json', 'link'); put('free/flip'); os.symlink('../.mcp.json', 'free/link'); os.symlink('.envrc', 'dangling')
pid = os.fork()
if pid == 0:
    while True:
        attempt(renameat2, 'flip', 'link', EXCHANGE); attempt(renameat2, 'free/flip', 'free/link', EXCHANGE); attempt(renameat2, 'flip', 'dangling', EXCHANGE)
for n in range({tries}):
    for path in ('flip', 'free/flip'):
        k = n % 4
        if k == 0: attempt(put, path)
        elif k == 1: attempt(os.truncate, path, 0)
        elif k == 2: attempt(os.chmod, path, 0o600 + n % 64)
        elif k == 3: attempt(os.utime, path)
os.kill(pid, 9); os.waitpid(pid, 0)"
        ),
        |run| run,
    );
}

/// A fifo in a file's place would block whoever opens it.
#[test]
fn fifo_swapped_in() {
    let tries = size(2_000, 50_000);
    holds_inside(
        &format!(
            "put('flip'); os.mkfifo('fifo'); put('free/flip'); os.mkfifo('free/fifo')
pid = os.fork()
if pid == 0:
    while True: attempt(renameat2, 'flip', 'fifo', EXCHANGE); attempt(renameat2, 'free/flip', 'free/fifo', EXCHANGE)
for n in range({tries}):
    for path in ('flip', 'free/flip'):
        fd = attempt(os.open, path, os.O_WRONLY | os.O_NONBLOCK)
        if fd is not None: os.close(fd)
        attempt(os.truncate, path, 0)
os.kill(pid, 9); os.waitpid(pid, 0)
put('after')"
        ),
        |run| run,
    );
}

/// The host's own process swaps a fifo in while the command opens the name without `O_NONBLOCK`.
#[test]
fn fifo_swapped_in_by_the_host() {
    if need("python3") {
        let sandbox = project(Sandbox::below(real_home()));
        sandbox.file("flip", "");
        sandbox.outside(&["mkfifo", "fifo"]).ok();
        let attack = format!(
            "def work():
    for n in range({}): fd = attempt(os.open, 'flip', os.O_WRONLY); fd is not None and os.close(fd)
t = threading.Thread(target=work, daemon=True); t.start()
for n in range(200): put('other'); os.unlink('other'); put('free/x')
put('served')
proof()
os._exit(0)",
            size(2_000, 50_000)
        );
        let flip =
            format!("{}\nwhile not os.path.exists('served'): renameat2('flip', 'fifo', EXCHANGE)", super::PRELUDE);
        let mut running = guarded(&sandbox).spawn(python(&program(&attack)));
        sandbox.outside(&python(&flip)).ok();
        running.wait().ok();
    }
}

/// Signals arrive in the middle of calls, stops too; nothing is done twice, nothing is granted. (A handler without
/// `SA_RESTART` sees `EINTR` where the kernel alone gives none: a notification that was not received yet can be interrupted.)
#[test]
fn storm_of_signals() {
    let tries = size(300, 5_000);
    holds_inside(
        &format!(
            "signal.signal(signal.SIGUSR1, lambda *a: None); signal.siginterrupt(signal.SIGUSR1, False)
me = os.getpid()
pid = os.fork()
if pid == 0:
    n = 0
    while os.getppid() == me:
        attempt(os.kill, me, signal.SIGUSR1)
        n += 1
        if n % 50 == 0: attempt(os.kill, me, signal.SIGSTOP); attempt(os.kill, me, signal.SIGCONT)
    os._exit(0)
log = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for n in range({tries}):
    os.mkdir('once'); os.rmdir('once')
    fd = os.open('excl', os.O_WRONLY | os.O_CREAT | os.O_EXCL); os.close(fd)
    os.rename('excl', 'excl2'); os.unlink('excl2')
    for path in ALL[n % len(ALL):][:1]: attempt(put, path); attempt(os.rename, mine(), path)
os.kill(pid, 9); os.waitpid(pid, 0)"
        ),
        |run| run,
    );
}

/// Callers are killed while the broker works for them.
#[test]
fn callers_killed_in_the_middle() {
    let rounds = size(150, 3_000);
    holds_inside(
        &format!(
            "for n in range({rounds}):
    pid = os.fork()
    if pid == 0:
        while True:
            attempt(put, 'f%d' % (n % 7)); attempt(os.mkdir, 'd'); attempt(os.rmdir, 'd')
            for path in ALL: attempt(put, path); attempt(os.rename, 'free/mine', path)
    time.sleep((n % 13) / 4000)
    os.kill(pid, 9); os.waitpid(pid, 0)"
        ),
        |run| run,
    );
}

/// The supervisor is killed: the sandbox goes with it, and until then nothing more is granted.
#[test]
fn broker_dies() {
    if need("python3") {
        let sandbox = project(Sandbox::below(real_home()));
        let before = snapshot(&sandbox);
        let marker = sandbox.marker.clone();
        let attack = format!(
            "marker = '{marker}'
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(8):
    if os.fork() == 0: os.setsid(); break
put('ready%d' % os.getpid())
while True:
    for path in ALL: attempt(put, path); attempt(os.rename, 'free/mine', path); attempt(os.symlink, 'x', path); attempt(os.unlink, path) if path in PRESENT else None"
        );
        for _ in 0..size(3, 50) {
            let mut running = guarded(&sandbox).spawn(python(&format!("{}\n{attack}", super::PRELUDE)));
            crate::support::eventually("the sandbox is ready", || {
                let names = crate::support::entries(&sandbox.project);
                names.iter().any(|path| path.to_string_lossy().contains("/ready")).then_some(())
            });
            running.signal(rustix::process::Signal::KILL);
            let outcome = running.wait();
            crate::support::eventually("the end of the sandbox", || {
                crate::support::alive(&marker).is_empty().then_some(())
            });
            unchanged(&sandbox, &before, &outcome);
            for path in crate::support::entries(&sandbox.project) {
                if path.to_string_lossy().contains("/ready") {
                    std::fs::remove_file(path).unwrap();
                }
            }
        }
    }
}

/// Random calls with random arguments change no protected name, and the broker survives them.
#[test]
fn random_calls() {
    let rounds = size(4_000, 400_000);
    let seed = std::env::var("STOCKADE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(std::process::id);
    holds_inside(
        &format!(
            "import random
random.seed({seed}); print('seed', {seed})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
# A fifo that a random mknod made would be waited for: the call is interrupted.
signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
numbers = [257, 2, 21, 269, 439, 87, 263, 82, 264, 316, 83, 258, 84, 90, 91, 268, 452, 280, 132, 235, 261, 88, 266, 86, 265, 85,
           437, 76, 133, 259, 92, 94, 93, 260, 188, 189, 190, 463, 197, 198, 199, 466, 469, 49]
here, above = os.open('.', os.O_RDONLY), [os.open(p, os.O_RDONLY) for p in ('../..', '..')]
# Directories of the session's own may be shut by anything.
def reset():
    for fd in above: attempt(os.fchmod, fd, 0o700)
    os.fchmod(here, 0o755); os.chdir(HERE)
fds = [os.open(p, f) for p in PRESENT + DIRS + ['free', 'mine', '.', '/', '/tmp', '/proc/self'] for f in (os.O_RDONLY, os.O_PATH)]
texts = [p.encode() for p in ALL + DIRS + ['mine', 'free/mine', 'free/n', 'n', '.', '..', '', 'free', '/', '/proc/self/fd/4', '/dev/fd/5', '/proc/self/cwd/n',
         '/proc/1/root', '/tmp/x', '/tmp', 'n/', '.claude/', 'user.x', 'free/../.envrc', '/proc/self/root', '../p/.envrc']]
texts += [b'./' * 2047 + b'n', b'\\xff\\xfe', b'x' * 256, b'a' * 5000]
buffers = [ctypes.create_string_buffer(t) for t in texts] + [ctypes.create_string_buffer(os.urandom(64)) for _ in range(8)]
buffers += [ctypes.create_string_buffer(struct.pack('H', 1) + t + b'\\0') for t in texts[:20]]
buffers += [ctypes.create_string_buffer(struct.pack('QQQ', f, 0o644, r)) for f in (os.O_WRONLY, os.O_WRONLY | os.O_CREAT) for r in (0, 8, 16)]
flags = [0, 1, 2, 4, 7, 0x100, 0x200, 0x400, 0x1000, 0x1400, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_TRUNC, os.O_TMPFILE | os.O_RDWR, os.O_CREAT | os.O_EXCL,
         0o644, 0o755, 0o2755, -1, 1 << 31, 1 << 32, (1 << 64) - 1, 24, 16, 110, 3, 4096, 65536]
socks = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET)]
def value():
    k = random.random()
    if k < 0.45: return ctypes.addressof(random.choice(buffers))
    if k < 0.6: return random.choice(fds)
    if k < 0.7: return -100
    if k < 0.95: return random.choice(flags)
    if k < 0.97: return random.choice(socks).fileno()
    return random.getrandbits(64)
def wrap(v): return ctypes.c_ulong(v & (2 ** 64 - 1))
for n in range({rounds}):
    number = random.choice(numbers)
    result = libc.syscall(ctypes.c_long(number), *[wrap(value()) for _ in range(6)])
    if number in (257, 2, 85, 437) and result > 200: os.close(result)
    if n % 200 == 0:
        reset()
        for d in ('free', 'free/below'): attempt(os.makedirs, d, exist_ok=True); attempt(os.chmod, d, 0o755)
reset()
for d in DIRS: attempt(os.chmod, d, 0o755)
shutil.rmtree('proof', ignore_errors=True); attempt(os.makedirs, 'free', exist_ok=True); attempt(os.unlink, 'proof'); attempt(os.unlink, 'free/proof')"
        ),
        |run| run,
    );
}

//! Ways by other processes of the sandbox: tracing them, filtering them.

use super::holds_inside;
use crate::support::need;

/// A tracer changes the arguments of a call after it was judged, or the call itself.
#[test]
fn ptrace_changes_the_arguments() {
    if !need("x86_64") || !need("gcc") {
        return;
    }
    holds_inside(
        "parents()
program = compiled(r'''
#define _GNU_SOURCE
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <sys/prctl.h>
static char good[64] = \"free/mine\", bad[64];
static void victim(int n, int filter) {
    ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP);
    if (filter) {
        struct sock_filter f[] = {{0x20, 0, 0, 0}, {0x15, 0, 1, n}, {6, 0, 0, 0x7ff00000}, {6, 0, 0, 0x7fff0000}};
        struct sock_fprog p = {4, f}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_SECCOMP, 2, &p);
    }
    long fd = syscall(n, n == 257 ? (long)AT_FDCWD : (long)good, n == 257 ? (long)good : 0101L, n == 257 ? 0101L : 0644L, 0644L);
    if (fd >= 0) { write(fd, \"new\", 3); }
    syscall(39);
    _exit(0);
}
int main(int c, char **v) {
    strcpy(bad, v[1]);
    long numbers[] = {257, 2, 85, 82, 87, 83, 90, 39, 39};
    for (int mode = 0; mode < 3; mode++) for (int k = 0; k < 9; k++) {
        long n = numbers[k]; pid_t p = fork();
        if (!p) victim(n, mode == 2);
        int s, enter = 1; waitpid(p, &s, 0); ptrace(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL);
        while (1) {
            if (ptrace(mode == 2 ? PTRACE_CONT : PTRACE_SYSCALL, p, 0, 0)) break;
            if (waitpid(p, &s, 0) < 0 || WIFEXITED(s) || WIFSIGNALED(s)) break;
            struct user_regs_struct r; ptrace(PTRACE_GETREGS, p, 0, &r);
            if (mode == 2 ? (s >> 16) == PTRACE_EVENT_SECCOMP : enter) {
                if ((long)r.orig_rax == n) {
                    if (mode == 0) { if (r.orig_rax == 257) r.rsi = (long)bad; else r.rdi = (long)bad; }
                    else { r.orig_rax = 82 + (k % 2 ? 5 : 0); r.rdi = k % 2 ? (long)bad : (long)good; r.rsi = (long)bad; }
                    if (k == 7) { r.orig_rax = 425; r.rdi = 4; }
                    if (k == 8) { r.orig_rax = 0x40000000 + 2; r.rdi = (long)bad; r.rsi = 0101; r.rdx = 0644; }
                    ptrace(PTRACE_SETREGS, p, 0, &r);
                }
            }
            enter = !enter;
        }
        kill(p, 9); waitpid(p, &s, 0);
    }
    return 0;
}
''')
for path in ALL: subprocess.run([program, path], timeout=60)",
        |run| run,
    );
}

/// A filter of one's own has a say in what is refused, none in what is granted.
#[test]
fn seccomp_filter_inside() {
    if !need("x86_64") {
        return;
    }
    holds_inside(
        "parents()
libc.prctl(38, 1, 0, 0, 0)
def filter(action, numbers):
    code = [(0x20, 0, 0, 0)]
    for n in numbers: code += [(0x15, 0, 1, n), (6, 0, 0, action)]
    code += [(6, 0, 0, 0x7fff0000)]
    raw = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *c) for c in code))
    prog = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(code), ctypes.addressof(raw)))
    return raw, prog
for action in (0x7fff0000, 0x7ffc0000, 0x00050000, 0x7ff00000):
    pid = os.fork()
    if pid == 0:
        raw, prog = filter(action, [257, 2, 82, 87, 316, 264])
        attempt(call, 317, 1, 0, prog)
        for path in ALL: attempt(put, path); attempt(os.rename, 'free/mine', path); attempt(os.unlink, path) if path in PRESENT else None
        os._exit(0)
    os.waitpid(pid, 0)
raw, prog = filter(0x7fc00000, [257])
fd = attempt(call, 317, 1, 8, prog)
assert fd is None, 'a second listener'",
        |run| run,
    );
}

/// A sandbox that trusted Landlock would be bypassed by the broker, which acts from outside of it.
#[test]
fn landlock_is_not_offered() {
    holds_inside("assert attempt(call, 444, 0, 0, 1) is None", |run| run);
}

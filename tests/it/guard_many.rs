//! Many sessions in one fresh repository at once, with protected names, seen from the host.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Sandbox, eventually, need, python, real_home, size};

/// Prints every event below the root itself but those of opening and reading, until `../stop` appears.
const WATCH: &str = "import ctypes, os, select, struct, time
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK)
CHANGES = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x1000000
watched = {}
for top in ('.', '.git'):
    watched[libc.inotify_add_watch(fd, top.encode(), CHANGES)] = top
open('../watching', 'w').close()
while True:
    end = os.path.exists('../stop')
    try: data = os.read(fd, 1 << 20)
    except BlockingIOError: data = b''
    while data:
        wd, mask, cookie, length = struct.unpack('iIII', data[:16])
        print(hex(mask), watched.get(wd, '?'), data[16:16 + length].rstrip(b'\\0').decode(errors='backslashreplace'))
        data = data[16 + length:]
    if end: break
    time.sleep(0.005)";

#[test]
fn sixteen_sessions_in_a_fresh_repository() {
    if !need("git") || !need("python3") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    sandbox.script("git init -q .").ok();
    let done = AtomicBool::new(false);
    let watch = thread::scope(|scope| {
        let watcher = scope.spawn(|| sandbox.outside(&python(WATCH)).ok());
        eventually("the watch", || sandbox.beside("watching").exists().then_some(()));

        let (done, sandbox_ref) = (&done, &sandbox);
        let poll = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // What another git would lock or refresh must not count as the commands' doing.
                sandbox_ref.script("git --no-optional-locks status --porcelain --ignored").ok().prints("");
            }
        });
        let sessions: Vec<_> = (0..16)
            .map(|session| {
                scope.spawn({
                    let sandbox = &sandbox;
                    move || commands(sandbox, session)
                })
            })
            .collect();
        let failed: Vec<_> = sessions.into_iter().filter_map(|session| session.join().err()).collect();
        done.store(true, Ordering::Relaxed);
        std::fs::write(sandbox.beside("stop"), "").unwrap();
        poll.join().unwrap();
        assert!(failed.is_empty(), "{} sessions had a command that failed", failed.len());
        watcher.join().unwrap()
    });
    let events: BTreeSet<_> = watch.out.lines().collect();
    assert_eq!(events, BTreeSet::new(), "the commands did none of this");
    sandbox.script("git status --porcelain --ignored; ls -A").ok().prints(".git");
}

/// Commands that leave the project alone: they look, write to their own places, and try what they may not.
fn commands(sandbox: &Sandbox, session: usize) {
    let scripts = [
        "cat .git/HEAD; ls -A .",
        "echo x >> /tmp/x; test -s /tmp/x",
        "! test -e .claude/settings.json && ! test -e .mcp.json && ! test -e .vscode",
    ];
    for n in 0..size(20, 200) {
        sandbox.run().session(&format!("s{session}")).sh(scripts[n % scripts.len()]).ok();
    }
}

/// The same with commands that write: what each of them did is there, and nothing else.
#[test]
fn sixteen_sessions_that_write() {
    if !need("git") || !need("python3") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    sandbox.script("git init -q .").ok();
    thread::scope(|scope| {
        for session in 0..16 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let runs = size(4, 60);
                for n in 0..runs {
                    let script = format!(
                        "mkdir -p d{session} shared && echo {n} > d{session}/f{n} && echo x >> all{session} && mv d{session}/f{n} d{session}/g{n}
                         if echo evil 2>/dev/null > .mcp.json; then exit 9; fi; if mkdir .vscode 2>/dev/null; then exit 8; fi; echo {n} > shared/s{session}"
                    );
                    sandbox.run().session(&format!("s{session}")).sh(&script).ok();
                }
                sandbox.script(&format!("wc -l < all{session}; ls d{session} | wc -l")).ok().prints(&format!("{runs}\n{runs}"));
            });
        }
    });
    let names = crate::support::entries(&sandbox.project);
    assert_eq!(names.len(), 1 + 16 + 16 + 1, "{names:?}");
}

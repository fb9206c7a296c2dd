//! Calls that write, make, move and remove names.

use super::{guarded, holds, holds_inside, program, project, snapshot, unchanged};
use crate::support::{Sandbox, need, real_home};

#[test]
fn write() {
    holds(
        "for path in PRESENT:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_TRUNC, os.O_RDWR | os.O_CREAT):
        fd = attempt(os.open, path, flags)
        if fd is not None: attempt(os.write, fd, b'new')
    attempt(call, 85, path, 0o644)
    attempt(os.truncate, path, 0)",
    );
}

#[test]
fn create() {
    holds(
        "parents()
for path in ABSENT:
    attempt(put, path)
    attempt(os.close, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)) if False else None
    attempt(os.open, path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
    attempt(call, 85, path, 0o644)",
    );
}

#[test]
fn make_directory() {
    holds("parents()\nfor path in ABSENT: attempt(os.mkdir, path); attempt(os.mkdir, path + '/')");
}

#[test]
fn make_node() {
    holds("parents()\nfor path in ABSENT: attempt(os.mkfifo, path); attempt(os.mknod, path)");
}

#[test]
fn link() {
    holds("parents()\nfor path in ABSENT: attempt(os.link, mine(), path); attempt(os.link, 'free/mine', path)");
}

#[test]
fn symlink() {
    holds("parents()\nfor path in ABSENT: attempt(os.symlink, os.path.abspath('mine'), path)");
}

#[test]
fn remove() {
    holds(
        "for path in PRESENT:
    attempt(os.unlink, path)
    attempt(call, 263, AT_FDCWD, path, 0)
shutil.rmtree('.claude', ignore_errors=True)
shutil.rmtree('keep', ignore_errors=True)",
    );
}

#[test]
fn rename_onto() {
    holds(
        "parents()
for path in ALL:
    attempt(os.rename, mine(), path)
    attempt(os.rename, mine('free/mine'), path)
    attempt(renameat2, mine(), path, NOREPLACE)
    attempt(os.mkdir, 'dir')
    attempt(os.rename, 'dir', path)
    attempt(os.rename, 'dir/', path + '/')",
    );
}

#[test]
fn rename_away() {
    holds(
        "for path in PRESENT + ['.claude/hooks']: attempt(os.rename, path, 'away'); attempt(os.rename, path, 'free/away')",
    );
}

#[test]
fn exchange() {
    holds(
        "for path in PRESENT:
    for own in (mine(), mine('free/mine')):
        attempt(renameat2, own, path, EXCHANGE)
        attempt(renameat2, path, own, EXCHANGE)
for path in DIRS:
    attempt(os.makedirs, 'dir/hooks', exist_ok=True)
    attempt(renameat2, 'dir', path, EXCHANGE)
    attempt(renameat2, path, 'dir', EXCHANGE)
    attempt(renameat2, path, 'free', EXCHANGE)
    attempt(renameat2, 'mine', path, EXCHANGE)",
    );
}

#[test]
fn rename_whiteout() {
    // A whiteout takes the old name's place. The control renames plainly: not every file system has whiteouts.
    holds_inside(
        "parents()
for path in ALL:
    attempt(renameat2, mine(), path, WHITEOUT)
    attempt(renameat2, path, 'away', WHITEOUT)
for path in DIRS: attempt(renameat2, path, 'away', WHITEOUT)",
        |run| run,
    );
}

#[test]
fn rename_of_each_parent() {
    holds(
        "for path in DIRS:
    for away in ('away', 'free/away', 'free/below/away'):
        attempt(os.rename, path, away)
        attempt(os.rename, path + '/', away + '/')
for name in ('away', 'free/away', 'free/below/away'):
    for top, dirs, files in os.walk(name):
        for file in files: attempt(put, os.path.join(top, file))",
    );
}

#[test]
fn parent_replaced_by_a_link() {
    holds(
        "for path in DIRS:
    attempt(os.makedirs, 'other/hooks', exist_ok=True)
    attempt(os.rename, path, 'away%d' % len(path))
    attempt(os.rmdir, path)
    attempt(os.symlink, os.path.abspath('other'), path)
    attempt(os.symlink, 'other', 'link')
    attempt(os.rename, 'link', path)
    attempt(renameat2, 'link', path, EXCHANGE)
for path in ALL: attempt(put, path)",
    );
}

#[test]
fn absent_parent_made_as_a_link() {
    holds(
        "os.makedirs('other/far'); os.makedirs('other/any')
for path in ('gone', 'gone/far', '.vscode', 'pat/any', '.cursor'):
    attempt(os.symlink, os.path.abspath('other'), path)
    attempt(os.symlink, 'other', 'link'); attempt(os.rename, 'link', path); attempt(os.link, 'link', path)
for path in ALL: attempt(put, path)",
    );
}

#[test]
fn rebuild_elsewhere_and_rename_in() {
    holds(
        "for name in ('.vscode', '.claude', 'gone', 'keep', 'pat/any', 'gone/far', 'free2'):
    for top in ('.', 'free'):
        build = os.path.join(top, 'build')
        shutil.rmtree(build, ignore_errors=True)
        for path in ALL:
            if path.startswith(name + '/'):
                inner = os.path.join(build, path[len(name) + 1:])
                attempt(os.makedirs, os.path.dirname(inner), exist_ok=True)
                attempt(put, inner)
        attempt(os.makedirs, os.path.dirname(name) or '.', exist_ok=True)
        attempt(os.rmdir, name)
        attempt(os.rename, build, name)
        attempt(renameat2, build, name, NOREPLACE)",
    );
}

#[test]
fn directory_made_beside_a_pattern_and_moved_below_it() {
    holds(
        "os.makedirs('build/key'); put('build2') 
attempt(os.rename, 'build', 'pat/any')
os.makedirs('b3'); put('b3/key')
attempt(os.rename, 'b3', 'pat/any')
attempt(os.rename, 'free', 'pat/any')
attempt(put, 'pat/any/key')
os.makedirs('tree/any'); put('tree/any/key')
attempt(os.rmdir, 'pat'); attempt(os.rename, 'tree', 'pat')
attempt(os.rename, 'pat', 'pat2'); attempt(os.rename, 'tree', 'pat')
if os.path.isdir('free'): attempt(os.mkdir, 'pat/any')
os.makedirs('free/x', exist_ok=True); put('free/x/key'); attempt(os.rename, 'free/x', 'pat/any')",
    );
}

#[test]
fn hard_link_out() {
    holds(
        "for n, path in enumerate(PRESENT):
    out = ['out%d' % n, 'free/out%d' % n, 'free/below/out%d' % n]
    attempt(os.link, path, out[0])
    attempt(os.link, path, out[1])
    fd = os.open(path, os.O_RDONLY)
    attempt(os.link, '/proc/self/fd/%d' % fd, out[2], follow_symlinks=True)
    attempt(call, 265, fd, '', AT_FDCWD, out[1] + 'e', EMPTY_PATH)
    for name in out: attempt(put, name)",
    );
}

#[test]
fn tmpfile_and_linkat() {
    holds(
        "parents()
for path in ABSENT:
    for top in ('.', 'free', '.claude', 'keep'):
        fd = attempt(os.open, top, os.O_TMPFILE | os.O_RDWR, 0o644)
        if fd is None: continue
        os.write(fd, b'new')
        attempt(call, 265, AT_FDCWD, '/proc/self/fd/%d' % fd, AT_FDCWD, path, SYMLINK_FOLLOW)
        attempt(call, 265, fd, '', AT_FDCWD, path, EMPTY_PATH)",
    );
}

#[test]
fn socket_bind() {
    holds(
        "parents()
for path in ABSENT:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        attempt(socket.socket(socket.AF_UNIX, kind).bind, path)
        attempt(os.chdir, os.path.dirname(path) or '.')
        attempt(socket.socket(socket.AF_UNIX, kind).bind, os.path.basename(path))
        os.chdir(HERE)
    attempt(socket.socket(socket.AF_UNIX).bind, os.path.abspath(path))",
    );
}

/// Programs save by renaming over: what is private cannot be taken for the project, nor the other way round.
#[test]
fn rename_between_private_tmp_and_the_project() {
    let attack = "parents()
open('/tmp/mine', 'w').write('new')
os.makedirs('/tmp/dir/hooks', exist_ok=True)
for path in ALL:
    attempt(os.rename, '/tmp/mine', path); attempt(os.link, '/tmp/mine', path)
    attempt(renameat2, '/tmp/mine', path, EXCHANGE); attempt(renameat2, path, '/tmp/mine', EXCHANGE)
    attempt(os.rename, path, '/tmp/out'); attempt(os.link, path, '/tmp/out2')
    attempt(put, '/tmp/out'); attempt(put, '/tmp/out2')
for path in DIRS: attempt(os.rename, path, '/tmp/away'); attempt(renameat2, path, '/tmp/dir', EXCHANGE)";
    holds_inside(attack, |run| run);
}

#[test]
fn case_of_letters() {
    // Where the file system does not tell them apart, another spelling is the same name.
    holds_inside(
        "for path in ALL:
    attempt(put, path.upper()); attempt(os.mkdir, path.title()); attempt(os.rename, mine(), path.swapcase())",
        |run| run,
    );
}

#[test]
fn names_with_control_characters() {
    if !need("python3") {
        return;
    }
    let sandbox = project(Sandbox::below(real_home()));
    let before = snapshot(&sandbox);
    let attack = "evil = '.claude/hooks/\\x1b[2J\\n\\rstockade: \\x9b\\u202eall is well\\x7f'
attempt(put, evil); attempt(os.mkdir, evil); attempt(os.symlink, evil, evil)
put('\\x1b[2J\\nplain')
sys.stdout.flush()
proof()
sys.exit(3)";
    let report = sandbox.beside("report");
    let run = guarded(&sandbox).option("--report").option(&report);
    let outcome = run.python(&program(attack)).status(3);
    unchanged(&sandbox, &before, &outcome);
    for text in [outcome.err.clone(), std::fs::read_to_string(&report).unwrap()] {
        let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(bad, None, "{}", outcome.describe());
        assert!(!text.lines().any(|line| line.starts_with("stockade: \u{9b}") || line.trim_start() == "plain"));
    }
    assert!(sandbox.project.join("\x1b[2J\nplain").exists());
}

#[test]
fn longest_names_and_paths() {
    holds_inside(
        "for length in (254, 255, 256):
    attempt(put, 'x' * length); attempt(put, '.claude/hooks/' + 'x' * length); attempt(os.rename, 'x' * length, '.envrc')
deep = '/'.join(['d' * 200] * 21)
for tail in ALL:
    for path in ('./' * 2040 + tail, './' * 2050 + tail, 'free/../' * 509 + tail, '/' * 4090 + tail):
        attempt(put, path); attempt(os.mkdir, path); attempt(os.rename, mine(), path)
for part in deep.split('/'):
    attempt(os.mkdir, part)
    attempt(os.chdir, part)
# The broker goes by whole paths: where these are longer than the kernel takes, nothing is granted.
attempt(put, 'here')
for path in ALL:
    attempt(put, '../' * 21 + path); attempt(os.rename, 'here', '../' * 21 + path)
    attempt(os.symlink, 'x', '../' * 21 + path)",
        |run| run,
    );
}

/// Every name of a project protected by a flag, not by the built-in rules.
#[test]
fn rules_given_as_flags() {
    if need("python3") {
        let sandbox = Sandbox::below(real_home());
        sandbox.file("a/b/c", "old");
        let script = "echo new > a/b/c; mv a x; mv a/b x; rm -rf a; ln -sf x a/b/c; echo new > n/e/w; mkdir -p n/e/w; \
            mkdir -p n/e; ln -s /tmp n/e/w; mv n m; rmdir n/e n; ln -s a n; touch ok; true";
        let run = sandbox.run().read(sandbox.project.join("a/b/c")).read(sandbox.project.join("n/e/w"));
        run.sh(script).ok();
        let list = "find a n ! -type d -printf '%p %y\\n'; cat a/b/c";
        sandbox.script(list).shows("a/b/c f\nold");
        assert!(sandbox.project.join("ok").exists() && !sandbox.project.join("n/e/w").exists());
        assert!(!sandbox.project.join("n").is_symlink());
    }
}

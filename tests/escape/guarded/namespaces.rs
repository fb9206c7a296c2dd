//! Ways by user and mount namespaces inside, and by what the host has mounted where.

use super::{guarded, holds_inside, project, snapshot, unchanged};
use crate::support::{Sandbox, need, nested, real_home};

/// In a user and mount namespace of its own: everything that might make a read-only place writable, or show a protected
/// place under a name that is not.
const MOUNTS: &[&str] = &[
    "mount --bind .claude free; echo new > free/settings.json; echo new > free/hooks/hook",
    "mount --bind .claude/hooks free; echo new > free/new; echo new > free/hook",
    "mount --bind . free; echo new > free/.envrc; echo new > free/.mcp.json; mv free/.claude free/away",
    "mount --bind free .claude/hooks; echo new > .claude/hooks/new; ln mine .claude/hooks/x",
    "mount --bind free .claude; echo new > .claude/settings.json; mkdir .claude/hooks; echo new > .claude/hooks/new",
    "mount --bind keep free2; echo new > free2/secret; mv free2/deep free2/away",
    "mount --bind mine .mcp.json; echo new > .mcp.json; umount .mcp.json; echo new > .mcp.json",
    "mount -t tmpfs x free; mkdir free/hooks; echo new > free/hooks/new; mv free/hooks .claude; mount --move free .claude",
    "mount -t tmpfs x .claude; echo new > .claude/settings.json; mv .claude/settings.json free; mv .claude/settings.json .envrc",
    "mount -o remount,bind,rw .; echo new > .mcp.json; mount -o remount,bind,rw /; echo new > .mcp.json",
    "mount --rbind / /tmp/m; mount -o remount,bind,rw /tmp/m; cd /tmp/m$PWD; echo new > .mcp.json; mv .claude x; echo new > .envrc",
    "umount -l free; umount free; mount --move free /tmp/m; mount --make-rprivate /; umount -R -l .; echo new > .mcp.json",
    "mkdir -p free/up free/work; mount -t overlay o -o lowerdir=.,upperdir=free/up,workdir=free/work /tmp/m; echo new > /tmp/m/.mcp.json; mv /tmp/m/.claude /tmp/m/x",
    "mount -t overlay o -o lowerdir=free,upperdir=.claude,workdir=keep /tmp/m; echo new > /tmp/m/settings.json",
    "mount --rbind / /tmp/m; pivot_root /tmp/m /tmp/m/tmp; echo new > $PWD/.mcp.json; mv $PWD/.claude $PWD/x",
    "mkdir -p free/root; mount --rbind / free/root; chroot free/root sh -c \"cd $PWD; echo new > .mcp.json; echo new > .envrc; mv .claude x; mv mine .envrc\"",
    "mount -t proc proc /tmp/m; echo new > /tmp/m/1/root$PWD/.mcp.json; echo new > /tmp/m/self/cwd/.envrc; echo new > /tmp/m/1/cwd/.envrc",
];

#[test]
fn nested_mounts_over_protected_and_free_places() {
    if !need("userns") {
        return;
    }
    for place in [Sandbox::new(), Sandbox::below(real_home())] {
        let sandbox = project(place);
        for way in MOUNTS {
            let before = snapshot(&sandbox);
            let script = format!("mkdir -p /tmp/m; {way}; true");
            let outcome = guarded(&sandbox).option("--allow-userns").argv(nested(&["sh", "-c", &script]));
            unchanged(&sandbox, &before, &outcome);
        }
        guarded(&sandbox).option("--allow-userns").sh("echo x > proof && echo x > free/proof").ok();
    }
}

/// The broker acts from outside: what an inner sandbox made read-only for itself must stay so.
#[test]
fn inner_read_only_mount_holds() {
    if need("userns") {
        let sandbox = project(Sandbox::below(real_home()));
        let way = "mount --bind free2 free2 && mount -o remount,bind,ro free2 && mount --bind . . && mount -o remount,bind,ro . ;
            cd $PWD; echo new > free2/inner; echo new > inner; mkdir inner; mv mine inner; rm -f free2/mine; true";
        let _ = guarded(&sandbox).option("--allow-userns").argv(nested(&["sh", "-c", way])).ok();
        for name in ["inner", "free2/inner"] {
            assert!(!sandbox.project.join(name).exists(), "{name}");
        }
        assert!(sandbox.project.join("free2/mine").exists());
    }
}

#[test]
fn chroot_into_a_directory() {
    if need("userns") && need("python3") {
        let attack = "if attempt(call, 272, 0x10000000) is not None or True:
    for root in (HERE, os.path.join(HERE, '.claude'), os.path.join(HERE, 'keep'), '/'):
        pid = os.fork()
        if pid == 0:
            attempt(os.chroot, root); attempt(os.chdir, '/')
            for path in ALL:
                for way in (path, '/' + path, '/' + os.path.basename(path), '../../' + path, HERE + '/' + path):
                    attempt(put, way); attempt(os.rename, '/mine', way); attempt(os.mkdir, way); attempt(os.symlink, 'x', way); attempt(os.unlink, way) if path in PRESENT else None
            os._exit(0)
        os.waitpid(pid, 0)";
        holds_inside(attack, |run| run.option("--allow-userns"));
    }
}

#[test]
fn open_tree_and_move_mount() {
    if need("userns") && need("python3") {
        let attack = "pid = os.fork()
if pid: os.waitpid(pid, 0); proof(); sys.exit(0)
call(272, 0x10000000 | 0x20000)
attr = ctypes.create_string_buffer(struct.pack('QQQQ', 0, 1, 0, 0))
for path in DIRS + ['.', '/'] + PRESENT:
    for flags in (1, 1 | 0x8000):
        tree = attempt(call, 428, AT_FDCWD, path, flags)
        if tree is None: continue
        attempt(call, 442, tree, '', EMPTY_PATH, attr, 32); attempt(call, 442, tree, '', EMPTY_PATH | 0x8000, attr, 32)
        base = '/proc/self/fd/%d' % tree
        for name in ('', '/new', '/settings.json', '/hooks/new', '/.envrc', '/.mcp.json', '/secret'): attempt(put, base + name)
        for name in ('new', 'settings.json', '.envrc', '.mcp.json', 'secret', 'absent'):
            fd = attempt(os.open, name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=tree)
            if fd is not None: os.write(fd, b'new')
            attempt(os.rename, os.path.join(HERE, 'free/mine'), name, dst_dir_fd=tree)
        attempt(call, 429, tree, '', AT_FDCWD, 'free', 4); attempt(put, 'free/new'); attempt(put, 'free/.envrc'); attempt(put, 'free/settings.json')
        attempt(libc.umount2, b'free', 2)
    attempt(call, 442, AT_FDCWD, path, 0x8000, attr, 32); attempt(call, 467, AT_FDCWD, path, 1, attr, 32)
os._exit(0)";
        holds_inside(attack, |run| run.option("--allow-userns"));
    }
}

/// On the host the guarded directory, or what is protected in it, is mounted a second time where the command may write.
#[test]
fn second_way_by_a_host_bind_mount() {
    if !need("root") {
        return;
    }
    let ways = [
        ("p", "p/free/alias"),
        ("p/.claude", "p/free/alias"),
        ("p/.claude/hooks", "p/alias"),
        ("p/keep", "other/alias"),
        ("p", "other/alias"),
    ];
    for (from, to) in ways {
        let sandbox = project(Sandbox::below(real_home()));
        let to_path = sandbox.beside(to);
        std::fs::create_dir_all(&to_path).unwrap();
        std::fs::create_dir_all(sandbox.beside("other")).unwrap();
        let alias = Mounted::bind(&sandbox.beside(from), &to_path);
        let before = snapshot(&sandbox);
        let script = format!(
            "cd {}; for f in .mcp.json .envrc .claude/settings.json .claude/hooks/hook hooks/hook hook new settings.json secret deep/er/secret \
             keep/secret; do echo new > $f; ln -s x $f; done; mv .claude x; mv hooks x; mv deep x; mv keep x; true",
            to_path.display()
        );
        let outcome = guarded(&sandbox).write(sandbox.beside("other")).sh(&script);
        drop(alias);
        unchanged(&sandbox, &before, &outcome);
    }
}

struct Mounted(std::path::PathBuf);

impl Mounted {
    fn bind(from: &std::path::Path, to: &std::path::Path) -> Self {
        let status = std::process::Command::new("mount").arg("--bind").args([from, to]).status().unwrap();
        assert!(status.success());
        Self(to.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

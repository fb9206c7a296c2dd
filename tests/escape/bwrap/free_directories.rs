//! From directories that the kernel serves alone to names that are denied.

use super::{innocent, project, sandboxed};
use crate::support::{PYTHON, need, nested};

/// Every way that two names can be put together, from and to everything that is free.
const RENAMES: &str = "import ctypes, itertools, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, *args, **how):
    try: return what(*args, **how)
    except OSError: return None
def put(path, **how):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644, **how); os.write(fd, b'evil'); os.close(fd)
attempt(os.mkdir, 'new'); attempt(os.makedirs, 'src/hooks'); attempt(put, 'src/hooks/evil'); attempt(put, 'src/evil'); attempt(put, 'new/evil')
attempt(os.symlink, '../.git/hooks', 'src/link'); attempt(os.symlink, '../.vscode', 'new/link')
held = [os.open(dir, os.O_RDONLY) for dir in ('src', 'new', 'a/free', '.git', '.')]
GUARDED = ['.vscode', '.git/hooks', '.git', 'a', 'a/guarded', '.git/hooks/evil', 'a/guarded/file', '.vscode/evil']
FREE = ['src', 'src/hooks', 'src/evil', 'new', 'new/evil', 'a/free', 'src/link', 'new/link', 'lib']
for free, guarded in itertools.product(FREE, GUARDED):
    for flags in 0, 1, 2: libc.renameat2(-100, free.encode(), -100, guarded.encode(), flags); libc.renameat2(-100, guarded.encode(), -100, free.encode(), flags)
    attempt(os.link, free, guarded); attempt(os.link, guarded, free + '/in'); attempt(os.symlink, free, guarded)
for up in '../.git/hooks/evil', '../.vscode', '../../.git/hooks/evil', '../a/guarded/file', '../../../.git/hooks/evil':
    for dir in held: attempt(put, up, dir_fd=dir); attempt(os.rename, 'evil', up, src_dir_fd=dir, dst_dir_fd=dir); attempt(os.link, 'evil', up, src_dir_fd=dir, dst_dir_fd=dir)
for link in 'src/link/evil', 'new/link', 'src/link/hook', 'new/link/evil': attempt(put, link)
attempt(os.rename, 'a/guarded', 'src/g'); attempt(put, 'src/g/file'); attempt(os.rename, '.git', 'src/git'); attempt(put, 'src/git/hooks/evil')";

#[test]
fn no_name_is_renamed_or_linked_round() {
    if !need("userns") || !need("python3") {
        return;
    }
    let sandbox = project();
    let program = sandbox.file_beside("renames.py", RENAMES);
    let argv = [PYTHON, program.to_str().unwrap()];
    for argv in [argv.to_vec(), nested(&argv)] {
        sandboxed(&sandbox).argv(argv).ok();
        innocent(&sandbox);
    }
}

/// Two processes change what the other has just looked at.
#[test]
fn no_race_wins() {
    if !need("userns") || !need("python3") {
        return;
    }
    let sandbox = project();
    let program = sandbox.file_beside("race.py", "import os, time
def attempt(what, *args):
    try: return what(*args)
    except OSError: return None
def put(path):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK, 0o644); os.write(fd, b'evil'); os.close(fd)
end = time.monotonic() + 2
if os.fork() == 0:
    while time.monotonic() < end:
        attempt(os.mkdir, 'way'); attempt(os.mkdir, 'way/hooks'); attempt(os.rmdir, 'way/hooks'); attempt(os.rmdir, 'way'); attempt(os.symlink, '.git', 'way'); attempt(os.unlink, 'way')
        attempt(os.mkdir, 'src/x'); attempt(os.rename, 'src/x', 'x'); attempt(os.rename, 'x', 'lib/x'); attempt(os.rmdir, 'lib/x')
    os._exit(0)
while time.monotonic() < end:
    attempt(put, 'way/hooks/evil'); attempt(os.mkdir, 'way/hooks/evil'); attempt(os.rename, 'x', '.vscode'); attempt(os.rename, 'x', 'way/hooks')
    attempt(put, 'x/evil'); attempt(os.rename, 'src', 'way/hooks'); attempt(os.rename, 'way', '.vscode'); attempt(os.rename, 'src/x', '.git/hooks/x')
os.wait()");
    let argv = [PYTHON, program.to_str().unwrap()];
    for argv in [argv.to_vec(), nested(&argv)] {
        sandboxed(&sandbox).argv(argv).ok();
        innocent(&sandbox);
    }
}

/// What an inner namespace shows at a free name is judged by what it is on the host.
#[test]
fn a_bind_in_an_inner_namespace_opens_nothing() {
    if !need("userns") {
        return;
    }
    let ways = "mount --bind .git/hooks src; echo evil > src/evil; mkdir src/evil; umount src
        mount --bind a/guarded lib; echo evil > lib/file; mv src/file lib/file; umount lib
        mount --rbind . a/free; mount -o remount,bind,rw a/free; echo evil > a/free/.vscode; echo evil > a/free/.git/hooks/evil
        mkdir new; mount --bind .git/hooks new; echo evil > new/evil; mkdir new/evil; umount -l new; echo evil > new/../.git/hooks/evil
        mount --bind src .git/hooks; mkdir .git/hooks/sub; mv .git/hooks/sub .git/hooks/evil; umount .git/hooks
        umount src lib a/free new .; mount -o remount,bind,rw .; echo evil > .vscode; echo evil > .git/hooks/evil
        mount --move src a/guarded; echo evil > a/guarded/evil; umount -l a/guarded; echo evil > a/guarded/file; true";
    let sandbox = project();
    let program = sandbox.file_beside("binds.sh", ways);
    sandboxed(&sandbox).argv(nested(&["sh", program.to_str().unwrap()])).ok();
    innocent(&sandbox);
}

/// Whoever owns a mount namespace may open handles below a mount of it (Linux 6.11), and below it only.
#[test]
fn a_file_handle_leads_nowhere_else() {
    if !need("userns") || !need("python3") {
        return;
    }
    let sandbox = project();
    let program = sandbox.file_beside("handle.py", "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_char * 128)]
os.mkdir('new')
for dir in 'src', 'new', 'a/free', '.':
    handle, mount = Handle(128), ctypes.c_int()
    if libc.name_to_handle_at(-100, b'a/guarded/file', ctypes.byref(handle), ctypes.byref(mount), 0): raise SystemExit(3)
    fd = libc.open_by_handle_at(os.open(dir, os.O_RDONLY), ctypes.byref(handle), os.O_WRONLY | os.O_TRUNC)
    print('evil' if fd >= 0 and os.write(fd, b'evil') else 'refused')");
    let done = sandboxed(&sandbox).argv(nested(&[PYTHON, program.to_str().unwrap()])).lacks("evil");
    innocent(&sandbox);
    assert_eq!(done.out.lines().count(), 4, "{}", done.describe());
}

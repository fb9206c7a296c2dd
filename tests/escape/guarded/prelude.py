import ctypes, errno, mmap, os, select, shutil, signal, socket, stat, struct, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
PRESENT = ['.mcp.json', '.claude/hooks/hook', 'keep/secret', 'keep/deep/er/secret']
ABSENT = ['.envrc', '.claude/settings.json', '.claude/hooks/new', '.vscode', '.vscode/tasks.json', 'gone/far/secret',
          'pat/any/key', 'free2/absent']
DIRS = ['.claude', '.claude/hooks', 'keep', 'keep/deep', 'keep/deep/er', 'free2', 'pat']
ALL = PRESENT + ABSENT
AT_FDCWD, EMPTY_PATH, SYMLINK_FOLLOW = -100, 0x1000, 0x400
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
HERE = os.getcwd()


def attempt(what, *args, **more):
    """Whatever fails, fails; what is on the disk afterwards counts."""
    try:
        return what(*args, **more)
    except (OSError, ValueError):
        return None


def call(number, *args):
    words = [ctypes.c_char_p(os.fsencode(a)) if isinstance(a, (str, bytes)) else
             ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def renameat2(old, new, flags):
    return call(316, AT_FDCWD, old, AT_FDCWD, new, flags)


def put(path, text='new'):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


def parents():
    """The directories above absent names, as far as they may be made."""
    for path in ABSENT:
        attempt(os.makedirs, os.path.dirname(path) or '.', exist_ok=True)


def mine(name='mine'):
    attempt(put, name, 'mine')
    return name


def proof():
    """The sandbox still serves what is permitted."""
    os.chdir(HERE)
    put('proof')
    put('free/proof')


def compiled(source, *flags):
    """A C program's path."""
    path = os.path.join('free', 'program%d' % time.monotonic_ns())
    open(path + '.c', 'w').write(source)
    subprocess.run(['gcc', '-O1', '-pthread', '-w', '-o', path, path + '.c', *flags], check=True)
    return os.path.abspath(path)

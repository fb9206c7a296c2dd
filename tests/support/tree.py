"""Prints a directory tree: names, types, modes, link counts, extended attributes, contents; the path of the directory
above it is the same text everywhere. Times only where a program has set them: nothing here was written before 2020."""

import hashlib
import os
import stat
import sys

ROOT = os.fsencode(sys.argv[1])
# What holds times, inode numbers, or hashes of files that name the directory above.
NO_CONTENT = (b".pyc", b".git/index", b".dist-info/RECORD")
names = {}


def content(path, found):
    if stat.S_ISLNK(found.st_mode):
        return repr(os.readlink(path).replace(os.path.dirname(ROOT), b"BASE"))
    if not stat.S_ISREG(found.st_mode) or path.endswith(NO_CONTENT):
        return ""
    with open(path, "rb") as file:
        data = file.read().replace(os.path.dirname(ROOT), b"BASE")
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


def attributes(path):
    try:
        return sorted((name, os.getxattr(path, name, follow_symlinks=False))
                      for name in os.listxattr(path, follow_symlinks=False) if not name.startswith("security."))
    except OSError as error:
        return error.strerror


def show(path):
    found = os.lstat(path)
    first = names.setdefault(found.st_ino, path) if not stat.S_ISDIR(found.st_mode) else path
    old = found.st_mtime_ns if found.st_mtime < 1577836800 else "new"
    print(repr(path[len(ROOT):]), stat.filemode(found.st_mode), found.st_nlink, repr(first[len(ROOT):]), old,
          attributes(path), content(path, found))


show(ROOT)
for parent, directories, files in os.walk(ROOT):
    directories.sort()
    for name in sorted(directories + files):
        show(os.path.join(parent, name))

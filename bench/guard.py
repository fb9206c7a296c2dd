#!/usr/bin/env python3
"""What a guarded project costs, as an ordinary user: bench/guard.py STOCKADE [NAME...] [--quick] [--dir DIR...]

STOCKADE is a release build. NAMES are some of: cargo npm venv status grep add micro. Needs cc, git, and for their measures
cargo, npm, python3 with venv; cargo and npm fetch once, before anything is timed, with the network.

Each measure is taken in interleaved rounds, outside and inside, of the same command in the same directory, which is made
what it was before each. A command is timed by the process that starts it, inside, so that the launch is not in it
(bench/launch.py has that). Prints medians, their ratio, the quartiles of the rounds' own ratios, and what is aimed at.
Nothing here is a test. The project lies on each of DIR in turn: by default the home directory and /dev/shm.
"""

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from measure import quartiles

TIMER = """import subprocess, sys, time
for _ in range(int(sys.argv[1])):
    start = time.perf_counter()
    subprocess.run(sys.argv[2:], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(time.perf_counter() - start)
"""

# Some 30 crates to compile, few of them large.
DEPENDENCIES = ["clap@4.5", "serde_json@1", "toml@0.8", "thiserror@2", "globset@0.4", "walkdir@2"]
PACKAGES = {"eslint": "9.9.0", "express": "4.19.2", "chalk": "5.3.0", "lodash": "4.17.21"}

MICRO = r"""
#define _GNU_SOURCE
#define N 500
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static int compare(const void *a, const void *b) { double d = *(double *)a - *(double *)b; return (d > 0) - (d < 0); }
/* The median of the call alone. */
#define TIMED(name, call, undo) do { double spent[N]; for (int n = 0; n < N; n++) { double from = now(); int fd = call; \
    spent[n] = now() - from; if (fd < 0) perror(name); undo; } \
    qsort(spent, N, sizeof *spent, compare); printf("%s %f\n", name, spent[N / 2]); } while (0)
int main(void) {
    close(open("free/f", O_CREAT | O_WRONLY, 0644)); close(open("f", O_CREAT | O_WRONLY, 0644));
    TIMED("warm-up", open("free/f", O_RDONLY), close(fd));
    TIMED("open-read", open("f", O_RDONLY), close(fd));
    TIMED("continue", open("free/f", O_WRONLY), close(fd));
    TIMED("open-write", open("f", O_WRONLY), close(fd));
    TIMED("create", open("new", O_CREAT | O_EXCL | O_WRONLY, 0644), (close(fd), unlink("new")));
    TIMED("mkdir", mkdir("d", 0755), rmdir("d"));
    TIMED("create-free", open("free/new", O_CREAT | O_EXCL | O_WRONLY, 0644), (close(fd), unlink("free/new")));
    return 0;
}
"""
# In µs, what a call may cost inside more than outside.
MICRO_AIMS = {"continue": 12, "create": 75}


class Bench:
    """One project on one file system, with what belongs to it beside it on the disk."""

    def __init__(self, options, base, place):
        self.options, self.base = options, base
        self.project = os.path.join(place, "project")
        self.env = {"PATH": os.environ["PATH"], "HOME": base, "LANG": "C.UTF-8", "TMPDIR": "/tmp",
                    "STOCKADE_STATE": os.path.join(base, "state"), "CARGO_HOME": os.path.join(base, "cargo"),
                    "CARGO_NET_OFFLINE": "true", "npm_config_offline": "true", "npm_config_audit": "false",
                    "npm_config_fund": "false", "npm_config_update_notifier": "false",
                    "npm_config_cache": os.path.join(self.project, ".npm")}
        self.file_system = output(["stat", "-f", "-c", "%T", place]).strip().replace("ext2/ext3", "ext4")
        self.stockade = [options.stockade, "run", "--no-config", "--session", "bench", "--fast-path", options.fast_path,
                         *(f"--read={pattern}" for pattern in options.read), "--"]

    def fresh(self, template=None):
        """A new project, with the content of a directory."""
        shutil.rmtree(self.project, ignore_errors=True)
        if template:
            shutil.copytree(template, self.project, symlinks=True)
        else:
            os.mkdir(self.project)

    def shell(self, script, cwd=None, **env):
        subprocess.run(["sh", "-ec", script], cwd=cwd or self.project, env={**self.env, **env}, check=True, **QUIET)

    def run(self, argv, inside):
        argv = [*self.stockade, *argv] if inside else argv
        return output(argv, cwd=self.project, env=self.env)

    def compare(self, name, argv, rounds, aim, repeat=1, before=lambda: None):
        """`rounds` pairs of `repeat` calls each; `before` is done before each of the two."""
        times = {False: [], True: []}
        warm = [] if repeat == 1 and self.options.quick else [None]
        for number in [*warm, *range(rounds)]:
            for inside in random.sample([False, True], 2):
                before()
                found = self.run([sys.executable, "-c", TIMER, str(repeat), *argv], inside)
                if number is not None:
                    times[inside].append(statistics.median(map(float, found.split())))
        ratios = [inside / outside for outside, inside in zip(times[False], times[True], strict=True)]
        outside, inside = (statistics.median(times[which]) for which in (False, True))
        low, high = quartiles(ratios)
        print(f"{name:14} {self.file_system:6} n = {rounds} x {repeat:<3} outside {outside * 1e3:9.1f} ms   "
              f"inside {inside * 1e3:9.1f} ms   ratio {inside / outside:5.2f}   [{low:.2f}, {high:.2f}]   "
              f"aim {aim:.2f}{'' if inside / outside <= aim else '   MISSED'}", flush=True)

    def cargo(self):
        template = os.path.join(self.base, "crate")
        if not os.path.exists(template):
            os.mkdir(template)
            online = {"CARGO_NET_OFFLINE": "false"}
            self.shell("cargo init -q --name bench . && cargo add -q " + " ".join(DEPENDENCIES), template, **online)
            self.shell("rm -rf .git && cargo fetch -q", template, **online)
        self.fresh(template)
        crates = output(["grep", "-c", "^name", "Cargo.lock"], cwd=self.project).strip()
        clean = lambda: shutil.rmtree(os.path.join(self.project, "target"), ignore_errors=True)
        self.compare(f"cargo ({crates})", ["cargo", "build", "-q", "--offline"], self.rounds(10, 1), 1.05, before=clean)

    def npm(self):
        template = os.path.join(self.base, "package")
        if not os.path.exists(template):
            os.mkdir(template)
            online = {"npm_config_offline": "false", "npm_config_cache": os.path.join(template, ".npm")}
            wanted = ",".join(f'"{name}":"{version}"' for name, version in PACKAGES.items())
            with open(os.path.join(template, "package.json"), "w") as package:
                package.write(f'{{"name":"bench","version":"1.0.0","dependencies":{{{wanted}}}}}')
            self.shell("npm install --silent && rm -rf node_modules", template, **online)
        self.fresh(template)
        clean = lambda: shutil.rmtree(os.path.join(self.project, "node_modules"), ignore_errors=True)
        self.compare("npm ci", ["npm", "ci", "--silent"], self.rounds(20, 2), 1.05, before=clean)

    def venv(self):
        self.fresh()
        clean = lambda: shutil.rmtree(os.path.join(self.project, "venv"), ignore_errors=True)
        self.compare("venv", ["/usr/bin/python3", "-m", "venv", "venv"], self.rounds(20, 2), 1.05, before=clean)

    def repository(self, added):
        """5,000 files in 100 directories."""
        template = os.path.join(self.base, f"repository-{added}")
        if not os.path.exists(template):
            os.mkdir(template)
            for number in range(5000):
                directory = os.path.join(template, f"d{number % 100}")
                os.makedirs(directory, exist_ok=True)
                with open(os.path.join(directory, f"f{number}"), "w") as file:
                    file.write(f"content {number}\n" * 20)
            commit = "git -c user.name=n -c user.email=e commit -qm one"
            self.shell("git init -q; " + (f"git add -A; {commit}" if added else ""), template)
        self.fresh(template)

    def status(self):
        self.repository(added=True)
        self.shell("git status")
        self.compare("git status", ["git", "status", "--porcelain"], self.rounds(60, 5), 1.03, repeat=10)

    def grep(self):
        self.repository(added=True)
        self.compare("grep -r", ["grep", "-rc", "content 17", "."], self.rounds(60, 5), 1.03, repeat=5)

    def add(self):
        self.repository(added=False)
        before = lambda: self.shell("rm -rf .git; git init -q")
        self.compare("git add 5000", ["git", "add", "-A"], self.rounds(20, 2), 1.5, before=before)

    def micro(self):
        self.fresh()
        # What a run makes itself is not mounted: it is there before.
        os.mkdir(os.path.join(self.project, "free"))
        program = os.path.join(self.base, "micro")
        subprocess.run(["cc", "-O2", "-o", program, "-xc", "-"], input=MICRO.encode(), check=True)
        rounds = self.rounds(30, 5)
        found = {False: {}, True: {}}
        for _ in range(rounds):
            for inside in random.sample([False, True], 2):
                for line in self.run([program], inside).splitlines():
                    name, spent = line.split()
                    found[inside].setdefault(name, []).append(float(spent))
        for name in list(found[True])[1:]:
            outside, inside = (statistics.median(found[which][name]) for which in (False, True))
            more, aim = inside - outside, MICRO_AIMS.get(name)
            said = f"aim {aim} µs{'' if more <= aim else '   MISSED'}" if aim else ""
            print(f"{name:14} {self.file_system:6} n = {rounds} x 500 outside {outside:9.2f} µs   inside {inside:9.2f} µs   "
                  f"more  {more:5.1f} µs   {said}", flush=True)

    def rounds(self, full, quick):
        return quick if self.options.quick else full


QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
ALL = ["micro", "status", "grep", "add", "venv", "npm", "cargo"]


def output(argv, **how):
    return subprocess.run(argv, check=True, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **how).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stockade", type=os.path.abspath)
    parser.add_argument("names", nargs="*", metavar="name", default=ALL)
    parser.add_argument("--quick", action="store_true", help="few rounds: only to see that it works")
    parser.add_argument("--dir", action="append", help="where the project lies")
    parser.add_argument("--fast-path", choices=["on", "off"], default="on")
    parser.add_argument("--read", action="append", default=[], metavar="PATTERN",
                        help="a further rule, such as '$PROJECT/**/.git/config'")
    parser.add_argument("--root-ok", action="store_true", help="measure as root")
    options = parser.parse_intermixed_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if os.getuid() == 0 and not options.root_ok:
        sys.exit("run this as an ordinary user")
    print(f"uid {os.getuid()}, {os.uname().release}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    home = os.path.expanduser("~")
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(tempfile.TemporaryDirectory(dir=home))
        places = [stack.enter_context(tempfile.TemporaryDirectory(dir=place)) for place in options.dir or [home, "/dev/shm"]]
        for name in options.names:
            for place in places:
                getattr(Bench(options, base, place), name)()


main()

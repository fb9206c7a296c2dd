"""How calls are measured against each other: in turn, in random order within each round."""

import random
import statistics
import subprocess
import time

NULL = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def timed(argv, env):
    """Wall-clock seconds of one call, in which posix_spawn is the same for all."""
    start = time.perf_counter()
    subprocess.run(argv, env=env, check=True, **NULL)
    return time.perf_counter() - start


def told(argv, env):
    """The seconds that a call prints itself."""
    return float(subprocess.run(argv, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout)


def rounds(calls, pairs, env, before=lambda: None, clock=timed):
    """Seconds of each call by `clock`, by name and round: run in turn, in random order within each round. `before` is done
    before each, and not timed."""
    times = {name: [] for name in calls}
    for number in range(pairs + 1):
        for name in random.sample(list(calls), len(calls)):
            before()
            spent = clock(calls[name], env)
            # The first round fills caches.
            if number > 0:
                times[name].append(spent)
    return times


def interleaved(calls, pairs, env):
    """Medians of the calls, run in turn."""
    return {name: statistics.median(values) for name, values in rounds(calls, pairs, env).items()}


def quartiles(values):
    """The first and the third."""
    if len(values) < 2:
        return values[0], values[0]
    found = statistics.quantiles(values, n=4, method="inclusive")
    return found[0], found[2]

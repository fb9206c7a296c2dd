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


def interleaved(calls, pairs, env):
    """Medians of the calls, run in turn, in random order within each round."""
    times = {name: [] for name in calls}
    for name in calls:
        timed(calls[name], env)
    for _ in range(pairs):
        for name in random.sample(list(calls), len(calls)):
            times[name].append(timed(calls[name], env))
    return {name: statistics.median(values) for name, values in times.items()}

#!/usr/bin/env python3
"""What sessions and jobs cost: bench/sessions.py STOCKADE [--small]

Prints ratios taken in one run, in interleaved pairs. `--small` takes a tenth of everything. Nothing here is a test, but
the big round counts what is lost and exits with 1 if anything is.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

NULL = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
PARTS = ("sessions", "runs", "trash")
WRITER = """import os, sys, time
block = b"x" * 65535 + b"\\n"
begin = time.perf_counter()
for _ in range(int(sys.argv[1])):
    os.write(1, block)
open("took", "w").write(str(time.perf_counter() - begin))
"""


class Bench:
    def __init__(self, stockade, base, scale):
        self.stockade, self.base, self.scale = stockade, base, scale
        self.project, self.home = os.path.join(base, "p"), os.path.join(base, "h")
        self.wrong = []
        for path in (self.project, self.home):
            os.mkdir(path)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.home}

    def with_state(self, name):
        self.env["STOCKADE_STATE"] = os.path.join(self.base, name)

    def call(self, *words, check=True):
        argv = [self.stockade, *words]
        done = subprocess.run(argv, env=self.env, cwd=self.project, text=True, capture_output=True, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            sys.exit(f"{argv}: {done.returncode}\n{done.stderr}")
        return done

    def job(self, session, *command):
        return self.call("run", "--no-config", "--detach", "--session", session, "--", *command).stdout.strip()

    def timed(self, *words):
        begin = time.perf_counter()
        self.call(*words)
        return time.perf_counter() - begin

    def log_throughput(self):
        """Writing into a job's log against writing into a pipe that cat reads, by the writer's own clock."""
        blocks = 16384 // self.scale
        took = lambda: float(open(os.path.join(self.project, "took")).read())
        cat, log, size = [], [], 0
        for _ in range(5):
            line = f"/usr/bin/python3 -c '{WRITER}' {blocks} | cat > /dev/null"
            subprocess.run(["sh", "-c", line], env=self.env, cwd=self.project, check=True)
            cat.append(took())
            job = self.job("log", "/usr/bin/python3", "-c", WRITER, str(blocks))
            self.call("job", "wait", job)
            log.append(took())
            path = json.loads(self.call("job", "show", job, "--json").stdout)["path"]
            size = sum(os.stat(entry.path).st_size for entry in os.scandir(os.path.join(path, "log")))
            self.call("job", "rm", job)
        self.call("session", "end", "log")
        print(f"log: {blocks >> 4} MiB, {size / (1 << 20):.1f} MiB kept, throughput {statistics.median(cat) / statistics.median(log):.2f} of a pipe (best {min(cat) / min(log):.2f})")
        if size > 64 << 20:
            self.wrong.append("log is larger than its limit")

    def many_sessions(self):
        """A launch with many sessions against a launch with one, then the end of them all."""
        count = 1000 // self.scale
        run = ("run", "--no-config", "--session", "s", "--", "true")
        self.with_state("many")
        owner = subprocess.Popen(["sleep", "1000"])
        for n in range(count):
            self.call("session", "start", f"n{n}", "--owner", str(owner.pid))
        times = {"one": [], "many": []}
        for _ in range(100 // self.scale + 5):
            for state in random.sample(list(times), 2):
                self.with_state(state)
                times[state].append(self.timed(*run))
        one, many = (statistics.median(times[state]) for state in ("one", "many"))
        print(f"launch with {count} sessions: {many / one:.3f} of one with none ({many * 1e3:.1f} ms)")
        owner.kill()
        owner.wait()
        self.with_state("many")
        took = self.timed("gc")
        left = json.loads(self.call("session", "list", "--json").stdout)
        print(f"gc of {count} dead sessions: {took:.2f} s, {len(left)} left")
        if any(session["id"].startswith("n") for session in left):
            self.wrong.append("gc left a dead session")

    def shared_network(self):
        """A run in a session of its own, the first of a session, and one that finds another's network."""
        self.with_state("network")
        words = {"own": (), "first": ("--session", "first"), "joining": ("--session", "joined")}
        self.job("joined", "sleep", "1000")
        times = {name: [] for name in words}
        for _ in range(100 // self.scale + 5):
            for name in random.sample(list(words), 3):
                times[name].append(self.timed("run", "--no-config", *words[name], "--", "true"))
        own, first, joining = (statistics.median(times[name]) for name in words)
        print(f"network: first of a session {first / own:.2f}, joining {joining / own:.2f} of a run of its own ({own * 1e3:.1f} ms)")
        self.call("session", "end", "--kill", "joined")

    def round_of_jobs(self):
        """100 jobs in 10 sessions, 30 supervisors killed, 5 sessions ended: nothing unaccounted for."""
        self.with_state("round")
        marker = f"{random.randrange(1 << 40)}"
        sleep = ("sh", "-c", f": {marker}; sleep 1000")
        jobs = [self.job(f"r{n % 10}", *sleep) for n in range(100 // self.scale)]
        shown = {job["id"]: job for job in json.loads(self.call("job", "list", "--json").stdout)}
        killed = random.sample(jobs, len(jobs) * 3 // 10)
        for job in killed:
            os.kill(shown[job]["supervisor"], signal.SIGKILL)
        ended = [f"r{n}" for n in range(0, min(10, len(jobs)), 2)]
        for session in ended:
            self.call("session", "end", "--kill", session)
        time.sleep(0.5)
        after = {job["id"]: job["state"] for job in json.loads(self.call("job", "list", "--json").stdout)}
        for job in jobs:
            gone = shown[job]["session"] in ended
            expected = None if gone else "lost" if job in killed else "running"
            if after.get(job) != expected:
                self.wrong.append(f"job {job} is {after.get(job)}, not {expected}")
        for session in {shown[job]["session"] for job in jobs} - set(ended):
            self.call("session", "end", "--kill", session)
        time.sleep(0.5)
        alive = [line for line in subprocess.run(["ps", "-eo", "pid,args"], text=True, capture_output=True).stdout.splitlines() if marker in line]
        left = [name for part in PARTS for machine in machines(self.env) for name in listed(os.path.join(machine, part))]
        print(f"round: {len(jobs)} jobs, {len(killed)} supervisors killed, {len(ended)} sessions ended: {len(alive)} processes and {len(left)} files too many")
        self.wrong += alive + left

    def long_job(self):
        """A job writes every 0.1 s while foreground runs come and go and its harness is killed; then all goes with the owner."""
        self.with_state("long")
        lines, runs = 100 // self.scale + 10, 50 // self.scale
        script = f"for i in $(seq {lines}); do echo $i >> /tmp/p; sleep 0.1; done"
        harness = subprocess.Popen(["sh", "-c", f"{self.stockade} run --no-config --session s --owner $$ --detach -- sh -c '{script}' > {self.base}/id; sleep 1000"], env=self.env, cwd=self.project, start_new_session=True, **NULL)
        while not (os.path.exists(f"{self.base}/id") and os.stat(f"{self.base}/id").st_size):
            time.sleep(0.01)
        for n in range(runs):
            self.call("run", "--no-config", "--session", "s", "--", "true")
            if n == runs // 2:
                os.killpg(harness.pid, signal.SIGKILL)
                harness.wait()
        status = self.call("job", "wait", open(f"{self.base}/id").read().strip(), check=False).returncode
        content = self.call("run", "--no-config", "--session", "s", "--", "cat", "/tmp/p").stdout.split()
        self.call("gc")
        left = [name for part in PARTS for machine in machines(self.env) for name in listed(os.path.join(machine, part))]
        print(f"long job: status {status}, {len(content)} of {lines} lines, {len(left)} sessions left")
        if status != 0 or len(content) != lines or left:
            self.wrong.append("long job")


def machines(env):
    state = env["STOCKADE_STATE"]
    return [os.path.join(state, name) for name in os.listdir(state) if re.search("^[0-9a-f]{32}$|^host-", name)]


def listed(path):
    return os.listdir(path) if os.path.isdir(path) else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stockade")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    base = tempfile.mkdtemp(prefix="sessions", dir="/var/tmp")
    bench = Bench(os.path.abspath(args.stockade), base, 10 if args.small else 1)
    try:
        bench.with_state("first")
        bench.log_throughput()
        bench.many_sessions()
        bench.shared_network()
        bench.round_of_jobs()
        bench.long_job()
    finally:
        shutil.rmtree(base, ignore_errors=True)
    for wrong in bench.wrong:
        print("wrong:", wrong)
    return bool(bench.wrong)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The load generators: memtier_benchmark and redis-benchmark, and how to read what they print."""
import json
import os
import re
import shutil
import subprocess

from cells import KEYS


class Memtier:
    """Mixes SET and GET on every connection; runs for a time."""
    name = "memtier_benchmark"

    def __init__(self, program, directory, rate=None):
        self.program, self.rate = program, rate
        self.json = os.path.join(directory, "memtier.json")

    def key_names(self, cell):
        return (b"%s%d" % (cell.key_prefix.encode(), i) for i in range(1, KEYS + 1))

    def phases(self, cell):
        return (cell.commands,)

    def command(self, cell, _phase, target, seconds):
        threads = min(target.threads, cell.connections)
        command = [self.program, "-s", "127.0.0.1", "-p", str(target.port), "-t", str(threads),
                   "-c", str(cell.connections // threads), "--pipeline", str(cell.pipeline),
                   "-d", str(cell.value_bytes), "--key-prefix", cell.key_prefix,
                   "--key-minimum", "1", "--key-maximum", str(KEYS), "--key-pattern", "R:R",
                   "--ratio", "1:1" if cell.sets else "0:1", "--distinct-client-seed",
                   "--test-time", str(round(seconds)), "--hide-histogram",
                   "--json-out-file", self.json]
        if self.rate:
            command += ["--rate-limiting", str(self.rate)]
        return command + (["--cluster-mode"] if target.direct else [])

    def result(self, _output):
        with open(self.json) as file:
            totals = json.load(file)["ALL STATS"]["Totals"]
        found = totals["Percentile Latencies"]
        return {"p50": found["p50.00"], "p99": found["p99.00"], "p999": found["p99.90"],
                "tool_rate": totals["Ops/sec"]}


class RedisBenchmark:
    """Runs one command at a time, so a cell with SET and GET is two phases; runs for a count, which
    is found with a short run before."""
    name = "redis-benchmark"

    def __init__(self, program, _directory, _rate=None):
        self.program = program

    def key_names(self, cell):
        return (b"%s%012d" % (cell.key_prefix.encode(), i) for i in range(KEYS))

    def phases(self, cell):
        return tuple((command,) for command in cell.commands)

    def command(self, cell, phase, target, seconds):
        first = cell.connections * cell.pipeline * 10
        rate = self._rate(self._run(cell, phase, target, max(first, 20_000)))
        return self._command(cell, phase, target, int(rate * seconds))

    def _command(self, cell, phase, target, requests):
        # Cluster mode replaces {tag} by a tag for one of the node's slots.
        key = cell.key_prefix + ("{tag}:" if target.direct else "") + "__rand_int__"
        command = [self.program, "-h", "127.0.0.1", "-p", str(target.port),
                   "-P", str(cell.pipeline), "-c", str(cell.connections), "-n", str(requests),
                   "-r", str(KEYS)]
        if target.direct:
            command += ["--cluster"]
        if target.threads > 1 and cell.connections > 1:
            command += ["--threads", str(target.threads)]
        return command + [phase[0].upper(), key] + \
            (["x" * cell.value_bytes] if phase[0] == "set" else [])

    def _run(self, cell, phase, target, requests):
        return subprocess.run(self._command(cell, phase, target, requests), check=True, timeout=60,
                              text=True, stdin=subprocess.DEVNULL, capture_output=True).stdout

    @staticmethod
    def _rate(output):
        return float(re.search(r"throughput summary: ([\d.]+)", output)[1])

    def result(self, output):
        summary = re.search(r"latency summary \(msec\):\s+avg\s.*?\n\s*([\d. ]+)", output)[1]
        _avg, _min, p50, _p95, p99, _max = (float(each) for each in summary.split())
        spread = output.split("Cumulative distribution")[0]
        p999 = next(float(latency) for percent, latency in
                    re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds", spread)
                    if float(percent) >= 99.9)
        return {"p50": p50, "p99": p99, "p999": p999, "tool_rate": self._rate(output)}


class Target:
    """Where a load goes: a proxy's port, or a node of a cluster."""

    def __init__(self, port, threads, direct):
        self.port, self.threads, self.direct = port, threads, direct


KINDS = {kind.name: kind for kind in (Memtier, RedisBenchmark)}


def find(name, program=None):
    """The class and program of a load generator; without a name the first that there is."""
    for each in [name] if name else list(KINDS):
        path = shutil.which(program or each)
        if path:
            return KINDS[each], path
    raise SystemExit(f"no {name or ' or '.join(KINDS)} on PATH")

# SPDX-License-Identifier: Apache-2.0
"""One sample: a fresh proxy under one cell's load. A window in the middle of the load is measured;
commands are counted by the servers, CPU by the kernel's clocks of each process."""
import os
import subprocess
import time

import machine
from load import Target

MARGIN = 0.5  # and at least behind it: a generator may linger when it is done


class Failed(RuntimeError):
    """The load generator or the proxy did not get through."""


class Meter:
    """Everything that is read at both ends of a window."""

    def __init__(self, proxy, servers, load_pid):
        self.proxy, self.servers, self.load_pid = proxy, servers, load_pid

    def read(self):
        """None when the load has ended: it has no clock then."""
        try:
            return self._read()
        except OSError:
            return None

    def _read(self):
        values = {"seconds": time.monotonic(), "busy": machine.busy_seconds(),
                  "server_cpu": self.servers.cpu_seconds(),
                  "load_cpu": machine.cpu_seconds(self.load_pid), "own_cpu": time.process_time(),
                  "proxy_cpu": self.proxy.cpu_seconds() if self.proxy else 0.0}
        values.update(self.servers.counters())
        values.update(self.proxy.counters() if self.proxy else {})
        return values


def window(proxy, servers, command, settle, seconds, directory):
    """Runs a load generator; returns its output and the differences over the window, or None for
    them when it ended too early."""
    output = os.path.join(directory, "load.out")
    with open(output, "w") as out:
        load = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT, cwd=directory)
    try:
        meter = Meter(proxy, servers, load.pid)
        time.sleep(settle)
        first = meter.read()
        time.sleep(seconds)
        last = meter.read()
        load.wait(120)
        if last and time.monotonic() - last["seconds"] < MARGIN:
            last = None
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
    with open(output, errors="replace") as file:
        text = file.read()
    if load.returncode != 0:
        raise Failed(f"the load generator ended with {load.returncode}: {text[-200:]}")
    if not first or not last:
        return text, None
    return text, {name: last[name] - first[name] for name in first if name in last}


def phase_sample(load, cell, phase, proxy, servers, target, settle, seconds, directory):
    """One phase's window and the load's own result. A load that ended before its window did is run
    again, longer."""
    wanted = settle + seconds + 2 * MARGIN
    for _ in range(4):
        command = load.command(cell, phase, target, wanted)
        text, deltas = window(proxy, servers, command, settle, seconds, directory)
        if proxy and not proxy.is_alive():
            raise Failed(f"{proxy.arm.name} died under load: see {proxy.log}")
        if deltas:
            return deltas, load.result(text)
        wanted *= 1.6
    raise Failed("the load never lasted as long as its window")


def take(arm, cell, mode, load, servers, settle, seconds, directory):
    """One sample as a flat dictionary; `settle` seconds of load come before its window."""
    proxy = None if arm.direct else arm.start(mode, servers, directory)
    try:
        port = servers.nodes[0].port if arm.direct else proxy.port
        if not (arm.direct and load.name == "redis-benchmark"):
            servers.fill((load.name, cell.key_prefix), cell.value_bytes, load.key_names(cell), port)
        target = Target(port, mode.load_threads, arm.direct)
        phases = [phase_sample(load, cell, phase, proxy, servers, target, settle, seconds,
                               directory)
                  for phase in load.phases(cell)]
    finally:
        if proxy:
            proxy.stop()
    return figures([deltas for deltas, _ in phases], [result for _, result in phases], cell)


def figures(deltas, results, cell):
    """Figures per command. Phases weigh the same: rates by their harmonic mean, costs and p50 by
    their mean; of high percentiles the worse."""
    phases = len(deltas)
    rates = [each["commands"] / each["seconds"] for each in deltas]

    def per_command(name):
        if not all(name in each for each in deltas):
            return None
        return sum(each[name] / each["commands"] for each in deltas) / phases

    total = {name: sum(each.get(name, 0) for each in deltas)
             for name in ("seconds", "busy", "own_cpu", "proxy_cpu", "server_cpu", "load_cpu",
                          "commands", "misses")}
    known = sum(total[name] for name in ("own_cpu", "proxy_cpu", "server_cpu", "load_cpu"))
    gets = total["commands"] / len(cell.commands)
    return {
        "rate": phases / sum(1 / rate for rate in rates),
        "tool_rate": phases / sum(1 / each["tool_rate"] for each in results),
        "p50": sum(each["p50"] for each in results) / phases,
        "p99": max(each["p99"] for each in results),
        "p999": max(each["p999"] for each in results),
        "proxy_us": 1e6 * per_command("proxy_cpu") if total["proxy_cpu"] else None,
        "server_us": 1e6 * per_command("server_cpu"),
        "load_us": 1e6 * per_command("load_cpu"),
        "turns": per_command("turns"),
        "handed_over": per_command("handed_over"),
        "wakes": per_command("wakes"),
        "sends": per_command("sends"),
        "proxy_cpus": total["proxy_cpu"] / total["seconds"],
        "foreign_cpus": max(0.0, (total["busy"] - known) / total["seconds"]),
        "missed": total["misses"] / gets,
    }

# SPDX-License-Identifier: Apache-2.0
"""What is compared: the cluster without a proxy, Penstock (any number of binaries and settings) and
other proxies whose programs are on this machine. A proxy is started anew for every sample."""
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time

import machine
from servers import Connection, free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Predixy for one cluster without passwords; it logs next to nothing.
PREDIXY = """\
Name compare
Bind 127.0.0.1:{port}
WorkerThreads {workers}
ClientTimeout 300
Log {directory}/predixy.log
LogInfoSample 10000
Authority {{
    Auth {{
        Mode write
    }}
}}
ClusterServerPool {{
    MasterReadPriority 60
    StaticSlaveReadPriority 0
    DynamicSlaveReadPriority 0
    RefreshInterval 1
    ServerTimeout 1
    ServerFailureLimit 10
    ServerRetryTimeout 1
    KeepAlive 120
    Servers {{
{servers}
    }}
}}
"""

# Twemproxy knows no cluster: it spreads keys over plain servers by a hash of its own.
NUTCRACKER = """\
compare:
  listen: 127.0.0.1:{port}
  hash: fnv1a_64
  distribution: ketama
  redis: true
  preconnect: true
  auto_eject_hosts: false
  timeout: 2000
  backlog: 4096
  servers:
{servers}
"""


class Arm:
    """One proxy. The command's program decides how it is told its port, workers and servers: a
    {port} in the command means that the command says everything itself."""
    direct = False

    def __init__(self, name, command):
        self.name, self.words = name, shlex.split(command)
        self.program = os.path.abspath(shutil.which(self.words[0]) or ROOT / self.words[0])
        self.exists = os.access(self.program, os.X_OK)
        kind = os.path.basename(self.program)
        self.plain_servers = kind == "nutcracker"
        self.is_penstock = "{port}" not in command and kind not in ("nutcracker", "predixy")
        self._arguments = {"predixy": self._predixy, "nutcracker": self._nutcracker}.get(
            kind, self._penstock if self.is_penstock else self._any)

    def _penstock(self, port, workers, servers, _directory):
        seeds = ",".join(f'"{each}"' for each in servers)
        return ["--set", f'server.listen=["127.0.0.1:{port}"]', "--set",
                f"server.workers={workers}", "--set", f"cluster.seeds=[{seeds}]"] + self.words[1:]

    def _any(self, port, workers, servers, directory):
        known = {"port": port, "workers": workers, "servers": ",".join(servers),
                 "server": servers[0], "directory": directory}
        return [re.sub(r"{(\w+)}", lambda found: str(known[found[1]]), word)
                for word in self.words[1:]]

    @staticmethod
    def _predixy(port, workers, servers, directory):
        listed = "\n".join(f"        + {each}" for each in servers)
        return [write(directory, "predixy.conf", PREDIXY.format(
            port=port, workers=workers, directory=directory, servers=listed))]

    @staticmethod
    def _nutcracker(port, _workers, servers, directory):
        listed = "\n".join(f"   - {each}:1" for each in servers)
        return ["-c", write(directory, "nutcracker.yml",
                            NUTCRACKER.format(port=port, servers=listed)),
                "-a", "127.0.0.1", "-s", str(free_ports(2)[1]), "-v", "4"]

    def start(self, mode, servers, directory):
        return Proxy(self, mode, servers, directory)


class Direct:
    """The cluster itself, by a client that knows it."""
    name, direct, plain_servers, is_penstock, exists = "direct", True, False, False, True


class Proxy:
    """A running proxy, alone on its CPUs."""

    def __init__(self, arm, mode, servers, directory):
        self.arm, self.port = arm, free_ports(1)[0]
        command = [arm.program] + arm._arguments(self.port, mode.workers, servers.addresses,
                                                 directory)
        self.log = os.path.join(directory, f"{arm.name}.log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=directory,
                                            preexec_fn=lambda: prepare(mode.proxy_cpus))
        self.pid = self.process.pid
        self._wait_until_serving()

    def _wait_until_serving(self):
        deadline = time.monotonic() + 15
        while not self._serves():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.arm.name} does not serve: see {self.log}")
            time.sleep(0.05)

    def _serves(self):
        """Whether keys of every server are answered."""
        try:
            with Connection(self.port, timeout=2) as connection:
                replies = connection.pipeline([("GET", f"probe:{i}") for i in range(20)])
        except (OSError, ValueError):
            return False
        return all(reply is None for reply in replies)

    def cpu_seconds(self):
        return machine.cpu_seconds(self.pid)

    def counters(self):
        """What Penstock counts itself, summed over its workers."""
        if not self.arm.is_penstock:
            return {}
        with Connection(self.port, timeout=10) as connection:
            info = connection.call("INFO", "workers", "sharding").decode()
        lines = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
        names = {"turns": "turns", "sends": "sends", "wakes": "sharding_wakes",
                 "handed_over": "sharding_requests_handed_over"}
        return {name: int(lines[field]) for name, field in names.items() if field in lines}

    def is_alive(self):
        return self.process.poll() is None

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_alive():
                return
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass


def prepare(cpus):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if cpus:
        os.sched_setaffinity(0, cpus)


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def parse(names, extra):
    """`names`: in order; `extra`: NAME=COMMAND. Those whose program is missing are left out."""
    commands = {"penstock": os.environ.get("PENSTOCK", "build/release/penstock"),
                "predixy": "predixy", "nutcracker": "nutcracker"}
    given = dict(each.split("=", 1) for each in extra)
    arms = [Direct() if name == "direct" else Arm(name, {**commands, **given}[name])
            for name in list(dict.fromkeys(list(names) + list(given)))]
    for arm in arms:
        if not arm.exists:
            print(f"{arm.name}: no {arm.program}, left out", flush=True)
    return [arm for arm in arms if arm.exists]

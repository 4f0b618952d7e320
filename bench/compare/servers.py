# SPDX-License-Identifier: Apache-2.0
"""The servers behind the proxies: a cluster of three masters, and three plain ones for a proxy
that knows no cluster. Their own counters say how many commands really ran."""
import binascii
import pathlib
import shutil
import sys
import tempfile

import machine

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/integration"))
from support import Cluster, Connection, Node  # noqa: E402
from support.ports import free_ports  # noqa: E402
from support.slots import SLOTS, slots_of_shard  # noqa: E402

# A thousand clients connect at once.
OPTIONS = ("--tcp-backlog", "4096", "--maxclients", "20000")


class Servers:
    """Three servers, watched over connections that stay open."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.pids = [node.process.pid for node in nodes]
        self.addresses = [f"{node.host}:{node.port}" for node in nodes]
        self.filled = set()
        self._watchers = [node.connect() for node in nodes]

    def pin(self, cpus):
        for pid in self.pids:
            machine.pin(pid, cpus)

    def cpu_seconds(self):
        return sum(machine.cpu_seconds(pid) for pid in self.pids)

    def counters(self):
        """GETs and SETs that ran, and the GETs that found nothing."""
        totals = {"commands": 0, "misses": 0}
        for watcher in self._watchers:
            info = watcher.call("INFO", "commandstats", "stats").decode()
            lines = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
            for command in ("get", "set"):
                calls = lines.get(f"cmdstat_{command}", "calls=0,").split(",")[0]
                totals["commands"] += int(calls.removeprefix("calls="))
            totals["misses"] += int(lines["keyspace_misses"])
        return totals

    def version(self):
        return self.nodes[0].info("server")["redis_version"]

    def close(self):
        for watcher in self._watchers:
            watcher.close()


class ClusterServers(Servers):
    def __init__(self):
        self.cluster = Cluster(3, 0, OPTIONS)
        super().__init__(self.cluster.nodes)

    def fill(self, what, value_bytes, names, _port):
        """Writes every key of a cell straight to its node, once."""
        if what in self.filled:
            return
        slots = [slots_of_shard(index, len(self.nodes)) for index in range(len(self.nodes))]
        keys = [[] for _ in slots]
        for name in names:
            slot = binascii.crc_hqx(name, 0) % SLOTS  # the specification's CRC16
            keys[next(i for i, owned in enumerate(slots) if slot in owned)].append(name)
        for node, its_keys in zip(self.nodes, keys):
            write(node.port, its_keys, value_bytes)
        self.filled.add(what)

    def stop(self):
        self.close()
        self.cluster.stop()


class PlainServers(Servers):
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="penstock-plain-")
        super().__init__([Node(port, self.directory, OPTIONS, cluster=False).start()
                          for port in free_ports(3)])

    def fill(self, what, value_bytes, names, port):
        """The same through a proxy: only it knows which server takes which key."""
        if what in self.filled:
            return
        write(port, list(names), value_bytes)
        self.filled.add(what)

    def stop(self):
        self.close()
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def write(port, keys, value_bytes):
    value = b"x" * value_bytes
    with Connection(port, timeout=60) as connection:
        for first in range(0, len(keys), 100):
            for reply in connection.pipeline([("SET", key, value)
                                              for key in keys[first:first + 100]]):
                assert reply == "OK", reply

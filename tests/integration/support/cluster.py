"""A real Redis Cluster on loopback: started fast, broken on purpose, and taken down again."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile

from .resp import Connection, Error
from .wait import wait_until

SERVER = os.environ.get("REDIS_SERVER", "redis-server")
SLOTS = 16384


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot_of(key):
    """The hash slot of a key, by the cluster specification."""
    if isinstance(key, str):
        key = key.encode()
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1:end]
    return crc16(key) % SLOTS


def free_ports(count):
    """Ports whose cluster bus port (+10000) is free too."""
    ports = []
    candidate = 20000 + os.getpid() * 37 % 15000
    while len(ports) < count:
        candidate = candidate + 1 if candidate < 45000 else 20000
        try:
            for port in (candidate, candidate + 10000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        ports.append(candidate)
    return ports


class Node:
    """One redis-server process."""

    def __init__(self, port, directory, options=(), host="127.0.0.1", cluster=True):
        self.port, self.host, self.options = port, host, list(options)
        self.directory = os.path.join(directory, str(port))
        self.cluster = cluster
        self.process = None

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        command = [SERVER, "--port", str(self.port), "--bind", self.host, "--dir", self.directory,
                   "--save", "", "--appendonly", "no", "--logfile", "log",
                   "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]
        if self.cluster:
            command += ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                        "--cluster-node-timeout", "2000"]
        self.process = subprocess.Popen(command + self.options, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.answers, what=f"redis-server on {self.port}")
        return self

    def answers(self):
        try:
            with self.connect(timeout=1) as connection:
                return connection.call("PING") is not None
        except OSError:
            return False

    def connect(self, timeout=15.0):
        connection = Connection(self.port, self.host, timeout)
        password = self._option("--requirepass")
        if password:
            connection.call("AUTH", password)
        return connection

    def _option(self, name):
        return self.options[self.options.index(name) + 1] if name in self.options else None

    def call(self, *words):
        """One command straight to this node."""
        with self.connect() as connection:
            return connection.call(*words)

    def info(self, section="all"):
        """INFO as a dictionary of texts."""
        lines = self.call("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    @property
    def id(self):
        return self.call("CLUSTER", "MYID").decode()

    def is_master(self):
        return self.info("replication")["role"] == "master"

    def kill(self):
        """kill -9; whatever it held is lost."""
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """`masters` shards with `replicas` replicas each; slots are split evenly, in order of ports."""

    def __init__(self, masters=3, replicas=0, options=(), host="127.0.0.1"):
        self.directory = tempfile.mkdtemp(prefix="penstock-cluster-")
        ports = free_ports(masters * (1 + replicas))
        self.nodes = [Node(port, self.directory, options, host) for port in ports]
        self.shards = masters
        try:
            for node in self.nodes:
                node.start()
            self._form(masters, replicas)
        except BaseException:
            self.stop()
            raise

    def _form(self, masters, replicas):
        for index, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for index, node in enumerate(self.nodes[:masters]):
            first, last = SLOTS * index // masters, SLOTS * (index + 1) // masters - 1
            node.call("CLUSTER", "ADDSLOTSRANGE", first, last)
        first = self.nodes[0]
        for node in self.nodes[1:]:
            node.call("CLUSTER", "MEET", first.host, first.port)
        self._wait_known()
        for index, node in enumerate(self.nodes[masters:]):
            master = self.nodes[index % masters]
            wait_until(lambda n=node, m=master: n.call("CLUSTER", "REPLICATE", m.id) == "OK",
                       what="CLUSTER REPLICATE")
        self.wait_ok()

    def _wait_known(self):
        count = str(len(self.nodes))
        for node in self.nodes:
            wait_until(lambda n=node: self.cluster_info(n)["cluster_known_nodes"] == count,
                       what="nodes to know each other")

    @staticmethod
    def cluster_info(node):
        lines = node.call("CLUSTER", "INFO").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def wait_ok(self, timeout=30.0):
        """Until every live node sees the cluster as ok and every live replica is in sync."""
        for node in self.live():
            wait_until(lambda n=node: self.cluster_info(n)["cluster_state"] == "ok", timeout,
                       what=f"cluster_state:ok on {node.port}")
            wait_until(lambda n=node: n.is_master() or
                       n.info("replication").get("master_link_status") == "up", timeout,
                       what=f"replica {node.port} to be in sync")

    def live(self):
        return [node for node in self.nodes if node.process]

    @property
    def seeds(self):
        return [f"{node.host}:{node.port}" for node in self.nodes]

    def masters(self):
        return [node for node in self.live() if node.is_master()]

    def node_by_id(self, node_id):
        return next(node for node in self.live() if node.id == node_id)

    def owner_of(self, slot):
        """The live master that owns a slot, by the nodes' own map."""
        for node in self.live():
            for entry in node.call("CLUSTER", "SLOTS"):
                if entry[0] <= slot <= entry[1]:
                    port = entry[2][1]
                    return next((n for n in self.live() if n.port == port), None)
        return None

    def replicas_of(self, master):
        master_id = master.id
        out = []
        for line in master.call("CLUSTER", "NODES").decode().splitlines():
            fields = line.split(" ")
            if fields[3] == master_id:
                port = int(fields[1].split("@")[0].rsplit(":", 1)[1])
                out += [node for node in self.live() if node.port == port]
        return out

    def begin_migration(self, slot, target):
        """Marks the slot as migrating to `target`; keys stay where they are. Returns the source."""
        source = self.owner_of(slot)
        assert target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id) == "OK"
        assert source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id) == "OK"
        return source

    @staticmethod
    def migrate_keys(source, target, *keys):
        reply = source.call("MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys)
        assert not isinstance(reply, Error), reply

    def finish_migration(self, slot, source, target):
        """Moves the keys that are left and gives the slot to `target`."""
        while True:
            keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, 100)
            if not keys:
                break
            self.migrate_keys(source, target, *keys)
        target_id = target.id
        for node in [target, source] + [n for n in self.masters() if n not in (source, target)]:
            node.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def migrate_slot(self, slot, target):
        source = self.begin_migration(slot, target)
        self.finish_migration(slot, source, target)
        return source

    def fail_over(self, master):
        """A planned failover to a replica of `master`; returns the new master."""
        replica = self.replicas_of(master)[0]
        assert replica.call("CLUSTER", "FAILOVER") == "OK"
        wait_until(replica.is_master, what="the failover")
        return replica

    def flush(self):
        for node in self.masters():
            node.call("FLUSHALL")

    def stop(self):
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()



# SPDX-License-Identifier: Apache-2.0
"""A real Redis Cluster on loopback: started fast, broken on purpose, and taken down again."""
import os
import shutil
import signal
import subprocess
import tempfile

from .ports import free_port, free_ports
from .resp import Connection
from .slots import slot_of, slots_of_shard
from .wait import wait_until

SERVER = os.environ.get("REDIS_SERVER", "redis-server")

# Options of a cluster. A node that hangs, on a busy machine or made to, is not taken for dead:
PATIENT = ("--cluster-node-timeout", "600000")
# Other shards keep answering while one is lost:
PARTIAL = ("--cluster-require-full-coverage", "no")


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
                   "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0",
                   "--repl-ping-replica-period", "1"]
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

    def connect(self, timeout=30.0):
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

    def fields(self, *words):
        """The reply to INFO or CLUSTER INFO as a dictionary of texts."""
        lines = self.call(*words).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def info(self, section="all"):
        return self.fields("INFO", section)

    def calls(self, command):
        """How often it has run a command."""
        text = self.info("commandstats").get(f"cmdstat_{command}", "calls=0,")
        return int(text.split("calls=")[1].split(",")[0])

    def cluster_info(self, name):
        return self.fields("CLUSTER", "INFO").get(name)

    @property
    def id(self):
        return self.call("CLUSTER", "MYID").decode()

    @property
    def seed(self):
        """Its address as the proxy's configuration has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

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


def start_plain_server(add_cleanup, options=()):
    """An ordinary server without a cluster."""
    directory = tempfile.TemporaryDirectory(prefix="penstock-plain-")
    add_cleanup(directory.cleanup)
    plain = Node(free_port(), directory.name, options, cluster=False)
    add_cleanup(plain.kill)
    return plain.start()


class Cluster:
    """`masters` shards with `replicas` replicas each; slots are split evenly, in order of ports."""

    def __init__(self, masters=3, replicas=0, options=(), host="127.0.0.1"):
        self.directory = tempfile.mkdtemp(prefix="penstock-cluster-")
        ports = free_ports(masters * (1 + replicas))
        self.nodes = [Node(port, self.directory, options, host) for port in ports]
        try:
            for node in self.nodes:
                node.start()
            self._form(masters)
        except BaseException:
            self.stop()
            raise

    def _form(self, masters):
        for index, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for index, node in enumerate(self.nodes[:masters]):
            slots = slots_of_shard(index, masters)
            node.call("CLUSTER", "ADDSLOTSRANGE", slots[0], slots[-1])
        for node in self.nodes[1:]:
            self.meet(node)
        self.wait_known()
        for index, node in enumerate(self.nodes[masters:]):
            master = self.nodes[index % masters]
            wait_until(lambda n=node, m=master: n.call("CLUSTER", "REPLICATE", m.id) == "OK",
                       what="CLUSTER REPLICATE")
        self.wait_ok()

    def meet(self, node):
        first = self.nodes[0]
        node.call("CLUSTER", "MEET", first.host, first.port)

    def wait_known(self):
        for node in self.nodes:
            wait_until(lambda n=node: n.cluster_info("cluster_known_nodes") == str(len(self.nodes)),
                       what="the nodes to know each other")

    def wait_ok(self, timeout=30.0):
        """Until every live node sees the cluster as ok and every live replica is in sync."""
        for node in self.live():
            wait_until(lambda n=node: n.cluster_info("cluster_state") == "ok", timeout,
                       what=f"cluster_state:ok on {node.port}")
            wait_until(lambda n=node: n.is_master() or
                       n.info("replication").get("master_link_status") == "up", timeout,
                       what=f"replica {node.port} to be in sync")

    def live(self):
        return [node for node in self.nodes if node.process]

    @property
    def seeds(self):
        return [node.seed for node in self.nodes]

    def masters(self):
        return [node for node in self.live() if node.is_master()]

    def replicas(self):
        return [node for node in self.live() if not node.is_master()]

    def owner_of(self, key):
        """The live master that owns a key, by the nodes' own map."""
        slot = slot_of(key)
        for node in self.live():
            for entry in node.call("CLUSTER", "SLOTS"):
                if entry[0] <= slot <= entry[1]:
                    port = entry[2][1]
                    return next((n for n in self.live() if n.port == port), None)
        return None

    def replica_of(self, master):
        """A replica that the master knows; nodes hear of each other's roles one by one."""
        def known():
            lines = master.call("CLUSTER", "NODES").decode().splitlines()
            fields = [line.split(" ") for line in lines]
            ports = {int(each[1].split("@")[0].rsplit(":", 1)[1]) for each in fields
                     if each[3] == master.id}
            return next((node for node in self.live() if node.port in ports), None)

        return wait_until(known, what="the master to know its replica")

    def fail_over(self, master):
        """A planned failover, begun anew when a vote was lost; returns the new master."""
        replica = self.replica_of(master)

        def promoted():
            if not replica.is_master():
                replica.call("CLUSTER", "FAILOVER")
            return replica.is_master()

        wait_until(promoted, 40, step=0.5, what="the failover")
        return replica

    def wait_for_one_map(self):
        """Until all nodes tell the same owners and replicas; a replica counts once it has data."""
        def told(node):
            slots = node.call("CLUSTER", "SLOTS")
            return sorted((entry[:2], sorted(str(each[:3]) for each in entry[2:]))
                          for entry in slots)

        def agreed():
            maps = [told(node) for node in self.live()]
            known = sum(len(nodes) for _, nodes in maps[0])
            return known == len(self.live()) and all(each == maps[0] for each in maps)

        wait_until(agreed, 40, what="all nodes to tell the same map")

    def announce(self, node, port):
        """Makes `node` tell everybody that clients reach it at `port` (0: its own)."""
        assert node.call("CONFIG", "SET", "cluster-announce-port", port) == "OK"
        shown = port or node.port
        for each in self.live():
            wait_until(lambda n=each: any(entry[2][1] == shown
                                          for entry in n.call("CLUSTER", "SLOTS")),
                       what=f"{each.port} to know the announced port")

    def redirects(self):
        """How many MOVED and ASK the nodes have answered so far."""
        total = 0
        for node in self.live():
            stats = node.info("errorstats")
            for code in ("MOVED", "ASK"):
                total += int(stats.get(f"errorstat_{code}", "count=0").split("=")[1])
        return total

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

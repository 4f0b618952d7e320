"""Ways to break a cluster, and clients at work that keep what they were answered."""
import itertools
import socket
import threading
import time

from support import Error, Relay, slot_of, wait_until
from support.cluster import SLOTS

# Other shards keep answering while one is lost.
PARTIAL = ("--cluster-require-full-coverage", "no")
# No refresh of the map but those that trouble or a redirect asks for.
QUIET = {"cluster.refresh_interval": "1h"}


def shard_keys(index, shards=3, prefix="key"):
    """Keys whose slot belongs to shard `index` of a cluster as it was formed."""
    first, last = SLOTS * index // shards, SLOTS * (index + 1) // shards - 1
    names = (f"{prefix}{number}" for number in itertools.count())
    return (name for name in names if first <= slot_of(name) <= last)


def shard_key(index, shards=3, prefix="key"):
    return next(shard_keys(index, shards, prefix))


def owner(cluster, key):
    return cluster.owner_of(slot_of(key))


def replica_of(cluster, master):
    """A replica that the master knows; nodes hear of each other's roles one by one."""
    return wait_until(lambda: cluster.replicas_of(master), what="the master to know its replica")[0]


def fail_over(cluster, master):
    """A planned failover, begun anew when a vote was lost; returns the new master."""
    replica = replica_of(cluster, master)

    def promoted():
        if not replica.is_master():
            replica.call("CLUSTER", "FAILOVER")
        return replica.is_master()

    wait_until(promoted, 40, step=0.5, what="the failover")
    return replica


def wait_for_one_map(cluster):
    """Until all nodes tell the same owners and replicas; a replica counts once it has data."""
    def told(node):
        slots = node.call("CLUSTER", "SLOTS")
        return sorted((entry[:2], sorted(str(each[:3]) for each in entry[2:])) for entry in slots)

    def agreed():
        maps = [told(node) for node in cluster.live()]
        known = sum(len(nodes) for _, nodes in maps[0])
        return known == len(cluster.live()) and all(each == maps[0] for each in maps)

    wait_until(agreed, 40, what="all nodes to tell the same map")


def announce(cluster, node, port):
    """Makes `node` tell everybody that clients reach it at `port` (0: its own)."""
    assert node.call("CONFIG", "SET", "cluster-announce-port", port) == "OK"
    shown = port or node.port
    for each in cluster.live():
        wait_until(lambda n=each: any(entry[2][1] == shown for entry in n.call("CLUSTER", "SLOTS")),
                   what=f"{each.port} to know the announced port")


def hold_port(port=0):
    """A socket that keeps a port from everybody else; connections to it are refused."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held


def calls(node, command):
    """How often a node has run a command."""
    stats = node.info("commandstats").get(f"cmdstat_{command}", "calls=0")
    return int(stats.split("calls=")[1].split(",")[0])


def answers_ping(proxy):
    """Also before the cluster is known."""
    try:
        return proxy.call("PING") == "PONG"
    except OSError:
        return False


class Gate(Relay):
    """A relay that can be shut: then connections to its port are refused."""

    def close(self):
        # Without it the thread in accept() would serve one more connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        super().close()


class Load:
    """A client that sends one command after another and keeps what went wrong."""

    def __init__(self, proxy, *commands):
        self.proxy, self.commands = proxy, commands
        self.done, self.errors, self.slowest = 0, [], 0.0
        self.running = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            with self.proxy.connect(timeout=60) as connection:
                for command in itertools.cycle(self.commands):
                    if not self.running:
                        return
                    self._call(connection, command)
        except OSError as error:
            self.errors.append(f"the connection ended: {error}")

    def _call(self, connection, command):
        began = time.monotonic()
        reply = connection.call(*command)
        self.slowest = max(self.slowest, time.monotonic() - began)
        if isinstance(reply, Error):
            self.errors.append(str(reply))
        else:
            self.done += 1
        time.sleep(0.001)

    def wait_for_more(self, count=20, timeout=60):
        aim = self.done + count
        wait_until(lambda: self.done >= aim or not self.thread.is_alive(), timeout,
                   what="a client to be served again")

    def stop(self):
        self.running = False
        self.thread.join()
        return self.errors

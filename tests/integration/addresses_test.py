"""Nodes that move, that have no usable address, or that tell an old map of the cluster."""
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from faults import (PARTIAL, Load, announce, answers_ping, fail_over, hold_port, owner,
                    shard_key, wait_for_one_map)
from support import Cluster, Connection, Error, Proxy, wait_until
from support.cluster import free_ports


class ChangedAddresses(unittest.TestCase):
    """Nodes that come back elsewhere."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="penstock-hosts-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.hosts = pathlib.Path(self.directory, "hosts")

    def test_F_03_every_node_moves_to_a_new_port_one_by_one_and_none_of_the_seeds_is_left(self):
        settings = {"cluster.refresh_interval": "300ms"}
        with Cluster(3, 1) as cluster, Proxy(cluster.seeds, settings) as proxy:
            old = {str(node.port) for node in cluster.nodes}
            for node in cluster.nodes:
                port = free_ports(1)[0]  # while the old one is taken
                node.kill()
                node.port = port
                node.start()
                cluster.wait_ok()
                for each in cluster.live():
                    wait_until(lambda n=each, p=port: f":{p}@" in self.known(n),
                               what="the new address to be known")
            self.assertFalse(old & {str(node.port) for node in cluster.nodes})
            for index in range(3):
                wait_until(lambda i=index: proxy.call("SET", shard_key(i), "1") == "OK", 20,
                           what="the new addresses to be used")
            # The dead addresses are forgotten, not dialled for ever.
            wait_until(lambda: not self.addresses(proxy) & old, 20,
                       what="the old addresses to be given up")
            load = Load(proxy, *[("INCR", shard_key(index, prefix="n")) for index in range(3)])
            load.wait_for_more(100)
            self.assertEqual(load.stop(), [])

    @staticmethod
    def known(node):
        return node.call("CLUSTER", "NODES").decode()

    @staticmethod
    def addresses(proxy):
        """Ports of the nodes that the proxy has connections to, or wants to have."""
        nodes = [text for name, text in proxy.info("backends").items() if name.startswith("node")]
        return {text.split("addr=")[1].split(",")[0].rsplit(":", 1)[1] for text in nodes}

    def own_hosts(self):
        """A command prefix that gives a process the test's own hosts file."""
        mount = 'mount --make-rprivate / && mount --bind "$0" /etc/hosts && exec "$@"'
        prefix = ("unshare", "-m", "sh", "-c", mount, str(self.hosts))
        try:
            if subprocess.run(prefix + ("true",), capture_output=True).returncode == 0:
                return prefix
        except OSError:
            pass
        self.skipTest("a mount namespace is needed for a hosts file of one's own")

    def write_hosts(self, **names):
        # In place: the file that is mounted stays the same one.
        with open(self.hosts, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{ip} {name}.test\n" for name, ip in names.items())

    def test_F_03_a_seed_name_is_looked_up_again_until_it_leads_to_a_node(self):
        self.write_hosts(seed="127.0.0.9")  # nobody is there
        prefix = self.own_hosts()
        with Cluster(3) as cluster:
            seed = f"seed.test:{cluster.nodes[0].port}"
            with Proxy([seed], wait=False, prefix=prefix) as proxy:
                wait_until(lambda: answers_ping(proxy), what="PING to be answered")
                wait_until(lambda: proxy.counter("topology_refresh_failures") > 0)
                self.assertEqual(proxy.call("GET", "a").code, "CLUSTERDOWN")
                self.write_hosts(seed="127.0.0.1")
                wait_until(lambda: proxy.call("SET", "a", "1") == "OK", 20,
                           what="the name to be looked up again")

    def test_F_03_a_node_keeps_its_name_and_changes_its_ip(self):
        names = ["node0", "node1", "node2"]
        self.write_hosts(**{name: "127.0.0.1" for name in names})
        prefix = self.own_hosts()
        options = ("--cluster-preferred-endpoint-type", "hostname") + PARTIAL
        with Cluster(3, 0, options) as cluster:
            self.name_nodes(cluster, names)
            seeds = [f"{names[0]}.test:{cluster.nodes[0].port}"]
            with Proxy(seeds, prefix=prefix) as proxy:
                key = shard_key(1)
                self.assertEqual(proxy.call("SET", key, "1"), "OK")
                self.assertIn(f"node1.test:{cluster.nodes[1].port}", str(proxy.info("backends")))
                moved = cluster.nodes[1]
                moved.kill()
                moved.host = "127.0.0.2"
                moved.options += ["--cluster-announce-ip", "127.0.0.2",
                                  "--cluster-announce-hostname", "node1.test"]
                moved.start()
                self.write_hosts(node0="127.0.0.1", node1="127.0.0.2", node2="127.0.0.1")
                cluster.wait_ok()
                wait_until(lambda: proxy.call("SET", key, "2") == "OK", 30,
                           what="the name to be looked up again")
                self.assertEqual(moved.call("GET", key), b"2")

    @staticmethod
    def name_nodes(cluster, names):
        for node, name in zip(cluster.nodes, names):
            node.call("CONFIG", "SET", "cluster-announce-hostname", f"{name}.test")
        for node in cluster.nodes:
            wait_until(lambda n=node: all(f"{name}.test" in n.call("CLUSTER", "NODES").decode()
                                          for name in names), what="names to be known")


class StaleNode:
    """A node cut off from the majority, as the proxy sees it: passes commands on to a real node,
    and answers questions about the cluster as that node would have at the time it was made."""

    QUESTIONS = ((b"CLUSTER", b"NODES"), (b"CLUSTER", b"SLOTS"), (b"CLUSTER", b"SHARDS"))

    def __init__(self, node):
        self.node = node
        self.asked = 0
        self.frozen = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self, state):
        """From now on the map of this moment is told, with `state` as cluster_state."""
        answers = {}
        with self.node.connect() as connection:
            for question in self.QUESTIONS:
                answers[question] = connection.call_raw(*question)
            info = connection.call("CLUSTER", "INFO")
        info = info.replace(b"cluster_state:ok", b"cluster_state:" + state.encode())
        answers[(b"CLUSTER", b"INFO")] = b"$%d\r\n%s\r\n" % (len(info), info)
        self.frozen = answers

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        requests = Connection.__new__(Connection)
        requests.socket, requests.buffer = client, b""
        try:
            with self.node.connect() as node:
                while True:
                    words = requests.read()
                    question = tuple(word.upper() for word in words[:2])
                    if self.frozen and question in self.frozen:
                        self.asked += question == (b"CLUSTER", b"SLOTS")
                        client.sendall(self.frozen[question])
                    else:
                        client.sendall(node.call_raw(*words))
        except (OSError, ValueError):
            client.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class MinorityView(unittest.TestCase):
    """A node with an old view of the cluster keeps answering the proxy."""

    def setUp(self):
        self.cluster = Cluster(3, 1)
        self.addCleanup(self.cluster.stop)
        self.isolated = StaleNode(self.cluster.nodes[2])
        self.addCleanup(self.isolated.close)
        announce(self.cluster, self.cluster.nodes[2], self.isolated.port)

    def check_an_old_view_changes_nothing(self, state):
        with Proxy(self.cluster.seeds[:2], {"cluster.refresh_interval": "100ms"}) as proxy:
            key = shard_key(0)
            for index in range(3):
                self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")
            self.isolated.freeze(state)
            fail_over(self.cluster, owner(self.cluster, key))
            self.cluster.wait_ok()
            wait_for_one_map(self.cluster)
            load = Load(proxy, ("INCR", shard_key(0, prefix="n")), ("GET", key))
            epoch = Cluster.cluster_info(self.cluster.nodes[0])["cluster_current_epoch"]
            wait_until(lambda: proxy.info()["topology_epoch"] == epoch,
                       what="the new map to be learnt")
            self.wait_for_views(3)
            before = self.isolated.asked
            states, facts = set(), []
            while self.isolated.asked < before + 4 or len(facts) < 40:
                states.add(proxy.call("CLUSTER", "INFO").split(b"cluster_state:")[1][:2])
                info = proxy.info()
                facts.append((info["topology_epoch"], info["topology_state"],
                              info["topology_shards"], info["topology_changes"], info["moved"]))
                time.sleep(0.05)
            self.assertEqual(load.stop(), [])
            self.assertEqual(len(set(facts)), 1, f"the map flaps: {sorted(set(facts))}")
            self.assertEqual(states, {b"ok"}, "readiness flaps")

    def wait_for_views(self, count):
        """Until the isolated node was asked `count` times more, and others in between."""
        aim = self.isolated.asked + count
        wait_until(lambda: self.isolated.asked >= aim, what="the isolated node to be asked")

    def test_F_04_a_node_of_the_minority_cannot_roll_the_map_back(self):
        self.check_an_old_view_changes_nothing("fail")

    def test_F_04_a_node_with_an_older_epoch_cannot_roll_the_map_back(self):
        self.check_an_old_view_changes_nothing("ok")

    def test_F_04_a_proxy_that_starts_with_a_minority_node_finds_the_right_map(self):
        key = shard_key(0)
        self.isolated.freeze("fail")
        master = fail_over(self.cluster, owner(self.cluster, key))
        self.cluster.wait_ok()
        seeds = [f"127.0.0.1:{self.isolated.port}", f"{master.host}:{master.port}"]
        with Proxy(seeds) as proxy:
            with proxy.connect() as client:
                for number in range(1, 50):
                    self.assertEqual(client.call("INCR", "{%s}n" % key), number)
            self.assertEqual(proxy.counter("moved"), 0)


class HalfKnownNodes(unittest.TestCase):
    """Names that do not resolve and nodes without an address."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3, 1, PARTIAL)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def set_everywhere(self, name, value):
        for node in self.cluster.nodes:
            self.assertEqual(node.call("CONFIG", "SET", name, value), "OK")

    def give_name(self, node, name):
        self.assertEqual(node.call("CONFIG", "SET", "cluster-announce-hostname", name), "OK")
        if name:
            for each in self.cluster.nodes:
                wait_until(lambda n=each: name in n.call("CLUSTER", "NODES").decode(),
                           what="the name to be known")

    def name_all_but(self, nameless):
        """Names are preferred; every node has one that works but `nameless`."""
        self.addCleanup(self.set_everywhere, "cluster-preferred-endpoint-type", "ip")
        for node in self.cluster.nodes:
            self.addCleanup(self.give_name, node, "")
            self.give_name(node, "no-such-node.invalid" if node is nameless else "localhost")
        self.set_everywhere("cluster-preferred-endpoint-type", "hostname")

    def test_F_09_a_replica_whose_name_does_not_resolve_disturbs_nobody(self):
        self.name_all_but(self.cluster.nodes[3])
        with Proxy(self.cluster.seeds, {"cluster.refresh_interval": "100ms"}) as proxy:
            loads = [Load(proxy, ("SET", shard_key(index), "1"), ("GET", shard_key(index)))
                     for index in range(3)]
            refreshes = proxy.counter("topology_refreshes")
            wait_until(lambda: proxy.counter("topology_refreshes") > refreshes + 15)
            for load in loads:
                load.wait_for_more()
                self.assertEqual(load.stop(), [])

    def test_F_09_a_master_whose_name_does_not_resolve_is_the_only_one_without_service(self):
        self.name_all_but(self.cluster.nodes[0])
        settings = {"cluster.refresh_interval": "100ms", "backend.retry_deadline": "1s"}
        with Proxy(self.cluster.seeds, settings) as proxy:
            loads = [Load(proxy, ("SET", shard_key(index), "1")) for index in (1, 2)]
            with proxy.connect(30) as client:
                for _ in range(3):
                    reply = client.call("SET", shard_key(0), "1")
                    self.assertIsInstance(reply, Error)
                    self.assertIn("does not resolve", reply)
                    self.assertIn("no-such-node.invalid", reply)
                # Names come and go: the node serves as soon as it has one that works.
                for _ in range(2):
                    self.give_name(self.cluster.nodes[0], "localhost")
                    wait_until(lambda: client.call("SET", shard_key(0), "1") == "OK", 20,
                               what="the name that works to be used")
                    self.give_name(self.cluster.nodes[0], "no-such-node.invalid")
                    wait_until(lambda: client.call("SET", shard_key(0), "1") != "OK", 20,
                               what="the name that does not resolve to be told")
            for load in loads:
                load.wait_for_more()
                self.assertEqual(load.stop(), [])

    def test_F_09_nodes_that_tell_no_address_are_reached_where_they_were_asked(self):
        for kind in ("hostname", "unknown-endpoint"):
            with self.subTest(preferred=kind):
                self.addCleanup(self.set_everywhere, "cluster-preferred-endpoint-type", "ip")
                self.set_everywhere("cluster-preferred-endpoint-type", kind)
                with Proxy(self.cluster.seeds) as proxy:
                    for index in range(3):
                        self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")

    def test_F_09_a_node_in_handshake_that_never_answers_does_not_spoil_the_map(self):
        node = self.cluster.nodes[0]
        bus = hold_port()
        self.addCleanup(bus.close)
        port = bus.getsockname()[1]
        self.assertEqual(node.call("CLUSTER", "MEET", "127.0.0.1", port, port), "OK")
        self.assertIn("handshake", node.call("CLUSTER", "NODES").decode())
        with Proxy([f"127.0.0.1:{node.port}"], {"cluster.refresh_interval": "100ms"}) as proxy:
            self.assertIn(b"cluster_slots_ok:16384", proxy.call("CLUSTER", "INFO"))
            for index in range(3):
                self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")

    def test_F_09_a_proxy_that_is_among_its_own_seeds_does_not_take_itself_for_the_cluster(self):
        own = free_ports(1)[0]
        listen = {"server.listen": [f"127.0.0.1:{own}"]}
        with Proxy([f"127.0.0.1:{own}"], listen, wait=False) as proxy:
            proxy.port = own
            wait_until(lambda: answers_ping(proxy), what="PING to be answered")
            wait_until(lambda: proxy.counter("topology_refreshes") > 3)
            began = time.monotonic()
            reply = proxy.call("SET", "key", "value")
            self.assertIsInstance(reply, Error)
            self.assertEqual(reply.code, "CLUSTERDOWN", reply)
            self.assertLess(time.monotonic() - began, 4)
            self.assertLess(proxy.counter("total_commands_processed"), 1000, "it went in circles")


if __name__ == "__main__":
    unittest.main()

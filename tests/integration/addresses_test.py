# SPDX-License-Identifier: Apache-2.0
"""Nodes that move, that have no usable address, or that tell an old map of the cluster."""
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from support import PARTIAL, Cluster, Error, Proxy, wait_until
from support.fake_node import StaleNode
from support.load import Load
from support.ports import free_port, hold_port
from support.slots import shard_key


class ChangedAddresses(unittest.TestCase):
    """Nodes that come back elsewhere."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="penstock-hosts-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.hosts = pathlib.Path(self.directory, "hosts")

    def test_every_node_moves_to_a_new_port_one_by_one_and_none_of_the_seeds_is_left(self):
        """F-03: pods were restarted one by one; in the end only dead addresses were dialled."""
        settings = {"cluster.refresh_interval": "300ms"}
        with Cluster(3, 1) as cluster, Proxy(cluster.seeds, settings) as proxy:
            old = {str(node.port) for node in cluster.nodes}
            for node in cluster.nodes:
                self.move(cluster, node)
            self.assertFalse(old & {str(node.port) for node in cluster.nodes})
            for index in range(3):
                wait_until(lambda i=index: proxy.call("SET", shard_key(i), "1") == "OK",
                           what="the new addresses to be used")
            # The dead addresses are forgotten, not dialled for ever.
            wait_until(lambda: not self.ports_of_nodes(proxy) & old,
                       what="the old addresses to be given up")
            load = Load(proxy, *[("INCR", shard_key(index, prefix="n")) for index in range(3)])
            load.wait_for_more(100)
            self.assertEqual(load.stop(), [])

    @staticmethod
    def move(cluster, node):
        port = free_port()  # while the old one is taken
        node.kill()
        node.port = port
        node.start()
        cluster.wait_ok()
        for each in cluster.live():
            wait_until(lambda: f":{port}@" in each.call("CLUSTER", "NODES").decode(),
                       what="the new address to be known")

    @staticmethod
    def ports_of_nodes(proxy):
        """Of the nodes that the proxy has connections to, or wants to have."""
        return {node["addr"].rsplit(":", 1)[1] for node in proxy.nodes()}

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

    def test_a_seed_name_is_looked_up_again_until_it_leads_to_a_node(self):
        """F-03: a seed's name led to an old pod when the proxy started, and for ever after."""
        self.write_hosts(seed="127.0.0.9")  # nobody is there
        prefix = self.own_hosts()
        with Cluster(3) as cluster:
            seed = f"seed.test:{cluster.nodes[0].port}"
            with Proxy([seed], wait=False, prefix=prefix) as proxy:
                wait_until(proxy.answers_ping, what="PING to be answered")
                wait_until(lambda: proxy.counter("topology_refresh_failures") > 0)
                self.assertEqual(proxy.call("GET", "a").code, "CLUSTERDOWN")
                self.write_hosts(seed="127.0.0.1")
                wait_until(lambda: proxy.call("SET", "a", "1") == "OK",
                           what="the name to be looked up again")

    def test_a_node_keeps_its_name_and_changes_its_ip(self):
        """F-03: a pod came back with another IP under its old name and was never found again."""
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
                self.assertIn(f"node1.test:{cluster.nodes[1].port}",
                              [node["addr"] for node in proxy.nodes()])
                moved = cluster.nodes[1]
                moved.kill()
                moved.host = "127.0.0.2"
                moved.options += ["--cluster-announce-ip", "127.0.0.2",
                                  "--cluster-announce-hostname", "node1.test"]
                moved.start()
                self.write_hosts(node0="127.0.0.1", node1="127.0.0.2", node2="127.0.0.1")
                cluster.wait_ok()
                wait_until(lambda: proxy.call("SET", key, "2") == "OK",
                           what="the name to be looked up again")
                self.assertEqual(moved.call("GET", key), b"2")

    @staticmethod
    def name_nodes(cluster, names):
        for node, name in zip(cluster.nodes, names):
            node.call("CONFIG", "SET", "cluster-announce-hostname", f"{name}.test")
        for node in cluster.nodes:
            wait_until(lambda: all(f"{name}.test" in node.call("CLUSTER", "NODES").decode()
                                   for name in names), what="names to be known")


class MinorityView(unittest.TestCase):
    """A node with an old view of the cluster keeps answering the proxy."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3, 1)
        cls.addClassCleanup(cls.cluster.stop)
        cls.isolated = StaleNode(cls.cluster.nodes[2])
        cls.addClassCleanup(cls.isolated.close)
        cls.cluster.announce(cls.cluster.nodes[2], cls.isolated.port)

    def setUp(self):
        self.isolated.frozen = {}
        self.cluster.wait_for_one_map()

    def check_an_old_view_changes_nothing(self, state):
        key, counter = shard_key(0), shard_key(0, prefix="n")
        seeds = [node.seed for node in self.cluster.nodes[:2]]
        with Proxy(seeds, {"cluster.refresh_interval": "100ms"}) as proxy:
            for index in range(3):
                self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")
            self.isolated.freeze(state)
            self.cluster.fail_over(self.cluster.owner_of(key))
            self.cluster.wait_ok()
            self.cluster.wait_for_one_map()
            load = Load(proxy, ("INCR", counter), ("GET", key))
            epoch = self.cluster.nodes[0].cluster_info("cluster_current_epoch")
            wait_until(lambda: proxy.info()["topology_epoch"] == epoch,
                       what="the new map to be learnt")
            self.wait_for_views(2)
            facts = self.facts_while_views_are_told(proxy, 3)
            self.assertEqual(load.stop(), [])
            self.assertEqual(len(facts), 1, f"the map flaps: {sorted(facts)}")
            self.assertEqual({fact[0] for fact in facts}, {"ok"}, "readiness flaps")

    def facts_while_views_are_told(self, proxy, count):
        """All that the proxy thinks of its cluster until the old view was told so many times."""
        aim, facts = self.isolated.asked + count, set()
        while self.isolated.asked < aim or not facts:
            info = proxy.info()
            facts.add((proxy.cluster_state(), *(info[name] for name in (
                "topology_epoch", "topology_state", "topology_shards", "topology_changes",
                "moved"))))
            time.sleep(0.02)
        return facts

    def wait_for_views(self, count):
        """Until the isolated node was asked `count` times more, and others in between."""
        aim = self.isolated.asked + count
        wait_until(lambda: self.isolated.asked >= aim, what="the isolated node to be asked")

    def test_a_node_of_the_minority_cannot_roll_the_map_back(self):
        """F-04: a refresh that asked the isolated node brought the old owners back."""
        self.check_an_old_view_changes_nothing("fail")

    def test_a_node_with_an_older_epoch_cannot_roll_the_map_back(self):
        """F-04: a node that had not heard of the failover yet brought the old owners back."""
        self.check_an_old_view_changes_nothing("ok")

    def test_a_proxy_that_starts_with_a_minority_node_finds_the_right_map(self):
        """F-04: the first seed to answer was the isolated node, and its map was believed."""
        key = shard_key(0)
        self.isolated.freeze("fail")
        master = self.cluster.fail_over(self.cluster.owner_of(key))
        self.cluster.wait_ok()
        with Proxy(self.isolated.seeds + [master.seed]) as proxy:
            with proxy.connect() as client:
                self.assertEqual(client.call("DEL", "{%s}n" % key), 0)
                for number in range(1, 50):
                    self.assertEqual(client.call("INCR", "{%s}n" % key), number)
            self.assertEqual(proxy.counter("moved"), 0)


class HalfKnownNodes(unittest.TestCase):
    """Names that do not resolve and nodes without an address."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3, 1, PARTIAL)
        cls.addClassCleanup(cls.cluster.stop)

    def set_everywhere(self, name, value):
        for node in self.cluster.nodes:
            self.assertEqual(node.call("CONFIG", "SET", name, value), "OK")

    def give_name(self, node, name):
        self.assertEqual(node.call("CONFIG", "SET", "cluster-announce-hostname", name), "OK")
        if name:
            for each in self.cluster.nodes:
                wait_until(lambda: name in each.call("CLUSTER", "NODES").decode(),
                           what="the name to be known")

    def name_all_but(self, nameless):
        """Names are preferred; every node has one that works but `nameless`."""
        self.addCleanup(self.set_everywhere, "cluster-preferred-endpoint-type", "ip")
        for node in self.cluster.nodes:
            self.addCleanup(self.give_name, node, "")
            self.give_name(node, "no-such-node.invalid" if node is nameless else "localhost")
        self.set_everywhere("cluster-preferred-endpoint-type", "hostname")

    def test_a_replica_whose_name_does_not_resolve_disturbs_nobody(self):
        """F-09: a replica's name that was not in DNS crashed the proxy in its refresh."""
        self.name_all_but(self.cluster.nodes[3])
        with Proxy(self.cluster.seeds, {"cluster.refresh_interval": "100ms"}) as proxy:
            loads = [Load(proxy, ("SET", shard_key(index), "1"), ("GET", shard_key(index)))
                     for index in range(3)]
            refreshes = proxy.counter("topology_refreshes")
            wait_until(lambda: proxy.counter("topology_refreshes") > refreshes + 10,
                       what="the map to be asked for")
            for load in loads:
                load.wait_for_more()
                self.assertEqual(load.stop(), [])

    def test_a_master_whose_name_does_not_resolve_is_the_only_one_without_service(self):
        """F-09: one master's name that was not in DNS stopped the service of all shards."""
        self.name_all_but(self.cluster.nodes[0])
        settings = {"cluster.refresh_interval": "100ms", "backend.retry_deadline": "1s"}
        with Proxy(self.cluster.seeds, settings) as proxy:
            loads = [Load(proxy, ("SET", shard_key(index), "1")) for index in (1, 2)]
            with proxy.connect(60) as client:
                for _ in range(3):
                    reply = client.call("SET", shard_key(0), "1")
                    self.assertIsInstance(reply, Error)
                    self.assertIn("does not resolve", reply)
                    self.assertIn("no-such-node.invalid", reply)
                # Names come and go: the node serves as soon as it has one that works.
                for _ in range(2):
                    self.give_name(self.cluster.nodes[0], "localhost")
                    wait_until(lambda: client.call("SET", shard_key(0), "1") == "OK",
                               what="the name that works to be used")
                    self.give_name(self.cluster.nodes[0], "no-such-node.invalid")
                    wait_until(lambda: client.call("SET", shard_key(0), "1") != "OK",
                               what="the name that does not resolve to be told")
            for load in loads:
                load.wait_for_more()
                self.assertEqual(load.stop(), [])

    def test_nodes_that_tell_no_address_are_reached_where_they_were_asked(self):
        """F-09: nodes that gave an empty or unknown address of themselves were unreachable."""
        for kind in ("hostname", "unknown-endpoint"):
            with self.subTest(preferred=kind):
                self.addCleanup(self.set_everywhere, "cluster-preferred-endpoint-type", "ip")
                self.set_everywhere("cluster-preferred-endpoint-type", kind)
                with Proxy(self.cluster.seeds) as proxy:
                    for index in range(3):
                        self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")

    def test_a_node_in_handshake_that_never_answers_does_not_spoil_the_map(self):
        """F-09: a half-known node in CLUSTER NODES made the whole map unusable."""
        node = self.cluster.nodes[0]
        bus = hold_port()
        self.addCleanup(bus.close)
        port = bus.getsockname()[1]
        self.assertEqual(node.call("CLUSTER", "MEET", "127.0.0.1", port, port), "OK")
        self.assertIn("handshake", node.call("CLUSTER", "NODES").decode())
        with Proxy([node.seed], {"cluster.refresh_interval": "100ms"}) as proxy:
            self.assertIn(b"cluster_slots_ok:16384", proxy.call("CLUSTER", "INFO"))
            for index in range(3):
                self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")

    def test_a_proxy_that_is_among_its_own_seeds_does_not_take_itself_for_the_cluster(self):
        """F-09: a proxy that was given its own address as a seed went round in circles."""
        own = free_port()
        listen = {"server.listen": [f"127.0.0.1:{own}"]}
        with Proxy([f"127.0.0.1:{own}"], listen, wait=False) as proxy:
            proxy.port = own
            wait_until(proxy.answers_ping, what="PING to be answered")
            wait_until(lambda: proxy.counter("topology_refreshes") > 3, what="refreshes")
            reply = proxy.call("SET", "key", "value")
            self.assertIsInstance(reply, Error)
            self.assertEqual(reply.code, "CLUSTERDOWN", reply)
            self.assertLess(proxy.counter("total_commands_processed"), 1000, "it went in circles")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What clients see while nodes die, fail over, hang and come back."""
import itertools
import socket
import threading
import time
import unittest

from support import PATIENT, QUIET, Cluster, Error, Proxy, frames, wait_until
from support.load import Load
from support.ports import hold_port
from support.slots import shard_key, shard_keys


class MasterLoss(unittest.TestCase):
    """kill -9 and planned failovers, with clients at work on every shard."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3, 1)
        cls.addClassCleanup(cls.cluster.stop)

    def start(self, settings=None):
        """All is well again after the last test; a proxy of its own for the next."""
        self.cluster.wait_ok()
        self.cluster.wait_for_one_map()
        proxy = Proxy(self.cluster.seeds, settings)
        self.addCleanup(proxy.stop_cleanly)
        return proxy

    @staticmethod
    def start_loads(proxy, indexes):
        loads = []
        for index in indexes:
            key = shard_key(index)
            loads += [Load(proxy, ("SET", key, "value")), Load(proxy, ("GET", key)),
                      Load(proxy, ("INCR", shard_key(index, prefix="n")), ("EXISTS", key))]
        return loads

    def require_full_coverage(self, value):
        for node in self.cluster.live():
            node.call("CONFIG", "SET", "cluster-require-full-coverage", value)

    def lose_master(self, proxy, index):
        """Kills the master of a shard under load until its replica serves; checks every client."""
        hit = self.start_loads(proxy, [index])
        others = self.start_loads(proxy, [each for each in range(3) if each != index])
        for load in hit + others:
            load.wait_for_more()
        master = self.cluster.owner_of(shard_key(index))
        replica = self.cluster.replica_of(master)
        before = [load.done for load in others]
        master.kill()
        wait_until(replica.is_master, 60, what="the replica's promotion")
        served = [load.done - count for load, count in zip(others, before)]
        self.assertGreater(min(served), 5, "another shard's client waited out the outage")
        for load in hit + others:
            load.wait_for_more()
        for load in others:
            self.assertEqual(load.stop(), [])
        for load in hit:
            for error in load.stop():
                self.assertRegex(error, "may have run|did not run|CLUSTERDOWN")
        for load in self.start_loads(proxy, [index]):
            load.wait_for_more()
            self.assertEqual(load.stop(), [])
        master.start()
        self.cluster.wait_ok()

    def test_a_killed_master_disturbs_no_other_shard_and_no_node_stays_banned(self):
        """F-01: after one master's death clients of all shards got errors, until a restart."""
        self.require_full_coverage("no")
        self.addCleanup(self.require_full_coverage, "yes")
        proxy = self.start()
        # The last round kills the node that took over in the first: its old master must serve.
        for index in (0, 1, 0):
            with self.subTest(shard=index):
                self.lose_master(proxy, index)

    def test_nobody_else_gets_an_error_while_every_node_says_the_cluster_is_down(self):
        """F-01: CLUSTERDOWN from nodes that were well reached the clients of their shards."""
        self.lose_master(self.start(), 2)

    def test_a_planned_failover_under_load_shows_no_error_and_loses_no_increment(self):
        """F-15: a rolling restart with planned failovers showed errors to every client."""
        proxy = self.start()
        loads = self.start_loads(proxy, range(3))
        counters = {shard_key(index, prefix="planned"): None for index in range(3)}
        for key in counters:
            proxy.call("DEL", key)
            counters[key] = Load(proxy, ("INCR", key))
        for index in range(3):
            self.cluster.fail_over(self.cluster.owner_of(shard_key(index)))
            for load in [*loads, *counters.values()]:
                load.wait_for_more()
        for load in [*loads, *counters.values()]:
            self.assertEqual(load.stop(), [])
        for key, load in counters.items():
            self.assertEqual(int(proxy.call("GET", key)), load.done)

    def test_dead_replicas_show_no_error_to_clients_of_the_masters(self):
        """F-08: a replica that nobody read from died, and requests to its master failed."""
        proxy = self.start({"cluster.refresh_interval": "200ms"})
        loads = self.start_loads(proxy, range(3))
        replicas = self.cluster.replicas()
        self.assertEqual(len(replicas), 3)
        for replica in replicas:
            replica.kill()
            self.addCleanup(replica.start)
            for load in loads:
                load.wait_for_more(100)
        refreshes = proxy.counter("topology_refreshes")
        wait_until(lambda: proxy.counter("topology_refreshes") > refreshes + 5,
                   what="the map to be asked for while replicas are dead")
        for load in loads:
            self.assertEqual(load.stop(), [])


class HungNode(unittest.TestCase):
    """A node that takes connections and bytes and never answers."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3, 0, PATIENT)
        cls.addClassCleanup(cls.cluster.stop)

    def test_a_hung_node_costs_its_own_clients_a_time_out_and_nobody_else_anything(self):
        """F-11: a power-cut node made the whole proxy hang."""
        settings = {"backend.request_timeout": "500ms", "backend.connect_timeout": "300ms",
                    "backend.retry_deadline": "2s"}
        with Proxy(self.cluster.seeds, settings) as proxy, proxy.connect(60) as client:
            keys = list(itertools.islice(shard_keys(0), 30))
            counter = "{%s}n" % keys[0]
            hung = self.cluster.owner_of(keys[0])
            for key in keys:
                self.assertEqual(client.call("SET", key, key), "OK")
            others = [Load(proxy, ("INCR", shard_key(index))) for index in (1, 2)]
            hung.pause()
            try:
                reply = client.call("INCR", counter)
                self.assertIsInstance(reply, Error)
                self.assertIn("may have run", reply)
                self.assertIn(str(hung.port), reply, "the shard is named")
                # Its kernel still takes connections; the handshake is never answered.
                reply = client.call("INCR", counter)
                self.assertIsInstance(reply, Error)
                self.assertRegex(reply, "did not run|may have run")
                for load in others:
                    load.wait_for_more()
            finally:
                hung.resume()
            wait_until(lambda: client.call("GET", keys[0]) == keys[0].encode(),
                       what="the node to serve again")
            # No late reply was given to a later request.
            self.assertEqual(client.pipeline([("GET", key) for key in keys]),
                             [key.encode() for key in keys])
            self.assertLessEqual(int(client.call("GET", counter) or 0), 2)
            for load in others:
                self.assertEqual(load.stop(), [])

    def test_a_hung_master_is_replaced_by_its_replica_without_a_restart(self):
        """F-11: after the failover of a hung master its old connections were used on and on."""
        settings = {"backend.request_timeout": "1s"}
        with Cluster(3, 1) as cluster, Proxy(cluster.seeds, settings) as proxy:
            key = shard_key(1)
            hung = cluster.owner_of(key)
            replica = cluster.replica_of(hung)
            self.assertEqual(proxy.call("SET", key, "value"), "OK")
            hung.pause()
            try:
                wait_until(replica.is_master, 60, what="the promotion")
                wait_until(lambda: proxy.call("SET", key, "new") == "OK", 60,
                           what="the new master to be used")
                self.assertEqual(replica.call("GET", key), b"new")
            finally:
                hung.resume()
            load = Load(proxy, ("SET", key, "newer"), ("GET", key))
            wait_until(lambda: not hung.is_master(), 60, what="the old master to step down")
            load.wait_for_more()
            self.assertEqual(load.stop(), [])

    def test_a_late_reply_is_dropped_and_not_given_to_the_next_request(self):
        """F-11: a reply that came after its time-out was taken for that of the next request."""
        settings = {"backend.request_timeout": "500ms"}
        with Proxy(self.cluster.seeds, settings) as proxy, proxy.connect(60) as client:
            key = shard_key(0)
            node = self.cluster.owner_of(key)
            client.call("SET", key, "right")
            sleeper = threading.Thread(target=node.call, args=("DEBUG", "SLEEP", "1.2"))
            sleeper.start()
            wait_until(lambda: isinstance(client.call("LPUSH", "{%s}list" % key, "late"), Error),
                       what="the node to sleep")
            replies = client.pipeline([("GET", key), ("STRLEN", key)] * 20)
            sleeper.join()
            for reply, right in zip(replies, [b"right", 5] * 20):
                self.assertTrue(reply == right or isinstance(reply, Error), reply)
            wait_until(lambda: client.call("GET", key) == b"right", what="the node to serve again")
            replies = client.pipeline([("GET", key), ("STRLEN", key)] * 20)
            self.assertEqual(replies, [b"right", 5] * 20)


class NobodyThere(unittest.TestCase):
    """No node answers: at start, or after a while."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3)
        cls.addClassCleanup(cls.cluster.stop)

    def setUp(self):
        for node in self.cluster.nodes:
            if not node.process:  # a test that failed left it so
                node.start()
        self.cluster.wait_ok()

    def assert_quick_and_clear(self, proxy, *command):
        """Errors at once: a hundred of them would take minutes if each waited for a time-out."""
        began = time.monotonic()
        with proxy.connect(60) as client:
            for _ in range(100):
                reply = client.call(*command)
                self.assertIsInstance(reply, Error)
                self.assertEqual(reply.code, "CLUSTERDOWN", reply)
                self.assertGreater(len(reply), len("CLUSTERDOWN ") + 10, "there is a reason")
                self.assertLess(time.monotonic() - began, 60, "each of them waits")

    def test_without_any_node_it_starts_says_why_it_cannot_serve_and_recovers_by_itself(self):
        """F-01: the proxy did not start, or had to be restarted, when no node was up at first."""
        for node in self.cluster.nodes:
            node.kill()
        held = [hold_port(node.port) for node in self.cluster.nodes]
        with Proxy(self.cluster.seeds, wait=False) as proxy:
            wait_until(proxy.answers_ping, what="PING to be answered")
            wait_until(lambda: proxy.counter("topology_refresh_failures") > 0)
            for command in (("GET", "a"), ("SET", "a", "1"), ("MGET", "a", "b"),
                            ("EVAL", "return 1", 0)):
                self.assert_quick_and_clear(proxy, *command)
            self.assertIn("no node of the cluster answers", proxy.call("GET", "a"))
            self.assertEqual(proxy.cluster_state(), "fail")
            for port, node in zip(held, self.cluster.nodes):
                port.close()
                node.start()
            wait_until(lambda: proxy.call("SET", "a", "1") == "OK",
                       what="the proxy to serve without a restart")
            self.assertEqual(proxy.call("GET", "a"), b"1")
            wait_until(lambda: proxy.cluster_state() == "ok",
                       what="the proxy to say that it is ready")

    def test_all_nodes_may_die_under_load_and_come_back(self):
        """F-14: the proxy crashed when all nodes dropped with requests in flight."""
        names = [f"m{i}" for i in range(20)]
        batch = frames(*[each for i in range(20) for each in (("INCR", f"n{i}"), ("GET", f"n{i}"))],
                       *[("MSET", *names)] * 2, *[("MGET", *names)] * 2)
        with Proxy(self.cluster.seeds, {"backend.retry_deadline": "1s"}) as proxy:
            clients = [proxy.connect(60) for _ in range(30)]
            for client in clients:
                client.send(batch)
            for node in self.cluster.nodes:
                node.kill()
            for client in clients:
                client.send(batch)
            for client in clients:
                self.read_or_closed(client, 2 * 44)
                client.close()
            proxy.wait_for_clients(0)
            self.assertEqual(proxy.call("PING"), "PONG")
            with proxy.connect(60) as client:
                wait_until(lambda: "did not run" in client.call("INCR", "n1"),
                           what="requests to have waited for long enough")
            self.assert_quick_and_clear(proxy, "GET", "n1")
            for node in self.cluster.nodes:
                node.start()
            self.cluster.wait_ok()
            for key in (shard_key(0), shard_key(1), shard_key(2)):
                wait_until(lambda: proxy.call("SET", key, "1") == "OK",
                           what=f"{key} to be served without a restart")

    @staticmethod
    def read_or_closed(client, count):
        """Every request has exactly one reply, or the connection ends in the middle of one."""
        try:
            for _ in range(count):
                client.read()
            assert client.is_silent(0.001)
        except ConnectionError:
            pass

    def test_a_connection_that_a_node_closed_in_a_quiet_time_is_made_again(self):
        """F-14: the first request after a quiet night failed."""
        settings = {**QUIET, "backend.retry_deadline": "1s"}
        with Proxy(self.cluster.seeds, settings) as proxy, proxy.connect() as client:
            keys = [shard_key(index) for index in range(3)]
            for key in keys:
                self.assertEqual(client.call("SET", key, "1"), "OK")
            time.sleep(1.2)  # longer than requests wait for a connection
            for node in self.cluster.nodes:
                node.call("CLIENT", "KILL", "TYPE", "normal")
            for key in keys:
                self.assertEqual(client.call("GET", key), b"1")

    def test_dead_and_silent_seeds_only_delay_the_start(self):
        """F-01: one dead seed in the list kept the proxy from starting."""
        with hold_port() as dead, socket.create_server(("127.0.0.1", 0)) as silent:
            seeds = [f"127.0.0.1:{each.getsockname()[1]}" for each in (dead, silent)]
            seeds.append("no-such-node.invalid:7000")
            settings = {"backend.connect_timeout": "500ms"}
            with Proxy(seeds + self.cluster.seeds[2:], settings) as proxy:
                for index in range(3):
                    self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")


if __name__ == "__main__":
    unittest.main()

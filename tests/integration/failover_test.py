"""What clients see while nodes die, fail over, hang and come back."""
import itertools
import socket
import threading
import time
import unittest

from faults import (PARTIAL, QUIET, Load, answers_ping, fail_over, hold_port, owner, replica_of,
                    shard_key, shard_keys)
from support import Cluster, Error, Proxy, encode, wait_until


class MasterLoss(unittest.TestCase):
    """kill -9 and planned failovers, with clients at work on every shard."""

    def start_loads(self, proxy, indexes):
        loads = []
        for index in indexes:
            key = shard_key(index)
            loads += [Load(proxy, ("SET", key, "value")), Load(proxy, ("GET", key))]
            loads += [Load(proxy, ("INCR", shard_key(index, prefix="n")), ("EXISTS", key))]
        return loads

    def lose_master(self, cluster, proxy, index):
        """Kills the master of a shard under load until its replica serves; checks every client."""
        hit = self.start_loads(proxy, [index])
        others = self.start_loads(proxy, [each for each in range(3) if each != index])
        for load in hit + others:
            load.wait_for_more()
        master = owner(cluster, shard_key(index))
        replica = replica_of(cluster, master)
        master.kill()
        began = time.monotonic()
        wait_until(replica.is_master, 30, what="the replica's promotion")
        outage = time.monotonic() - began
        for load in hit + others:
            load.wait_for_more()
        for load in others:
            self.assertEqual(load.stop(), [])
        for load in hit:
            for error in load.stop():
                self.assertRegex(error, "may have run|did not run|CLUSTERDOWN")
        after = self.start_loads(proxy, [index])
        for load in after:
            load.wait_for_more()
            self.assertEqual(load.stop(), [])
        master.start()
        cluster.wait_ok()
        return outage, max(load.slowest for load in others)

    def test_F_01_a_killed_master_disturbs_no_other_shard_and_no_node_stays_banned(self):
        with Cluster(3, 1, PARTIAL) as cluster, Proxy(cluster.seeds) as proxy:
            # The last round kills the node that took over in the first: its old master must serve.
            for index in (0, 1, 0):
                with self.subTest(shard=index):
                    outage, slowest = self.lose_master(cluster, proxy, index)
                    self.assertLess(slowest, outage, "another shard's client waited out the outage")
            self.assertTrue(proxy.is_alive())

    def test_F_01_nobody_else_gets_an_error_while_every_node_says_the_cluster_is_down(self):
        with Cluster(3, 1) as cluster, Proxy(cluster.seeds) as proxy:
            self.lose_master(cluster, proxy, 2)

    def test_F_15_a_planned_failover_under_load_shows_no_error(self):
        with Cluster(3, 1) as cluster, Proxy(cluster.seeds) as proxy:
            loads = self.start_loads(proxy, range(3))
            for index in range(3):
                fail_over(cluster, owner(cluster, shard_key(index)))
                for load in loads:
                    load.wait_for_more()
            for load in loads:
                self.assertEqual(load.stop(), [])

    def test_F_08_dead_replicas_show_no_error_to_clients_of_the_masters(self):
        with Cluster(3, 1) as cluster:
            with Proxy(cluster.seeds, {"cluster.refresh_interval": "200ms"}) as proxy:
                loads = self.start_loads(proxy, range(3))
                for replica in [node for node in cluster.live() if not node.is_master()]:
                    replica.kill()
                    for load in loads:
                        load.wait_for_more(100)
                refreshes = proxy.counter("topology_refreshes")
                wait_until(lambda: proxy.counter("topology_refreshes") > refreshes + 5,
                           what="the map to be asked for while replicas are dead")
                for load in loads:
                    self.assertEqual(load.stop(), [])


class HungNode(unittest.TestCase):
    """A node that takes connections and bytes and never answers."""

    def test_F_11_a_hung_node_costs_its_own_clients_a_time_out_and_nobody_else_anything(self):
        settings = {"backend.request_timeout": "500ms", "backend.connect_timeout": "300ms",
                    "backend.retry_deadline": "2s"}
        with Cluster(3, 0, PARTIAL) as cluster, Proxy(cluster.seeds, settings) as proxy:
            keys = list(itertools.islice(shard_keys(0), 30))
            hung = owner(cluster, keys[0])
            with proxy.connect(60) as client:
                for key in keys:
                    self.assertEqual(client.call("SET", key, key), "OK")
                others = [Load(proxy, ("INCR", shard_key(index))) for index in (1, 2)]
                hung.pause()
                try:
                    reply = client.call("INCR", "{%s}n" % keys[0])
                    self.assertIsInstance(reply, Error)
                    self.assertIn("may have run", reply)
                    self.assertIn(str(hung.port), reply, "the shard is named")
                    # Its kernel still takes connections; the handshake is never answered.
                    reply = client.call("INCR", "{%s}n" % keys[0])
                    self.assertIsInstance(reply, Error)
                    self.assertRegex(reply, "did not run|may have run")
                    for load in others:
                        load.wait_for_more()
                finally:
                    hung.resume()
                wait_until(lambda: client.call("GET", keys[0]) == keys[0].encode(), 30,
                           what="the node to serve again")
                # No late reply was given to a later request.
                replies = client.pipeline([("GET", key) for key in keys])
                self.assertEqual(replies, [key.encode() for key in keys])
                self.assertLessEqual(int(client.call("GET", "{%s}n" % keys[0]) or 0), 2)
            for load in others:
                self.assertEqual(load.stop(), [])

    def test_F_11_a_hung_master_is_replaced_by_its_replica_without_a_restart(self):
        settings = {"backend.request_timeout": "1s"}
        with Cluster(3, 1) as cluster, Proxy(cluster.seeds, settings) as proxy:
            key = shard_key(1)
            hung = owner(cluster, key)
            replica = replica_of(cluster, hung)
            self.assertEqual(proxy.call("SET", key, "value"), "OK")
            hung.pause()
            try:
                wait_until(replica.is_master, 30, what="the promotion")
                wait_until(lambda: proxy.call("SET", key, "new") == "OK", 30,
                           what="the new master to be used")
                self.assertEqual(replica.call("GET", key), b"new")
            finally:
                hung.resume()
            load = Load(proxy, ("SET", key, "newer"), ("GET", key))
            wait_until(lambda: not hung.is_master(), 30, what="the old master to step down")
            load.wait_for_more()
            self.assertEqual(load.stop(), [])

    def test_F_11_a_late_reply_is_dropped_and_not_given_to_the_next_request(self):
        settings = {"backend.request_timeout": "500ms"}
        with Cluster(3, 0, PARTIAL) as cluster, Proxy(cluster.seeds, settings) as proxy:
            key = shard_key(0)
            node = owner(cluster, key)
            with proxy.connect(60) as client:
                client.call("SET", key, "right")
                sleeper = threading.Thread(target=node.call, args=("DEBUG", "SLEEP", "1.2"))
                sleeper.start()
                time.sleep(0.2)
                late = client.call("LPUSH", "{%s}list" % key, "late")
                self.assertIn("may have run", late)
                replies = client.pipeline([("GET", key), ("STRLEN", key)] * 20)
                sleeper.join()
                for reply, right in zip(replies, [b"right", 5] * 20):
                    self.assertTrue(reply == right or isinstance(reply, Error), reply)
                wait_until(lambda: client.call("GET", key) == b"right", 15)
                replies = client.pipeline([("GET", key), ("STRLEN", key)] * 20)
                self.assertEqual(replies, [b"right", 5] * 20)


class NobodyThere(unittest.TestCase):
    """No node answers: at start, or after a while."""

    def check_is_quick_and_clear(self, proxy, *command):
        began = time.monotonic()
        reply = proxy.call(*command)
        self.assertIsInstance(reply, Error)
        self.assertEqual(reply.code, "CLUSTERDOWN", reply)
        self.assertLess(time.monotonic() - began, 5, "it was not answered fast")
        self.assertGreater(len(reply), len("CLUSTERDOWN ") + 10, "there is a reason")

    def test_F_01_without_any_node_it_starts_says_why_it_cannot_serve_and_recovers_by_itself(self):
        with Cluster(3) as cluster:
            for node in cluster.nodes:
                node.kill()
            held = [hold_port(node.port) for node in cluster.nodes]
            with Proxy(cluster.seeds, wait=False) as proxy:
                wait_until(lambda: answers_ping(proxy), what="PING to be answered")
                wait_until(lambda: proxy.counter("topology_refresh_failures") > 0)
                for command in (("GET", "a"), ("SET", "a", "1"), ("MGET", "a", "b"),
                                ("EVAL", "return 1", 0)):
                    self.check_is_quick_and_clear(proxy, *command)
                self.assertIn("no node of the cluster answers", proxy.call("GET", "a"))
                self.assertIn(b"cluster_state:fail", proxy.call("CLUSTER", "INFO"))
                for port, node in zip(held, cluster.nodes):
                    port.close()
                    node.start()
                wait_until(lambda: proxy.call("SET", "a", "1") == "OK", 30,
                           what="the proxy to serve without a restart")
                self.assertEqual(proxy.call("GET", "a"), b"1")
                wait_until(lambda: b"cluster_state:ok" in proxy.call("CLUSTER", "INFO"),
                           what="the proxy to say that it is ready")

    def test_F_14_all_nodes_may_die_under_load_and_come_back(self):
        settings = {"backend.retry_deadline": "2s"}
        with Cluster(3) as cluster, Proxy(cluster.seeds, settings) as proxy:
            clients = [proxy.connect(60) for _ in range(30)]
            batch = b"".join(encode("INCR", f"n{i}") + encode("GET", f"n{i}") for i in range(20))
            batch += encode("MSET", *[f"m{i}" for i in range(20)]) * 2
            batch += encode("MGET", *[f"m{i}" for i in range(20)]) * 2
            for client in clients:
                client.send(batch)
            for node in cluster.nodes:
                node.kill()
            for client in clients:
                client.send(batch)
            for client in clients:
                self.read_or_closed(client, 2 * 44)
                client.close()
            wait_until(lambda: proxy.counter("connected_clients") == 1)
            self.assertEqual(proxy.call("PING"), "PONG")
            time.sleep(2.5)  # longer than a request may wait
            self.check_is_quick_and_clear(proxy, "GET", "n1")
            for node in cluster.nodes:
                node.start()
            cluster.wait_ok()
            for key in (shard_key(0), shard_key(1), shard_key(2)):
                wait_until(lambda k=key: proxy.call("SET", k, "1") == "OK", 20,
                           what=f"{key} to be served without a restart")

    @staticmethod
    def read_or_closed(client, count):
        """Every request has exactly one reply, or the connection ends."""
        try:
            for _ in range(count):
                client.read()
        except ConnectionError:
            pass

    def test_F_14_a_connection_that_a_node_closed_in_a_quiet_time_is_made_again(self):
        settings = {**QUIET, "backend.retry_deadline": "1s"}
        with Cluster(3) as cluster, Proxy(cluster.seeds, settings) as proxy:
            with proxy.connect() as client:
                keys = [shard_key(index) for index in range(3)]
                for key in keys:
                    self.assertEqual(client.call("SET", key, "1"), "OK")
                time.sleep(1.5)
                for node in cluster.nodes:
                    node.call("CLIENT", "KILL", "TYPE", "normal")
                time.sleep(0.2)
                for key in keys:
                    self.assertEqual(client.call("GET", key), b"1")

    def test_F_01_dead_and_silent_seeds_only_delay_the_start(self):
        with hold_port() as dead, socket.create_server(("127.0.0.1", 0)) as silent, \
                Cluster(3) as cluster:
            seeds = [f"127.0.0.1:{each.getsockname()[1]}" for each in (dead, silent)]
            seeds.append("no-such-node.invalid:7000")
            settings = {"backend.connect_timeout": "500ms"}
            with Proxy(seeds + cluster.seeds[2:], settings) as proxy:
                for index in range(3):
                    self.assertEqual(proxy.call("SET", shard_key(index), "1"), "OK")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Running the proxy: health checks, dead and idle clients, many clients, CLIENT KILL, AUTH."""
import ctypes
import random
import socket
import struct
import unittest

from support import Error, encode, wait_until
from support.load import Load
from support.proxy import is_sanitized
from support.shared_cluster import OneCluster
from support.slots import shard_key

SO_ATTACH_FILTER = 26
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)


def drop_all_packets(connection):
    """The peer of this socket gets no answer any more, not even from the kernel."""
    refuse_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(refuse_all))
    connection.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


class HealthChecks(OneCluster):
    """Connections that come and go without a command."""

    @staticmethod
    def check_once(proxy, kind):
        connection = proxy.connect()
        if kind == "ping":
            connection.send(b"PING\r\n")
            assert connection.read() == "PONG"
        elif kind == "ping and reset":
            connection.send(b"PING\r\n")
            return connection.reset()
        elif kind == "reset":
            return connection.reset()
        elif kind == "half a command":
            connection.send(b"*2\r\n$3\r\nGE")
        elif kind == "tls":
            connection.send(TLS_HELLO)
        return connection.close()

    KINDS = ("connect", "ping", "ping and reset", "reset", "half a command", "tls")

    def test_health_checks_leave_no_trace(self):
        """O-01: a load balancer's checks leaked descriptors and filled the log."""
        proxy = self.start()
        with proxy.connect() as client:
            for index in range(3):
                client.call("SET", shard_key(index), "1")
        for kind in self.KINDS * 20:
            self.check_once(proxy, kind)
        proxy.wait_for_clients(0)
        descriptors, rss = proxy.descriptors, proxy.rss
        lines = len(proxy.log_text().splitlines())
        for kind in self.KINDS * 100:
            self.check_once(proxy, kind)
        proxy.wait_for_clients(0)
        wait_until(lambda: proxy.descriptors <= descriptors, what="descriptors to be given back")
        self.assertLess(len(proxy.log_text().splitlines()) - lines, 12, proxy.log_text())
        if not is_sanitized():
            self.assertLess(proxy.rss - rss, 1 << 20)

    def test_silent_connections_disturb_nobody(self):
        """O-01: connections that never said a word counted as busy clients."""
        proxy = self.start()
        silent = [proxy.connect() for _ in range(100)]
        proxy.wait_for_clients(100)
        with proxy.connect() as client:
            for number in range(1, 200):
                self.assertEqual(client.call("INCR", "O-01"), number)
        for connection in silent:
            connection.close()
        proxy.wait_for_clients(0)


class DeadAndIdleClients(OneCluster):
    """Clients that vanished, and clients that only wait."""

    def test_clients_that_vanished_without_a_word_are_let_go_by_keepalive(self):
        """O-03: clients whose machine had died stayed connected for ever."""
        proxy = self.start({"server.tcp_keepalive": "1s"})
        dead = [proxy.connect() for _ in range(50)]
        for client in dead:
            self.assertEqual(client.call("PING"), "PONG")
        alive = proxy.connect()
        for client in dead:
            drop_all_packets(client)
        proxy.wait_for_clients(1)
        self.assertEqual(alive.call("PING"), "PONG", "a silent client that is there stays")
        for client in [*dead, alive]:
            client.close()

    def test_an_idle_client_is_closed_after_idle_timeout_and_a_busy_one_stays(self):
        """O-03: forgotten connections were never closed."""
        proxy = self.start({"server.idle_timeout": "2s"})
        busy = Load(proxy, ("PING",))
        idle = [proxy.connect() for _ in range(20)]
        for client in idle:
            self.assertEqual(client.call("PING"), "PONG")
        never_spoke = proxy.connect()
        for client in [*idle, never_spoke]:
            self.assertTrue(client.at_end())
            client.close()
        busy.wait_for_more()
        self.assertEqual(busy.stop(), [])
        self.assertEqual(proxy.counter("clients_closed_idle"), 21)

    def test_a_client_that_waits_for_a_slow_reply_is_not_idle(self):
        """O-03: a client that waited for a slow reply was closed as idle."""
        proxy = self.start({"server.idle_timeout": "1s"})
        key = shard_key(0)
        with proxy.connect() as client, self.cluster.nodes[0].connect() as node:
            self.assertEqual(client.call("SET", key, "1"), "OK")
            node.send(encode("DEBUG", "SLEEP", "2.5"))
            for _ in range(100):  # one of them is on its way while the node sleeps
                self.assertEqual(client.call("GET", key), b"1")
            self.assertEqual(node.read(), "OK")


class Clients(OneCluster):
    """Many of them, too many, unwanted ones and strangers."""

    @staticmethod
    def spread(proxy):
        """Clients of each worker."""
        info = proxy.info("workers")
        return [int(info[f"worker{index}"].split("clients=")[1].split(",")[0])
                for index in range(int(info["workers"]))]

    def test_long_lived_clients_are_spread_evenly_also_after_half_of_them_came_back(self):
        """O-07: after a redeploy one worker had all the clients."""
        proxy = self.start({"server.workers": 16})
        clients = [proxy.connect() for _ in range(64)]
        proxy.wait_for_clients(64)
        self.check_spread(proxy, 4)
        dice = random.Random(7)
        for _ in range(3):
            dice.shuffle(clients)
            for client in clients[:32]:
                client.close()
            proxy.wait_for_clients(32)
            clients[:32] = [proxy.connect() for _ in range(32)]
            proxy.wait_for_clients(64)
            self.check_spread(proxy, 4)
        for client in clients:
            self.assertEqual(client.call("PING"), "PONG")
            client.close()

    def check_spread(self, proxy, mean):
        # The client that asks is one of them.
        spread = self.spread(proxy)
        self.assertGreaterEqual(min(spread), mean * 0.8, spread)
        self.assertLessEqual(max(spread) - 1, mean * 1.2, spread)

    def test_one_client_more_than_max_clients_is_told_so_and_there_is_room_again_later(self):
        """The client after the last hung, or nobody got in any more."""
        proxy = self.start({"server.max_clients": 5})
        proxy.wait_for_clients(0)
        clients = wait_until(lambda: self.five_clients(proxy), what="five clients to be taken")
        refused = proxy.connect()
        reply = refused.read()
        self.assertIsInstance(reply, Error)
        self.assertIn("max number of clients", reply)
        self.assertTrue(refused.at_end())
        for client in clients:
            self.assertEqual(client.call("PING"), "PONG")
        self.assertIn(b"rejected_connections:", clients[0].call("INFO", "stats"))
        for client in clients:
            client.close()
        wait_until(proxy.answers_ping, what="room for another client")

    @staticmethod
    def five_clients(proxy):
        """None while one who has just left is still counted."""
        clients = [proxy.connect() for _ in range(5)]
        try:
            if all(client.call("PING") == "PONG" for client in clients):
                return clients
        except OSError:
            pass
        for client in clients:
            client.close()
        return None

    def test_CLIENT_KILL_closes_the_client_that_was_meant_on_whatever_worker_it_is(self):
        """CLIENT KILL did not find a client of another worker."""
        proxy = self.start({"server.workers": 4})
        with proxy.connect() as admin:
            clients = [proxy.connect() for _ in range(12)]
            ids = [client.call("CLIENT", "ID") for client in clients]
            self.assertEqual(len(set(ids)), 12)
            by_id, by_address, by_old_form = clients[:3]
            self.assertEqual(admin.call("CLIENT", "KILL", "ID", ids[0]), 1)
            self.assertEqual(admin.call("CLIENT", "KILL", "ADDR", by_address.address), 1)
            self.assertEqual(admin.call("CLIENT", "KILL", by_old_form.address), "OK")
            for client in (by_id, by_address, by_old_form):
                self.assertTrue(client.at_end())
            self.assertEqual(admin.call("CLIENT", "KILL", "ID", ids[0]), 0)
            self.assertIsInstance(admin.call("CLIENT", "KILL", "1.2.3.4:5"), Error)
            for client in clients[3:]:
                self.assertEqual(client.call("PING"), "PONG")
            self.assertEqual(admin.call("CLIENT", "KILL", "TYPE", "normal"), 9)
            for client in clients[3:]:
                self.assertTrue(client.at_end())
            self.assertEqual(admin.call("CLIENT", "KILL", "ID", admin.call("CLIENT", "ID"),
                                        "SKIPME", "no"), 1)
            self.assertTrue(admin.at_end())
            for client in clients:
                client.close()

    def test_CLIENT_KILL_of_a_client_with_requests_in_flight_mixes_up_nobody_elses_replies(self):
        """After CLIENT KILL others got the killed client's replies."""
        proxy = self.start()
        with proxy.connect() as admin, proxy.connect() as other:
            for number in range(20):
                victim = proxy.connect()
                victim_id = victim.call("CLIENT", "ID")
                victim.send(encode("SET", "key", "of the victim") * 500)
                other.send(encode("ECHO", f"{number}") + encode("GET", "nosuch") * 20)
                self.assertEqual(admin.call("CLIENT", "KILL", "ID", victim_id), 1)
                self.assertEqual(other.read(), b"%d" % number)
                self.assertEqual([other.read() for _ in range(20)], [None] * 20)
                victim.close()
            proxy.wait_for_clients(2)

    def test_with_a_password_nothing_is_served_before_AUTH(self):
        """A stranger without the password was served."""
        proxy = self.start({"server.password": "s3cret word"})
        client = proxy.connect()
        for command in (("GET", "a"), ("MGET", "a", "b"), ("INFO",), ("CLIENT", "LIST"),
                        ("CONFIG", "GET", "*"), ("CLUSTER", "SLOTS"), ("PING",)):
            self.assertEqual(client.call(*command).code, "NOAUTH", command)
        self.assertEqual(client.call("AUTH", "wrong").code, "WRONGPASS")
        self.assertEqual(client.call("AUTH", "default", "s3cret").code, "WRONGPASS")
        self.assertEqual(client.call("AUTH", "somebody", "s3cret word").code, "WRONGPASS")
        self.assertEqual(client.call("GET", "a").code, "NOAUTH")
        self.assertEqual(client.call("AUTH", "s3cret word"), "OK")
        self.assertEqual(client.call("SET", "a", "1"), "OK")
        self.assertNotIn(b"s3cret", b" ".join(client.call("CONFIG", "GET", "*")))
        with proxy.connect() as second:
            self.assertEqual(second.call("HELLO", "3").code, "NOAUTH")
            self.assertEqual(second.call("HELLO", "3", "AUTH", "default", "no").code, "WRONGPASS")
            hello = second.call("HELLO", "3", "AUTH", "default", "s3cret word")
            self.assertNotIsInstance(hello, Error)
            self.assertEqual(second.call("GET", "a"), b"1")
            self.assertEqual(second.call("RESET"), "RESET")
            self.assertEqual(second.call("GET", "a").code, "NOAUTH")
        client.close()


if __name__ == "__main__":
    unittest.main()

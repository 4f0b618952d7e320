"""Running the proxy: health checks, dead and idle clients, many clients, CLIENT KILL, AUTH."""
import ctypes
import random
import resource
import socket
import struct
import time
import unittest

from faults import answers_ping, shard_key
from shared_cluster import OneCluster, is_sanitized, try_to_connect
from support import Error, encode, wait_until

SO_ATTACH_FILTER = 26
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)


def drop_all_packets(connection):
    """The peer of this socket gets no answer any more, not even from the kernel."""
    refuse_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(refuse_all))
    connection.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


class HealthChecks:
    """Connections that come and go without a command; run for each event loop."""

    def check_once(self, proxy, kind):
        connection = proxy.connect()
        if kind == "ping":
            connection.send(b"PING\r\n")
            self.assertEqual(connection.read(), "PONG")
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

    def test_O_01_health_checks_leave_no_trace(self):
        proxy = self.start({"io.engine": self.engine})
        with proxy.connect() as client:
            for index in range(3):
                client.call("SET", shard_key(index), "1")
        for kind in self.KINDS * 20:
            self.check_once(proxy, kind)
        self.wait_for_clients(proxy, 0)
        descriptors, rss = proxy.descriptors, proxy.rss
        lines = len(proxy.log_text().splitlines())
        for kind in self.KINDS * 100:
            self.check_once(proxy, kind)
        self.wait_for_clients(proxy, 0)
        wait_until(lambda: proxy.descriptors <= descriptors, what="descriptors to be given back")
        self.assertLess(len(proxy.log_text().splitlines()) - lines, 12, proxy.log_text())
        if not is_sanitized():
            self.assertLess(proxy.rss - rss, 1 << 20)

    def test_O_01_silent_connections_disturb_nobody(self):
        proxy = self.start({"io.engine": self.engine})
        silent = [proxy.connect() for _ in range(100)]
        self.wait_for_clients(proxy, 100)
        with proxy.connect() as client:
            for number in range(1, 200):
                self.assertEqual(client.call("INCR", f"O-01-{self.engine}"), number)
        for connection in silent:
            connection.close()
        self.wait_for_clients(proxy, 0)


class HealthChecksWithTheDefaultEventLoop(HealthChecks, OneCluster):
    engine = "auto"


class HealthChecksWithEpoll(HealthChecks, OneCluster):
    engine = "epoll"


class DeadAndIdleClients(OneCluster):
    def test_O_03_clients_that_vanished_without_a_word_are_let_go_by_keepalive(self):
        for engine in ("auto", "epoll"):
            with self.subTest(engine=engine):
                proxy = self.start({"server.tcp_keepalive": "1s", "io.engine": engine})
                dead = [proxy.connect() for _ in range(50)]
                for client in dead:
                    self.assertEqual(client.call("PING"), "PONG")
                alive = proxy.connect()
                for client in dead:
                    drop_all_packets(client)
                self.wait_for_clients(proxy, 1)
                self.assertEqual(alive.call("PING"), "PONG", "a silent client that is there stays")
                for client in [*dead, alive]:
                    client.close()

    def test_O_03_an_idle_client_is_closed_after_idle_timeout_and_a_busy_one_stays(self):
        proxy = self.start({"server.idle_timeout": "1s"})
        idle = [proxy.connect() for _ in range(20)]
        for client in idle:
            self.assertEqual(client.call("PING"), "PONG")
        never_spoke = proxy.connect()
        with proxy.connect() as busy:
            def all_closed():
                self.assertEqual(busy.call("PING"), "PONG")
                return int(dict(self.lines(busy))["connected_clients"]) == 1
            wait_until(all_closed, step=0.2, what="the idle clients to be closed")
            self.assertEqual(busy.call("SET", "a", "1"), "OK")
        for client in [*idle, never_spoke]:
            self.assertTrue(client.at_end())
            client.close()
        self.assertEqual(proxy.counter("clients_closed_idle"), 21)

    @staticmethod
    def lines(client):
        text = client.call("INFO", "everything").decode()
        return (line.split(":", 1) for line in text.splitlines() if ":" in line)

    def test_O_03_a_client_that_waits_for_a_slow_reply_is_not_idle(self):
        proxy = self.start({"server.idle_timeout": "1s"})
        key = shard_key(0)
        with proxy.connect() as client, self.cluster.nodes[0].connect() as node:
            self.assertEqual(client.call("SET", key, "1"), "OK")
            node.send(encode("DEBUG", "SLEEP", "2.5"))
            time.sleep(0.2)
            self.assertEqual(client.call("GET", key), b"1")
            self.assertEqual(node.read(), "OK")

    def test_O_03_idle_timeout_is_off_by_default(self):
        proxy = self.start()
        with proxy.connect() as client:
            self.assertEqual(client.call("PING"), "PONG")
            time.sleep(2.5)
            self.assertEqual(client.call("PING"), "PONG")

    def test_ten_thousand_idle_clients_cost_at_most_two_kilobytes_each(self):
        if is_sanitized():
            self.skipTest("a sanitizer's memory is not the proxy's: run with the release build")
        count = 10000
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < count + 1000:
            self.skipTest(f"only {hard} files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        for engine in ("auto", "epoll"):
            with self.subTest(engine=engine):
                self.check_memory_of_idle_clients(engine, count)

    def check_memory_of_idle_clients(self, engine, count):
        proxy = self.start({"server.max_clients": count + 100, "io.engine": engine})
        clients = []
        try:
            clients += self.connect_and_ask(proxy, 200)
            time.sleep(1.5)
            before = proxy.rss
            clients += self.connect_and_ask(proxy, count - 200)
            self.assertEqual(proxy.counter("connected_clients"), count + 1)
            # Every client is looked at once a second, and gives back what it does not need.
            wait_until(lambda: proxy.rss - before <= 2048 * (count - 200), 10,
                       what="the memory of idle clients to be small")
            self.assertEqual(random.choice(clients).call("PING"), "PONG")
        finally:
            for client in clients:
                client.reset()

    @staticmethod
    def connect_and_ask(proxy, count):
        clients = []
        for number in range(count):
            client = proxy.connect()
            client.call("SET", f"idle{number}", "x" * 100)
            clients.append(client)
        return clients


class Clients(OneCluster):
    def spread(self, proxy):
        """Clients of each worker."""
        info = proxy.info("workers")
        return [int(info[f"worker{index}"].split("clients=")[1].split(",")[0])
                for index in range(int(info["workers"]))]

    def test_O_07_long_lived_clients_are_spread_evenly_also_after_half_of_them_came_back(self):
        proxy = self.start({"server.workers": 16})
        clients = [proxy.connect() for _ in range(64)]
        self.wait_for_clients(proxy, 64)
        self.check_spread(proxy, 4)
        dice = random.Random(7)
        for _ in range(3):
            dice.shuffle(clients)
            for client in clients[:32]:
                client.close()
            self.wait_for_clients(proxy, 32)
            clients[:32] = [proxy.connect() for _ in range(32)]
            self.wait_for_clients(proxy, 64)
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
        proxy = self.start({"server.max_clients": 5})
        self.wait_for_clients(proxy, 0)
        wait_until(lambda: self.fill(proxy), what="five clients to be taken")
        clients = self.clients
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
        wait_until(lambda: answers_ping(proxy), what="room for another client")

    def fill(self, proxy):
        self.clients = [proxy.connect() for _ in range(5)]
        try:
            return all(client.call("PING") == "PONG" for client in self.clients)
        except OSError:
            return False

    def test_CLIENT_KILL_closes_the_client_that_was_meant_on_whatever_worker_it_is(self):
        proxy = self.start({"server.workers": 4})
        with proxy.connect() as admin:
            clients = [proxy.connect() for _ in range(12)]
            ids = [client.call("CLIENT", "ID") for client in clients]
            self.assertEqual(len(set(ids)), 12)
            by_id, by_address, by_old_form = clients[:3]
            self.assertEqual(admin.call("CLIENT", "KILL", "ID", ids[0]), 1)
            self.assertEqual(admin.call("CLIENT", "KILL", "ADDR", self.address(by_address)), 1)
            self.assertEqual(admin.call("CLIENT", "KILL", self.address(by_old_form)), "OK")
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

    @staticmethod
    def address(client):
        return "%s:%d" % client.socket.getsockname()

    def test_CLIENT_KILL_of_a_client_with_requests_in_flight_mixes_up_nobody_elses_replies(self):
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
            self.wait_for_clients(proxy, 2)

    def test_with_a_password_nothing_is_served_before_AUTH(self):
        proxy = self.start({"server.password": "s3cret word"}, wait=False)
        client = wait_until(lambda: try_to_connect(proxy), what="the proxy to listen")
        for command in (("GET", "a"), ("MGET", "a", "b"), ("INFO",), ("CLIENT", "LIST"),
                        ("CONFIG", "GET", "*"), ("CLUSTER", "SLOTS"), ("PING",)):
            self.assertEqual(client.call(*command).code, "NOAUTH", command)
        self.assertEqual(client.call("AUTH", "wrong").code, "WRONGPASS")
        self.assertEqual(client.call("AUTH", "default", "s3cret").code, "WRONGPASS")
        self.assertEqual(client.call("AUTH", "somebody", "s3cret word").code, "WRONGPASS")
        self.assertEqual(client.call("GET", "a").code, "NOAUTH")
        self.assertEqual(client.call("AUTH", "s3cret word"), "OK")
        wait_until(lambda: client.call("SET", "a", "1") == "OK", what="the cluster to be known")
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

# SPDX-License-Identifier: Apache-2.0
"""Stopping the proxy with signals while clients are at work."""
import os
import signal
import time
import unittest

from support import encode, wait_until
from support.shared_cluster import OneCluster
from support.slots import shard_key
from support.wait import settled


class Stopping(OneCluster):
    """SIGTERM with clients at work."""

    def begin(self, **settings):
        return self.start({f"server.{name}": value for name, value in settings.items()})

    @staticmethod
    def begin_to_stop(proxy, number=signal.SIGTERM):
        proxy.signal(number)
        wait_until(lambda: "stopping" in proxy.log_text(), what="the signal to be heard")

    def check_exit(self, proxy, within=60):
        self.assertEqual(proxy.process.wait(within), 0, proxy.log_text())

    def test_requests_in_flight_are_answered_and_idle_clients_are_closed(self):
        """O-04: every deployment cost requests that were on their way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                proxy = self.begin()
                node, key = self.cluster.nodes[0], shard_key(0, prefix="O-04")
                node.call("DEL", key)
                busy = [proxy.connect() for _ in range(5)]
                idle = proxy.connect()
                self.assertEqual(idle.call("PING"), "PONG")
                for client in busy:
                    self.assertEqual(client.call("EXISTS", key), 0)
                node.pause()
                try:
                    for client in busy:
                        client.send(encode("INCR", key) * 20)
                    wait_until(lambda: proxy.in_flight() == 100, what="requests in flight")
                    self.begin_to_stop(proxy, number)
                    self.assertTrue(idle.at_end(), "an idle client is closed at once")
                    self.assertTrue(proxy.is_alive())
                finally:
                    node.resume()
                replies = [client.read() for client in busy for _ in range(20)]
                self.assertEqual(sorted(replies), list(range(1, 101)))
                self.assertTrue(all(client.at_end() for client in busy))
                self.check_exit(proxy)

    def test_replies_that_a_client_reads_slowly_all_arrive(self):
        """O-04: large replies were cut off by a deployment."""
        proxy = self.begin(shutdown_grace="60s")
        key, value = shard_key(0, prefix="big"), os.urandom(1 << 20)
        with proxy.connect(60) as client:
            self.assertEqual(client.call("SET", key, value), "OK")
            client.send(encode("GET", key) * 24)
            taken = settled(lambda: proxy.calls("get"), 0.3)
            self.begin_to_stop(proxy)
            count = 0
            while not client.at_end():
                self.assertEqual(client.read(), value)
                count += 1
                time.sleep(0.02)
            self.assertGreaterEqual(count, taken)
        self.check_exit(proxy)

    def test_requests_sent_after_the_signal_do_not_cost_the_replies_to_earlier_ones(self):
        """O-04: the end of the proxy reset connections with replies on their way."""
        proxy = self.begin(shutdown_grace="60s")
        key, value = shard_key(0, prefix="big"), os.urandom(1 << 19)
        with proxy.connect(60) as client:
            self.assertEqual(client.call("SET", key, value), "OK")
            client.send(encode("GET", key) * 8)
            wait_until(lambda: proxy.calls("get") == 8, what="all of them to be taken")
            wait_until(lambda: proxy.in_flight() == 0, what="the node to have answered")
            self.begin_to_stop(proxy)
            client.send(encode("PING") * 10)
            self.assertEqual([client.read() for _ in range(8)], [value] * 8)
        self.check_exit(proxy)

    def test_of_a_long_pipeline_what_ran_is_answered_and_the_rest_is_not_run(self):
        """O-04: writes ran whose replies never came."""
        proxy = self.begin(shutdown_grace="60s")
        key = shard_key(0, prefix="pipeline")
        with proxy.connect(60) as client:
            client.call("DEL", key)
            client.send(encode("INCR", key) * 20000)
            self.assertEqual(client.read(), 1)
            proxy.signal(signal.SIGTERM)
            count = 1
            while not client.at_end():
                count += 1
                self.assertEqual(client.read(), count)
        self.check_exit(proxy)
        self.assertEqual(int(self.cluster.nodes[0].call("GET", key)), count)

    def test_a_second_signal_ends_it_at_once(self):
        """O-04: only kill -9 ended the proxy."""
        proxy = self.begin(shutdown_grace="1h")
        client = self.with_unread_replies(proxy)
        self.begin_to_stop(proxy)
        time.sleep(0.3)
        self.assertTrue(proxy.is_alive())
        proxy.signal(signal.SIGTERM)
        self.check_exit(proxy)
        client.close()

    def test_it_waits_no_longer_than_the_grace(self):
        """O-04: one client that did not read kept the proxy from ending."""
        proxy = self.begin(shutdown_grace="1s")
        client = self.with_unread_replies(proxy)
        began = time.monotonic()
        self.begin_to_stop(proxy)
        self.check_exit(proxy)
        self.assertGreater(time.monotonic() - began, 0.9)
        self.assertIn("shutdown_grace", proxy.log_text())
        client.close()

    @staticmethod
    def with_unread_replies(proxy):
        client = proxy.connect()
        client.call("SET", "big", b"x" * (1 << 20))
        client.send(encode("GET", "big") * 40)
        settled(lambda: proxy.calls("get"), 0.3)
        return client

    def test_while_it_stops_new_clients_are_refused_and_do_not_hang(self):
        """O-04: clients that came while it stopped hung in place of going elsewhere."""
        proxy = self.begin(shutdown_grace="1h")
        client = self.with_unread_replies(proxy)
        self.begin_to_stop(proxy)
        try:
            wait_until(lambda: self.is_refused(proxy), what="no more clients to be taken")
            self.assertTrue(proxy.is_alive())
        finally:
            client.close()
        self.check_exit(proxy)

    @staticmethod
    def is_refused(proxy):
        connection = proxy.try_to_connect()
        if connection:
            connection.close()
        return connection is None

    def test_without_clients_it_ends_at_once(self):
        """O-04: an idle proxy took its whole grace to end."""
        proxy = self.begin(shutdown_grace="1h")
        self.assertEqual(proxy.call("SET", "a", "1"), "OK")
        proxy.signal(signal.SIGTERM)
        self.check_exit(proxy)

    def test_a_client_that_sent_half_a_request_does_not_delay_the_end(self):
        """O-04: half a request kept the proxy from ending."""
        proxy = self.begin(shutdown_grace="1h")
        with proxy.connect() as client:
            number = client.call("CLIENT", "ID")
            client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000\r\nxxx")
            wait_until(lambda: b" qbuf=30 " in proxy.call("CLIENT", "LIST", "ID", number),
                       what="half a request to have come")
            proxy.signal(signal.SIGTERM)
            self.assertTrue(client.at_end())
        self.check_exit(proxy)

    def test_SIGHUP_and_SIGUSR1_end_nothing(self):
        """O-04: a signal that is meant for logrotate ended the proxy."""
        proxy = self.begin()
        with proxy.connect() as client:
            for _ in range(100):
                proxy.signal(signal.SIGHUP)
                proxy.signal(signal.SIGUSR1)
                time.sleep(0.002)
            self.assertTrue(proxy.is_alive())
            self.assertEqual(client.call("PING"), "PONG")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Memory under clients that read slowly or not at all, and the limits that bound it."""
import random
import resource
import unittest

from support import encode, wait_until
from support.load import Load, Sender, run_at_once, wait_held_up
from support.memory import MB, PeakMemory
from support.proxy import is_sanitized
from support.shared_cluster import OneCluster
from support.slots import shard_key
from support.wait import settled


class Memory(OneCluster):
    """A proxy with limits, and what its memory may do."""

    def begin(self, **limits):
        limits = {f"limits.{name}": value for name, value in limits.items()}
        # Bounds are the subject here, and not how fast an overloaded machine is.
        return self.start({"backend.request_timeout": "1m", **limits})

    def check_growth(self, memory, limit):
        """Last in a test: with a sanitizer, everything before was checked nevertheless."""
        if is_sanitized():
            self.skipTest("a sanitizer's memory is not the proxy's: run with the release build")
        self.assertLess(memory.growth, limit, f"grew by {memory.growth >> 20} MB")

    def fill(self, key, size):
        """A list of 100 KB elements on the first node."""
        node = self.cluster.nodes[0]
        node.call("DEL", key)
        element = b"e" * 100_000
        for _ in range(size // len(element)):
            node.call("RPUSH", key, element)

    def assert_ends_early(self, client):
        """It is closed before the reply that it waits for."""
        with self.assertRaises(ConnectionError):
            client.read_frame()


class SlowReaders(Memory):
    """Big replies that nobody reads."""

    def test_slow_readers_of_big_replies_stall_nobody_on_the_same_shard(self):
        """MEM-02: a client that read slowly stalled all others of its shard."""
        proxy = self.begin()
        key, other = shard_key(0, prefix="list"), shard_key(0, prefix="other")
        self.fill(key, 12 * MB)  # the kernels on the way hold about 4 MB
        with self.cluster.nodes[0].connect() as node:
            whole = node.call_raw("LRANGE", key, 0, -1)
        quick = Load(proxy, ("SET", other, "1"), ("GET", other))
        with PeakMemory(proxy) as memory:
            slow = [self.connect(proxy, 120) for _ in range(12)]
            for client in slow:
                client.send(encode("LRANGE", key, 0, -1))
            quick.wait_for_more(300)
            self.assertEqual(quick.stop(), [])
            for client in slow:
                self.assertEqual(client.read_frame(), whole)
        self.check_growth(memory, 12 * 12 * MB + 32 * MB)

    def test_a_client_beyond_client_output_is_closed_with_a_log_line_and_nobody_else(self):
        """MEM-02: one client that did not read its replies filled the memory."""
        proxy = self.begin(client_output="1mb")
        key = shard_key(0, prefix="list")
        self.fill(key, 24 * MB)
        with PeakMemory(proxy) as memory:
            quick = Load(proxy, ("SET", shard_key(0), "1"), ("GET", shard_key(0)))
            for number in range(1, 6):
                slow = self.connect(proxy, 120)
                slow.send(encode("LRANGE", key, 0, -1))
                wait_until(lambda n=number: proxy.counter("clients_closed_output_limit") == n,
                           what="the client to be closed")
                self.assert_ends_early(slow)
            quick.wait_for_more()
            self.assertEqual(quick.stop(), [])
        self.assertIn("limits.client_output", proxy.log_text())
        self.check_growth(memory, 48 * MB)

    def test_a_client_with_unread_replies_is_not_asked_for_more_and_loses_none(self):
        """MEM-02: requests went on to be taken from a client that read nothing."""
        proxy = self.begin(client_output_soft="256kb", inflight_per_client=16)
        key, count, value = shard_key(0, prefix="value"), 600, b"v" * 100_000
        self.cluster.nodes[0].call("SET", key, value)
        reply = b"$%d\r\n%s\r\n" % (len(value), value)
        with PeakMemory(proxy) as memory:
            client = self.connect(proxy, 120)
            sender = Sender(client, encode("GET", key) * count)
            ran = settled(lambda: proxy.calls("get"))
            self.assertLess(ran, count // 2, "requests are taken though no reply is read")
            for _ in range(count):
                self.assertEqual(sender.read(len(reply)), reply)
        self.check_growth(memory, 24 * MB)

    def test_beyond_the_memory_of_the_process_the_greediest_clients_are_closed(self):
        """MEM-02: many clients that stayed below their limits filled the memory together."""
        proxy = self.begin(memory="48mb")
        key = shard_key(0, prefix="list")
        self.fill(key, 16 * MB)
        quick = Load(proxy, ("SET", shard_key(0), "1"), ("GET", shard_key(0)))
        with PeakMemory(proxy) as memory:
            slow = [self.connect(proxy, 120) for _ in range(16)]
            for client in slow:
                client.send(encode("LRANGE", key, 0, -1))
            def counter(name):
                try:
                    return proxy.counter(name)
                except ConnectionError:  # whoever asks may be the greediest of his worker
                    return None

            wait_until(lambda: counter("clients_closed_memory"), what="a client to be closed")
            wait_until(lambda: (counter("buffer_bytes") or 1 << 40) <= 48 * MB,
                       what="memory to be freed")
            quick.wait_for_more()
            self.assertEqual(quick.stop(), [])
        self.assertIn("limits.memory", proxy.log_text())
        for client in slow:
            client.close()
        proxy.wait_for_clients(0)
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="all memory to be freed")
        self.check_growth(memory, 48 * MB + 64 * MB)

    def test_memory_is_given_back_after_a_burst(self):
        """MEM-02: after one burst the proxy stayed as large as it had been then."""
        proxy = self.begin()
        key = shard_key(0, prefix="list")
        self.fill(key, 16 * MB)
        with PeakMemory(proxy) as memory:
            slow = [self.connect(proxy, 120) for _ in range(10)]
            for client in slow:
                client.send(encode("LRANGE", key, 0, -1))
            wait_until(lambda: proxy.counter("buffer_bytes") > 96 * MB, what="replies to pile up")
            for client in slow:
                client.read_frame()
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="buffers to be given back")
        if not is_sanitized():
            wait_until(lambda: proxy.rss - memory.before < 32 * MB, what="memory to be given back")


class MassLoad(Memory):
    """Clients that send without end and do not read."""

    def test_pipelines_that_nobody_reads_are_held_up_and_then_finished_in_order(self):
        """MEM-03: 20 clients with pipelines of 10,000 requests were reset, or ended the proxy."""
        proxy = self.begin()
        clients, depth = 5 if is_sanitized() else 20, 10_000
        with PeakMemory(proxy) as memory:
            senders, expected = [], []
            for number in range(clients):
                key, value = f"{{{number}}}mass", b"%04d" % number * 512
                senders.append(Sender(self.connect(proxy, 120),
                                      (encode("SET", key, value) + encode("GET", key)) *
                                      (depth // 2)))
                expected.append((b"+OK\r\n$%d\r\n%s\r\n" % (len(value), value)) * (depth // 2))
            wait_held_up(senders)
            self.assertFalse(all(sender.is_done() for sender in senders))
            self.assertEqual(proxy.call("PING"), "PONG")
            run_at_once(*[lambda pair=pair: self.read_whole(*pair)
                          for pair in zip(senders, expected)])
        # For each client limits.client_output_soft, and once as much for what was in flight then
        # in either direction; all of it would be 400 MB.
        self.check_growth(memory, clients * 6 * MB)

    @staticmethod
    def read_whole(sender, whole):
        stream = sender.read(len(whole))
        if stream != whole:
            at = next(i for i, (left, right) in enumerate(zip(stream, whole)) if left != right)
            raise AssertionError(f"at byte {at}: {stream[at - 20:at + 200]}, "
                                 f"not {whole[at - 20:at + 200]}")

    def test_a_writer_that_never_reads_stays_within_bounds_and_disturbs_nobody(self):
        """MEM-03: a mass load that was piped in without reading ended the proxy."""
        proxy = self.begin()
        key, other = shard_key(0, prefix="written"), shard_key(0, prefix="other")
        quick = Load(proxy, ("SET", other, "1"), ("GET", other))
        with PeakMemory(proxy) as memory:
            writers = [Sender(self.connect(proxy, 120), encode("SET", key, b"w" * 10_000) * 2_500)
                       for _ in range(4)]
            wait_held_up(writers)
            quick.wait_for_more()
            self.assertEqual(quick.stop(), [])
            for writer in writers:
                self.assertEqual(writer.read(12_500), b"+OK\r\n" * 2_500)
        self.check_growth(memory, 64 * MB)

    def test_requests_for_a_node_that_does_not_take_them_stay_within_bounds(self):
        """MEM-03: requests piled up in front of a node that hung."""
        proxy = self.begin(pipe_queue="1mb")
        node, key, count = self.cluster.nodes[0], shard_key(0, prefix="stuck"), 40
        value = b"s" * 500_000
        quick = Load(proxy, ("SET", shard_key(1), "1"))
        with PeakMemory(proxy) as memory:
            self.assertEqual(proxy.call("SET", key, "1"), "OK")
            node.pause()
            try:
                writers = [Sender(self.connect(proxy, 120), encode("SET", key, value) * count)
                           for _ in range(8)]
                wait_held_up(writers)
                self.assertFalse(any(writer.is_done() for writer in writers))
                quick.wait_for_more()
            finally:
                node.resume()
            for writer in writers:
                self.assertEqual(writer.read(5 * count), b"+OK\r\n" * count)
        self.assertEqual(quick.stop(), [])
        self.check_growth(memory, 64 * MB)

    def test_a_request_beyond_client_query_closes_its_client_with_a_log_line(self):
        """MEM-03: one endless request filled the memory."""
        proxy = self.begin(client_query="64kb")
        for number, data in enumerate((encode("SET", "a", b"x" * 100_000),
                                       b"*2\r\n$3\r\nGET\r\n$500000\r\n" + b"x" * 200_000,
                                       encode("MGET", *["key%d" % i for i in range(20_000)])), 1):
            with proxy.connect() as client:
                client.send(data)
                self.assert_ends_early(client)
            self.assertEqual(proxy.counter("clients_closed_query_limit"), number)
        self.assertIn("limits.client_query", proxy.log_text())
        self.assertEqual(proxy.call("SET", "a", b"x" * 50_000), "OK")

    def test_a_long_pipeline_of_small_requests_is_no_large_request(self):
        """MEM-03: a long pipeline was taken for one large request and closed."""
        proxy = self.begin(client_query="64kb", inflight_per_client=16, client_output_soft="4kb")
        for _ in range(3):
            sender = Sender(self.connect(proxy, 120), encode("SET", "small", "x" * 100) * 20_000)
            self.assertEqual(sender.read(100_000), b"+OK\r\n" * 20_000)
        self.assertEqual(proxy.counter("clients_closed_query_limit"), 0)

    def test_lengths_that_are_only_announced_cost_nothing(self):
        """MEM-03: clients that only announced gigabytes made the proxy allocate them."""
        proxy = self.begin()
        announced = b"*1000000\r\n$3\r\nSET\r\n$400000000\r\nx"
        before = proxy.counter("total_net_input_bytes")
        with PeakMemory(proxy) as memory:
            for _ in range(100):
                self.connect(proxy).send(announced)
            wait_until(lambda: proxy.counter("total_net_input_bytes") >
                       before + 100 * len(announced), what="the lengths to be heard")
        self.check_growth(memory, 16 * MB)


class IdleClients(Memory):
    """Very many connections that were used and may be used again."""

    def test_ten_thousand_idle_clients_cost_at_most_two_kilobytes_each(self):
        """Thousands of idle connections of many pools filled the memory."""
        if is_sanitized():
            self.skipTest("a sanitizer's memory is not the proxy's: run with the release build")
        count = 10000
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < count + 1000:
            self.skipTest(f"only {hard} files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        proxy = self.start({"server.max_clients": count + 100})
        clients = []
        try:
            clients += self.connect_and_ask(proxy, 200)
            before = settled(lambda: proxy.rss, 1.5)
            clients += self.connect_and_ask(proxy, count - 200)
            self.assertEqual(proxy.counter("connected_clients"), count + 1)
            # Every client is looked at once a second, and gives back what it does not need.
            wait_until(lambda: proxy.rss - before <= 2048 * (count - 200),
                       what="the memory of idle clients to be small")
            self.assertEqual(random.choice(clients).call("PING"), "PONG")
        finally:
            for client in clients:
                client.reset()

    @staticmethod
    def connect_and_ask(proxy, count):
        """So many clients, a few at a time, so that their number does not count but their work."""
        clients = []
        while len(clients) < count:
            some = [proxy.connect() for _ in range(200)]
            for client in some:
                client.send(encode("SET", f"idle{client.address}", "x" * 100))
            for client in some:
                assert client.read() == "OK"
            clients += some
        return clients


if __name__ == "__main__":
    unittest.main()

"""Memory under clients that read slowly or not at all, and the limits that bound it."""
import concurrent.futures
import threading
import time
import unittest

from faults import Load, shard_key
from shared_cluster import OneCluster, is_sanitized
from support import encode, wait_until

MB = 1 << 20


class PeakMemory:
    """The most resident bytes of a process while the block runs, over what it had before."""

    def __init__(self, proxy):
        self.proxy = proxy

    def __enter__(self):
        self.before = self.peak = self.proxy.rss
        self.running = True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while self.running:
            try:
                self.peak = max(self.peak, self.proxy.rss)
            except (OSError, RuntimeError):
                return
            time.sleep(0.01)

    def __exit__(self, *_):
        self.running = False
        self.thread.join()

    @property
    def growth(self):
        return self.peak - self.before


class Sender:
    """Sends one stream of requests as fast as the proxy takes it, and reads when told to."""

    def __init__(self, client, data):
        self.client, self.data = client, memoryview(data)
        self.sent = 0
        client.socket.settimeout(120)
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def _send(self):
        try:
            while self.sent < len(self.data):
                self.sent += self.client.socket.send(self.data[self.sent:self.sent + 65536])
        except OSError:
            pass

    def is_done(self):
        return self.sent == len(self.data)

    def is_held_up(self):
        """Whether nothing was taken for a while."""
        before = self.sent
        time.sleep(0.5)
        return self.sent == before

    def read(self, count):
        """The next bytes of the reply stream."""
        chunks = []
        while count > 0:
            chunk = self.client.socket.recv(min(count, 1 << 18))
            if not chunk:
                raise ConnectionError("closed by the peer")
            chunks.append(chunk)
            count -= len(chunk)
        return b"".join(chunks)


class Memory(OneCluster):
    """Common to the event loops: a proxy with limits, and what its memory may do."""

    def begin(self, **limits):
        limits = {f"limits.{name}": value for name, value in limits.items()}
        # Bounds are the subject here, and not how fast an overloaded machine is.
        return self.start({"io.engine": self.engine, "backend.request_timeout": "1m", **limits})

    def check_growth(self, memory, limit):
        """Last in a test: with a sanitizer, everything before was checked nevertheless."""
        if is_sanitized():
            self.skipTest("a sanitizer's memory is not the proxy's: run with the release build")
        self.assertLess(memory.growth, limit, f"grew by {memory.growth >> 20} MB")

    def slow_client(self, proxy):
        client = proxy.connect(60)
        self.addCleanup(client.close)
        return client

    def fill(self, key, size):
        """A list of 100 KB elements on the first node."""
        node = self.cluster.nodes[0]
        node.call("DEL", key)
        element = b"e" * 100_000
        for _ in range(size // len(element)):
            node.call("RPUSH", key, element)


class SlowReaders:
    """Big replies that nobody reads; run for each event loop."""

    def test_MEM_02_slow_readers_of_big_replies_stall_nobody_on_the_same_shard(self):
        proxy = self.begin()
        key, other = shard_key(0, prefix="list"), shard_key(0, prefix="other")
        self.fill(key, 12 * MB)  # the kernels on the way hold about 4 MB
        with self.cluster.nodes[0].connect() as node:
            whole = node.call_raw("LRANGE", key, 0, -1)
        quick = Load(proxy, ("SET", other, "1"), ("GET", other))
        with PeakMemory(proxy) as memory:
            slow = [self.slow_client(proxy) for _ in range(12)]
            for client in slow:
                client.send(encode("LRANGE", key, 0, -1))
            quick.wait_for_more(300)
            self.assertEqual(quick.stop(), [])
            self.assertLess(quick.slowest, 3, "a quick client waited for slow ones")
            for client in slow:
                self.assertEqual(client.read_frame(), whole)
        self.check_growth(memory, 12 * 12 * MB + 32 * MB)

    def test_MEM_02_a_client_beyond_client_output_is_closed_with_a_log_line_and_nobody_else(self):
        proxy = self.begin(client_output="1mb")
        key = shard_key(0, prefix="list")
        self.fill(key, 24 * MB)
        with PeakMemory(proxy) as memory:
            quick = Load(proxy, ("SET", shard_key(0), "1"), ("GET", shard_key(0)))
            for number in range(1, 6):
                slow = self.slow_client(proxy)
                slow.send(encode("LRANGE", key, 0, -1))
                wait_until(lambda n=number: proxy.counter("clients_closed_output_limit") == n,
                           what="the client to be closed")
                self.assertTrue(self.ends_early(slow))
            quick.wait_for_more()
            self.assertEqual(quick.stop(), [])
        self.assertIn("limits.client_output", proxy.log_text())
        self.check_growth(memory, 48 * MB)

    @staticmethod
    def ends_early(client):
        try:
            client.read_frame()
            return False
        except ConnectionError:
            return True

    def test_MEM_02_a_client_with_unread_replies_is_not_asked_for_more_and_loses_none(self):
        proxy = self.begin(client_output_soft="256kb", inflight_per_client=16)
        key, count, value = shard_key(0, prefix="value"), 600, b"v" * 100_000
        self.cluster.nodes[0].call("SET", key, value)
        reply = b"$%d\r\n%s\r\n" % (len(value), value)
        with PeakMemory(proxy) as memory:
            client = self.slow_client(proxy)
            sender = Sender(client, encode("GET", key) * count)
            time.sleep(2)
            ran = int(proxy.info()["cmdstat_get"].split("calls=")[1].split(",")[0])
            self.assertLess(ran, count // 2, "requests are taken though no reply is read")
            for _ in range(count):
                self.assertEqual(sender.read(len(reply)), reply)
        self.check_growth(memory, 24 * MB)

    def test_MEM_02_beyond_the_memory_of_the_process_the_greediest_clients_are_closed(self):
        proxy = self.begin(memory="48mb")
        key = shard_key(0, prefix="list")
        self.fill(key, 16 * MB)
        quick = Load(proxy, ("SET", shard_key(0), "1"), ("GET", shard_key(0)))
        with PeakMemory(proxy) as memory:
            slow = [self.slow_client(proxy) for _ in range(16)]
            for client in slow:
                client.send(encode("LRANGE", key, 0, -1))
            wait_until(lambda: proxy.counter("clients_closed_memory") > 0,
                       what="a client to be closed")
            wait_until(lambda: proxy.counter("buffer_bytes") <= 48 * MB, what="memory to be freed")
            quick.wait_for_more()
            self.assertEqual(quick.stop(), [])
        self.assertIn("limits.memory", proxy.log_text())
        for client in slow:
            client.close()
        self.wait_for_clients(proxy, 0)
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="all memory to be freed")
        self.check_growth(memory, 48 * MB + 64 * MB)

    def test_MEM_02_memory_is_given_back_after_a_burst(self):
        proxy = self.begin()
        key = shard_key(0, prefix="list")
        self.fill(key, 16 * MB)
        with PeakMemory(proxy) as memory:
            slow = [self.slow_client(proxy) for _ in range(10)]
            for client in slow:
                client.send(encode("LRANGE", key, 0, -1))
            wait_until(lambda: proxy.counter("buffer_bytes") > 96 * MB, what="replies to pile up")
            for client in slow:
                client.read_frame()
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="buffers to be given back")
        if not is_sanitized():
            wait_until(lambda: proxy.rss - memory.before < 32 * MB, what="memory to be given back")


class MassLoad:
    """Clients that send without end and do not read; run for each event loop."""

    def test_MEM_03_pipelines_that_nobody_reads_are_held_up_and_then_finished_in_order(self):
        proxy = self.begin()
        clients, depth = 5 if is_sanitized() else 20, 10_000
        with PeakMemory(proxy) as memory:
            senders, expected = [], []
            for number in range(clients):
                key, value = f"{{{number}}}mass", b"%04d" % number * 512
                senders.append(Sender(self.slow_client(proxy),
                                      (encode("SET", key, value) + encode("GET", key)) *
                                      (depth // 2)))
                expected.append((b"+OK\r\n$%d\r\n%s\r\n" % (len(value), value)) * (depth // 2))
            wait_until(lambda: all(sender.is_held_up() or sender.is_done() for sender in senders),
                       60, what="the load to be held up")
            self.assertFalse(all(sender.is_done() for sender in senders))
            self.assertEqual(proxy.call("PING"), "PONG")
            with concurrent.futures.ThreadPoolExecutor(clients) as readers:
                streams = readers.map(lambda sender, whole: sender.read(len(whole)), senders,
                                      expected)
                for stream, whole in zip(streams, expected):
                    if stream != whole:
                        self.fail(self.first_difference(stream, whole))
        self.check_growth(memory, 96 * MB)

    @staticmethod
    def first_difference(stream, whole):
        at = next(i for i, (left, right) in enumerate(zip(stream, whole)) if left != right)
        return f"at byte {at}: {stream[at - 20:at + 200]}, not {whole[at - 20:at + 200]}"

    def test_MEM_03_a_writer_that_never_reads_stays_within_bounds_and_disturbs_nobody(self):
        proxy = self.begin()
        key, other = shard_key(0, prefix="written"), shard_key(0, prefix="other")
        quick = Load(proxy, ("SET", other, "1"), ("GET", other))
        with PeakMemory(proxy) as memory:
            writers = [Sender(self.slow_client(proxy), encode("SET", key, b"w" * 10_000) * 2_500)
                       for _ in range(4)]
            wait_until(lambda: all(writer.is_done() or writer.is_held_up() for writer in writers),
                       60, what="the writers to be done")
            quick.wait_for_more()
            self.assertEqual(quick.stop(), [])
            self.assertLess(quick.slowest, 5, "a quick client waited for the writers")
            for writer in writers:
                self.assertEqual(writer.read(12_500), b"+OK\r\n" * 2_500)
        self.check_growth(memory, 64 * MB)

    def test_MEM_03_requests_for_a_node_that_does_not_take_them_stay_within_bounds(self):
        proxy = self.begin(pipe_queue="1mb")
        node, key, count = self.cluster.nodes[0], shard_key(0, prefix="stuck"), 40
        value = b"s" * 500_000
        quick = Load(proxy, ("SET", shard_key(1), "1"))
        with PeakMemory(proxy) as memory:
            self.assertEqual(proxy.call("SET", key, "1"), "OK")
            node.pause()
            try:
                writers = [Sender(self.slow_client(proxy), encode("SET", key, value) * count)
                           for _ in range(8)]
                time.sleep(1.2)
                self.assertFalse(any(writer.is_done() for writer in writers))
                quick.wait_for_more()
            finally:
                node.resume()
            for writer in writers:
                self.assertEqual(writer.read(5 * count), b"+OK\r\n" * count)
        self.assertEqual(quick.stop(), [])
        self.check_growth(memory, 64 * MB)

    def test_MEM_03_a_request_beyond_client_query_closes_its_client_with_a_log_line(self):
        proxy = self.begin(client_query="64kb")
        for number, data in enumerate((encode("SET", "a", b"x" * 100_000),
                                       b"*2\r\n$3\r\nGET\r\n$500000\r\n" + b"x" * 200_000,
                                       encode("MGET", *["key%d" % i for i in range(20_000)])), 1):
            with proxy.connect() as client:
                client.send(data)
                self.assertTrue(SlowReaders.ends_early(client))
            self.assertEqual(proxy.counter("clients_closed_query_limit"), number)
        self.assertIn("limits.client_query", proxy.log_text())
        self.assertEqual(proxy.call("SET", "a", b"x" * 50_000), "OK")

    def test_MEM_03_a_long_pipeline_of_small_requests_is_no_large_request(self):
        proxy = self.begin(client_query="64kb", inflight_per_client=16, client_output_soft="4kb")
        for _ in range(3):
            sender = Sender(self.slow_client(proxy), encode("SET", "small", "x" * 100) * 20_000)
            self.assertEqual(sender.read(100_000), b"+OK\r\n" * 20_000)
        self.assertEqual(proxy.counter("clients_closed_query_limit"), 0)

    def test_MEM_03_lengths_that_are_only_announced_cost_nothing(self):
        proxy = self.begin()
        with PeakMemory(proxy) as memory:
            clients = [self.slow_client(proxy) for _ in range(100)]
            for client in clients:
                client.send(b"*1000000\r\n$3\r\nSET\r\n$400000000\r\nx")
            self.assertEqual(proxy.call("PING"), "PONG")
            time.sleep(0.5)
        self.check_growth(memory, 16 * MB)


class SlowReadersWithTheDefaultEventLoop(SlowReaders, Memory):
    engine = "auto"


class SlowReadersWithEpoll(SlowReaders, Memory):
    engine = "epoll"


class MassLoadWithTheDefaultEventLoop(MassLoad, Memory):
    engine = "auto"


class MassLoadWithEpoll(MassLoad, Memory):
    engine = "epoll"


if __name__ == "__main__":
    unittest.main()

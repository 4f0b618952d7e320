"""Values and replies of many megabytes: they arrive whole, in bounded memory, and hinder nobody."""
import os
import threading
import time
import unittest

from memory import MB, PeakMemory
from support import Cluster, Connection, Error, Proxy, encode, wait_until

LONG = os.environ.get("PENSTOCK_LONG") == "1"

# A large value goes through in pieces of this size.
STEP = 1 << 20


def setUpModule():
    global cluster, proxy
    cluster = Cluster(3)
    unittest.addModuleCleanup(cluster.stop)
    proxy = Proxy(cluster.seeds)
    unittest.addModuleCleanup(proxy.stop)


BLOCK = b"".join(b"%07d\n" % number for number in range(STEP // 8))


def pattern(size, offset=0):
    """Bytes that tell where they belong, at most STEP of them."""
    start = offset % STEP
    return (BLOCK[start:] + BLOCK[:start])[:size] if start else BLOCK[:size]


def send_set(connection, key, size, tail=b""):
    """SET of a pattern, without ever holding it whole."""
    head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key.encode(), size)
    connection.send(head)
    for offset in range(0, size, STEP):
        connection.send(pattern(min(STEP, size - offset), offset))
    connection.send(b"\r\n" + tail)


def receive_pattern(connection, size):
    """Reads a bulk of that size and compares it piece by piece."""
    head = b"$%d\r\n" % size
    assert connection._exactly(len(head)) == head
    for offset in range(0, size, STEP):
        piece = connection._exactly(min(STEP, size - offset))
        if piece != pattern(len(piece), offset):
            raise AssertionError(f"wrong bytes near {offset} of {size}")
    assert connection._exactly(2) == b"\r\n"


class Bystander:
    """Another client, which asks small things all the time; `slowest` is its longest wait."""

    def __init__(self, *command):
        self.command, self.slowest, self.answers = command, 0.0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        with proxy.connect(timeout=60) as client:
            while not self._stop.is_set():
                began = time.monotonic()
                client.call(*self.command)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.answers += 1
                time.sleep(0.005)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class LargeValues(unittest.TestCase):
    def setUp(self):
        self.client = Connection(proxy.port, timeout=120)
        self.addCleanup(self.client.close)

    def tearDown(self):
        cluster.flush()

    def exchange(self, size):
        """SET and GET of one value; how much the proxy grew at each."""
        with PeakMemory(proxy) as setting:
            send_set(self.client, "{large}", size)
            self.assertEqual(self.client.read(), "OK")
        with PeakMemory(proxy) as getting:
            self.client.send(encode("GET", "{large}"))
            receive_pattern(self.client, size)
        return setting.growth, getting.growth

    def test_PR_15_values_of_all_sizes_come_back_as_they_went(self):
        for size in (0, 1, 511, 4095, 4096, 16383, 16384, 16385, 32767, 32768, 32769, 65535, 65536,
                     65537, 100000, MB - 1, MB, MB + 1, 5 * MB):
            with self.subTest(size=size):
                self.exchange(size)

    def test_PR_15_a_value_of_64_megabytes_is_held_once_at_most_and_streamed_back(self):
        self.exchange(MB)
        for _ in range(2):
            setting, getting = self.exchange(64 * MB)
            self.assertLess(setting, 2.5 * 64 * MB)
            self.assertLess(getting, 48 * MB)
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="the buffers to be given back")

    @unittest.skipUnless(LONG, "takes minutes; PENSTOCK_LONG=1")
    def test_PR_15_values_up_to_the_servers_limit_of_512_megabytes_pass(self):
        for size in (256 * MB, 512 * MB):
            setting, getting = self.exchange(size)
            self.assertLess(setting, 2.5 * size)
            self.assertLess(getting, size / 2)

    def test_PR_15_a_value_beyond_the_limit_is_refused_when_it_is_announced(self):
        self.client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n")
        self.assertEqual(self.client.read(), "ERR Protocol error: invalid bulk length")
        self.assertTrue(self.client.at_end())

    def test_PR_15_large_values_pass_between_small_ones_of_one_pipeline(self):
        sizes = [20 * MB, 10, 3 * MB, 100000, 1, 8 * MB]
        for index, size in enumerate(sizes):
            send_set(self.client, f"large:{index}", size, tail=encode("ECHO", index))
        for index in range(len(sizes)):
            self.assertEqual(self.client.read(), "OK")
            self.assertEqual(self.client.read(), b"%d" % index)
        self.client.send(b"".join(encode("GET", f"large:{i}") for i in range(len(sizes))))
        for size in sizes:
            receive_pattern(self.client, size)

    def test_PR_15_a_large_value_that_comes_slowly_is_not_cut_off_while_bytes_flow(self):
        with Proxy(cluster.seeds, {"backend.request_timeout": "500ms"}) as quick:
            with Connection(quick.port, timeout=60) as client:
                size = 4 * MB
                client.send(b"*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$%d\r\n" % size)
                for offset in range(0, size, size // 16):
                    client.send(pattern(size // 16, offset))
                    time.sleep(0.1)
                client.send(b"\r\n")
                self.assertEqual(client.read(), "OK")
                client.send(encode("GET", "slow"))
                time.sleep(1.5)
                receive_pattern(client, size)

    def test_PR_15_a_client_that_goes_in_the_middle_of_a_large_value_frees_it(self):
        before = proxy.rss
        for _ in range(4):
            with Connection(proxy.port) as client:
                client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\n" + b"x" * (24 * MB))
                client.reset()
            with Connection(proxy.port) as client:
                client.call("SET", "{half}", b"x" * (24 * MB))
                client.send(encode("GET", "{half}"))
                client.socket.recv(1000)
                client.reset()
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="the buffers to be given back")
        wait_until(lambda: proxy.rss - before < 64 * MB, what="the memory to be given back")

    def test_PR_15_a_reader_that_stops_is_held_within_its_limit_and_then_closed(self):
        settings = {"limits.client_output": "16mb"}
        with Proxy(cluster.seeds, settings) as tight, Connection(tight.port, timeout=60) as client:
            client.call("SET", "{big}", b"x" * (8 * MB))
            with PeakMemory(tight) as memory:
                client.send(encode("GET", "{big}") * 40)
                wait_until(lambda: tight.counter("buffer_bytes") > 0 or
                           tight.counter("clients_closed_output_limit") > 0, what="replies")
                time.sleep(1)
            self.assertLess(memory.growth, 96 * MB)
            self.assertEqual(tight.call("PING"), "PONG")


class LargeReplies(unittest.TestCase):
    def setUp(self):
        self.client = Connection(proxy.port, timeout=120)
        self.addCleanup(self.client.close)

    def tearDown(self):
        cluster.flush()

    def fill_list(self, elements):
        script = """for i = 1, ARGV[1], 1000 do
                      local some = {}
                      for j = i, i + 999 do some[#some + 1] = 'element ' .. j end
                      redis.call('RPUSH', KEYS[1], unpack(some))
                    end"""
        self.client.call("EVAL", script, 1, "{list}", elements)

    def test_PR_15_a_list_of_a_million_elements_is_streamed(self):
        elements = 1000000
        self.fill_list(elements)
        with PeakMemory(proxy) as memory:
            reply = self.client.call_raw("LRANGE", "{list}", 0, -1)
        self.assertEqual(reply[:10], b"*1000000\r\n")
        self.assertEqual(reply.count(b"element "), elements)
        self.assertTrue(reply.endswith(b"$15\r\nelement 1000000\r\n"))
        self.assertLess(memory.growth, 32 * MB)

    def test_PR_15_many_large_values_of_one_slot_are_streamed(self):
        size, count = 2 * MB, 40
        keys = ["{m}%d" % index for index in range(count)]
        for key in keys:
            send_set(self.client, key, size)
            self.assertEqual(self.client.read(), "OK")
        with PeakMemory(proxy) as memory:
            self.client.send(encode("MGET", *keys))
            self.assertEqual(self.client._exactly(5), b"*%d\r\n" % count)
            for _ in keys:
                receive_pattern(self.client, size)
        self.assertLess(memory.growth, size * count / 2)

    def test_PR_15_many_large_values_of_many_slots_are_held_once_at_most(self):
        size, count = 2 * MB, 40
        keys = [f"m{index}" for index in range(count)]
        for key in keys:
            send_set(self.client, key, size)
            self.assertEqual(self.client.read(), "OK")
        with PeakMemory(proxy) as memory:
            self.client.send(encode("MGET", *keys))
            self.assertEqual(self.client._exactly(5), b"*%d\r\n" % count)
            for _ in keys:
                receive_pattern(self.client, size)
        self.assertLess(memory.growth, 1.4 * size * count)

    def test_PR_15_a_large_mset_over_many_slots_is_taken_apart_and_stored(self):
        size, count = MB, 24
        words = ["MSET"]
        for index in range(count):
            words += [f"s{index}", pattern(size, index)]
        self.assertEqual(self.client.call(*words), "OK")
        for index in range(count):
            self.assertEqual(self.client.call("GET", f"s{index}"), pattern(size, index))

    def test_PR_15_other_clients_go_on_while_large_values_pass(self):
        self.client.call("SET", "small", "x")
        send_set(self.client, "{large}", 64 * MB)
        self.assertEqual(self.client.read(), "OK")
        with Bystander("PING") as pinger, Bystander("GET", "small") as getter:
            for _ in range(3):
                self.client.send(encode("GET", "{large}"))
                receive_pattern(self.client, 64 * MB)
                send_set(self.client, "{large}", 64 * MB)
                self.assertEqual(self.client.read(), "OK")
        for bystander in (pinger, getter):
            self.assertGreater(bystander.answers, 10)
            self.assertLess(bystander.slowest, 5)

    def test_PR_15_errors_after_large_replies_are_not_lost(self):
        send_set(self.client, "{large}", 10 * MB)
        self.assertEqual(self.client.read(), "OK")
        self.client.send(encode("GET", "{large}") + encode("LPUSH", "{large}", "x"))
        receive_pattern(self.client, 10 * MB)
        self.assertIsInstance(self.client.read(), Error)


if __name__ == "__main__":
    unittest.main()

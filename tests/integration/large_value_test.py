# SPDX-License-Identifier: Apache-2.0
"""Values and replies of many megabytes: they arrive whole, in bounded memory, and hinder nobody."""
import time
import unittest

from support import Cluster, Error, Proxy, encode, frames, wait_until
from support.fake_node import bulk
from support.load import Load
from support.memory import MB, PeakMemory

# A large value goes through in pieces of this size.
STEP = 1 << 20


def setUpModule():
    global cluster, proxy
    cluster = Cluster(3)
    unittest.addModuleCleanup(cluster.stop)
    proxy = Proxy(cluster.seeds)
    unittest.addModuleCleanup(proxy.stop_cleanly)


BLOCK = b"".join(b"%07d\n" % number for number in range(STEP // 8))


def pattern(size, offset=0):
    """Bytes that tell where they belong, at most STEP of them."""
    start = offset % STEP
    return (BLOCK[start:] + BLOCK[:start])[:size] if start else BLOCK[:size]


def send_set(connection, key, size, tail=b"", between=lambda: None):
    """SET of a pattern, without ever holding it whole; calls `between` now and then."""
    head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key.encode(), size)
    connection.send(head)
    for offset in range(0, size, STEP):
        if offset % (16 * STEP) == 0:
            between()
        connection.send(pattern(min(STEP, size - offset), offset))
    connection.send(b"\r\n" + tail)


def receive_pattern(connection, size, between=lambda: None):
    """Reads a bulk of that size and compares it piece by piece; calls `between` now and then."""
    head = b"$%d\r\n" % size
    assert connection.read_bytes(len(head)) == head
    for offset in range(0, size, STEP):
        if offset % (16 * STEP) == 0:
            between()
        piece = connection.read_bytes(min(STEP, size - offset))
        if piece != pattern(len(piece), offset):
            raise AssertionError(f"wrong bytes near {offset} of {size}")
    assert connection.read_bytes(2) == b"\r\n"


class Large(unittest.TestCase):
    def setUp(self):
        self.client = proxy.connect(timeout=120)
        self.addCleanup(self.client.close)

    def tearDown(self):
        cluster.flush()


class LargeValues(Large):
    def exchange(self, size):
        """SET and GET of one value; how much the proxy grew at each."""
        with PeakMemory(proxy) as setting:
            send_set(self.client, "{large}", size)
            self.assertEqual(self.client.read(), "OK")
        with PeakMemory(proxy) as getting:
            self.client.send(encode("GET", "{large}"))
            receive_pattern(self.client, size)
        return setting.growth, getting.growth

    def test_values_of_all_sizes_come_back_as_they_went(self):
        """PR-15: values around the sizes of buffers came back broken."""
        for size in (0, 1, 511, 4095, 4096, 16383, 16384, 16385, 32767, 32768, 32769, 65535, 65536,
                     65537, 100000, MB - 1, MB, MB + 1, 5 * MB):
            with self.subTest(size=size):
                self.exchange(size)

    def test_a_value_of_64_megabytes_is_held_once_at_most_and_streamed_back(self):
        """PR-15: a large value was held several times over, or collected whole."""
        self.exchange(MB)
        for _ in range(2):
            setting, getting = self.exchange(64 * MB)
            self.assertLess(setting, 2.5 * 64 * MB)
            self.assertLess(getting, 48 * MB)
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="the buffers to be given back")

    def test_values_up_to_the_servers_limit_of_512_megabytes_pass(self):
        """PR-15: values beyond some limit of the proxy's own were refused."""
        for size in (256 * MB, 512 * MB):
            setting, getting = self.exchange(size)
            self.assertLess(setting, 2.5 * size)
            self.assertLess(getting, size / 2)

    def test_a_value_beyond_the_limit_is_refused_when_it_is_announced(self):
        """PR-15: a gigabyte was taken before it was refused."""
        self.client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n")
        self.assertEqual(self.client.read(), "ERR Protocol error: invalid bulk length")
        self.assertTrue(self.client.at_end())

    def test_large_values_pass_between_small_ones_of_one_pipeline(self):
        """PR-15: small replies overtook a large one, or were lost behind it."""
        sizes = [20 * MB, 10, 3 * MB, 100000, 1, 8 * MB]
        for index, size in enumerate(sizes):
            send_set(self.client, f"large:{index}", size, tail=encode("ECHO", index))
        for index in range(len(sizes)):
            self.assertEqual(self.client.read(), "OK")
            self.assertEqual(self.client.read(), b"%d" % index)
        self.client.send(frames(*[("GET", f"large:{i}") for i in range(len(sizes))]))
        for size in sizes:
            receive_pattern(self.client, size)

    def test_a_large_value_that_comes_slowly_is_not_cut_off_while_bytes_flow(self):
        """PR-15: a slow upload was cut off after a fixed time."""
        with Proxy(cluster.seeds, {"backend.request_timeout": "500ms"}) as quick:
            with quick.connect(timeout=60) as client:
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

    def test_a_client_that_goes_in_the_middle_of_a_large_value_frees_it(self):
        """PR-15: memory of aborted uploads and downloads was never given back."""
        before = proxy.rss
        for _ in range(4):
            with proxy.connect() as client:
                client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\n" + b"x" * (24 * MB))
                client.reset()
            with proxy.connect() as client:
                client.call("SET", "{half}", b"x" * (24 * MB))
                client.send(encode("GET", "{half}"))
                client.socket.recv(1000)
                client.reset()
        wait_until(lambda: proxy.counter("buffer_bytes") < MB, what="the buffers to be given back")
        wait_until(lambda: proxy.rss - before < 64 * MB, what="the memory to be given back")

    def test_a_reader_that_stops_costs_no_more_than_its_limit(self):
        """PR-15: one client that stopped reading filled the memory of the proxy."""
        settings = {"limits.client_output": "16mb"}
        with Proxy(cluster.seeds, settings) as tight, tight.connect(timeout=60) as client:
            client.call("SET", "{big}", b"x" * (8 * MB))
            with PeakMemory(tight) as memory:
                client.send(encode("GET", "{big}") * 40)
                wait_until(lambda: tight.counter("buffer_bytes") > 0 or
                           tight.counter("clients_closed_output_limit") > 0, what="replies")
                Load(tight, ("GET", "{big}other")).wait_for_more(500)
            self.assertLess(memory.growth, 96 * MB)


class LargeReplies(Large):
    def fill_list(self, elements):
        script = """for i = 1, ARGV[1], 1000 do
                      local some = {}
                      for j = i, i + 999 do some[#some + 1] = 'element ' .. j end
                      redis.call('RPUSH', KEYS[1], unpack(some))
                    end"""
        self.client.call("EVAL", script, 1, "{list}", elements)

    def test_a_list_of_a_million_elements_is_streamed(self):
        """PR-15: a reply of a million elements was collected whole."""
        elements = 1000000
        self.fill_list(elements)
        texts = (b"element %d" % number for number in range(1, elements + 1))
        wanted = b"".join([b"*%d\r\n" % elements, *map(bulk, texts)])
        with PeakMemory(proxy) as memory:
            self.client.send(encode("LRANGE", "{list}", 0, -1))
            got = self.client.read_bytes(len(wanted))
        self.assertTrue(got == wanted)
        self.assertLess(memory.growth, 32 * MB)

    def test_many_large_values_of_one_slot_are_streamed(self):
        """PR-15: an MGET of large values was collected whole."""
        size, count = 2 * MB, 40
        keys = ["{m}%d" % index for index in range(count)]
        for key in keys:
            send_set(self.client, key, size)
            self.assertEqual(self.client.read(), "OK")
        with PeakMemory(proxy) as memory:
            self.client.send(encode("MGET", *keys))
            self.assertEqual(self.client.read_bytes(5), b"*%d\r\n" % count)
            for _ in keys:
                receive_pattern(self.client, size)
        self.assertLess(memory.growth, size * count / 2)

    def test_many_large_values_of_many_slots_are_held_once_at_most(self):
        """PR-15: an MGET of large values over many slots was held several times over."""
        size, count = 2 * MB, 40
        keys = [f"m{index}" for index in range(count)]
        for key in keys:
            send_set(self.client, key, size)
            self.assertEqual(self.client.read(), "OK")
        with PeakMemory(proxy) as memory:
            self.client.send(encode("MGET", *keys))
            self.assertEqual(self.client.read_bytes(5), b"*%d\r\n" % count)
            for _ in keys:
                receive_pattern(self.client, size)
        self.assertLess(memory.growth, 1.4 * size * count)

    def test_a_large_mset_over_many_slots_is_taken_apart_and_stored(self):
        """PR-15: an MSET of many megabytes was refused or broken."""
        size, count = MB, 24
        words = ["MSET"]
        for index in range(count):
            words += [f"s{index}", pattern(size, index)]
        self.assertEqual(self.client.call(*words), "OK")
        for index in range(count):
            self.assertEqual(self.client.call("GET", f"s{index}"), pattern(size, index))

    def test_other_clients_go_on_while_large_values_pass(self):
        """PR-15: everybody waited while one client moved a large value."""
        self.client.call("SET", "small", "x")
        send_set(self.client, "{large}", 64 * MB)
        self.assertEqual(self.client.read(), "OK")
        others = [Load(proxy, ("PING",)), Load(proxy, ("GET", "small")),
                  Load(proxy, ("SET", "{large}other", "x"))]

        def all_go_on():
            for other in others:
                other.wait_for_more(5)

        self.client.send(encode("GET", "{large}"))
        receive_pattern(self.client, 64 * MB, between=all_go_on)
        send_set(self.client, "{large}", 64 * MB, between=all_go_on)
        self.assertEqual(self.client.read(), "OK")
        for other in others:
            self.assertEqual(other.stop(), [])

    def test_errors_after_large_replies_are_not_lost(self):
        """PR-15: an error behind a large reply was swallowed."""
        send_set(self.client, "{large}", 10 * MB)
        self.assertEqual(self.client.read(), "OK")
        self.client.send(encode("GET", "{large}") + encode("LPUSH", "{large}", "x"))
        receive_pattern(self.client, 10 * MB)
        self.assertIsInstance(self.client.read(), Error)


if __name__ == "__main__":
    unittest.main()

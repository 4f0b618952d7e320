# SPDX-License-Identifier: Apache-2.0
"""A node that refuses a command just then, and takes the next one of the same key."""
import unittest

from support import Error, Proxy
from support.fake_node import FakeNode, bulk

LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"


class OneKeyNode(FakeNode):
    """Keeps one value; refuses the first command it gets."""

    def __init__(self):
        super().__init__()
        self.value = b"0"
        self.refusals = 1
        self.on_command = self.run

    def run(self, words):
        if self.refusals > 0:
            self.refusals -= 1
            return LOADING
        if words[0] == b"SET":
            self.value = words[2]
            return b"+OK\r\n"
        return bulk(self.value)


class RefusedOrder(unittest.TestCase):
    def setUp(self):
        self.node = OneKeyNode()
        self.addCleanup(self.node.close)
        proxy = self.enterContext(Proxy(self.node.seeds, {"server.workers": 1}))
        self.client = proxy.connect()
        self.addCleanup(self.client.close)

    def test_of_two_writes_of_a_key_the_first_never_comes_last(self):
        """SET k 1, SET k 2 left 1 behind: the first was refused and sent again afterwards."""
        first, second = self.client.pipeline([("SET", "k", "1"), ("SET", "k", "2")])
        self.assertIsInstance(first, Error)
        self.assertIn("did not run", str(first))
        self.assertEqual(second, "OK")
        self.assertEqual(self.client.call("GET", "k"), b"2")

    def test_a_read_behind_a_refused_write_is_answered_and_the_write_is_not_run_after_it(self):
        """A client read the old value behind its own SET, which ran later."""
        first, second = self.client.pipeline([("SET", "k", "1"), ("GET", "k")])
        self.assertIsInstance(first, Error)
        self.assertEqual(second, b"0")
        self.assertEqual(self.client.call("GET", "k"), b"0")

    def test_a_refused_read_is_repeated_when_only_reads_were_behind_it(self):
        """A GET during a failover is no reason for an error."""
        self.assertEqual(self.client.pipeline([("GET", "k")] * 2), [b"0", b"0"])

    def test_a_refused_command_with_nothing_behind_it_reaches_no_client(self):
        """A node that was loading for a moment was seen by clients."""
        self.assertEqual(self.client.call("SET", "k", "1"), "OK")
        self.assertEqual(self.node.value, b"1")


if __name__ == "__main__":
    unittest.main()

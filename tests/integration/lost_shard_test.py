# SPDX-License-Identifier: Apache-2.0
"""One shard of three does not answer: what its keys, all keys and commands without keys get."""
import time
import unittest

from support import PATIENT, Cluster, Error, Proxy, encode, wait_until
from support.slots import A, B, C, TAGS


class DeadMaster(unittest.TestCase):
    def setUp(self):
        self.own = Cluster(masters=3, options=PATIENT)
        self.addCleanup(self.own.stop)

    def test_scripts_without_keys_run_on_the_masters_that_are_left(self):
        """R-07: a third of the calls of a script without keys failed while one node was down."""
        with Proxy(self.own.seeds) as in_front, in_front.connect() as client:
            self.assertEqual(client.pipeline([("SET", tag, "1") for tag in TAGS]), ["OK"] * 3)
            self.assertEqual(client.pipeline([("EVAL", "return 7", 0)] * 100), [7] * 100)
            self.own.nodes[1].kill()
            wait_until(lambda: self.trouble_of(in_front, self.own.nodes[1]),
                       what="the proxy to notice")
            for _ in range(100):
                self.assertEqual(client.call("EVAL", "return 7", 0), 7)
            self.assertEqual(client.pipeline([("EVAL", "return 7", 0)] * 100), [7] * 100)
            self.assertEqual(client.pipeline([("PUBLISH", "nobody", "x")] * 20), [0] * 20)

    @staticmethod
    def trouble_of(in_front, node):
        return next(each["trouble"] for each in in_front.nodes() if each["addr"] == node.seed)

    def test_a_master_that_stopped_answering_is_soon_left_out(self):
        """R-07: every third call of a script without keys waited for a node that hung."""
        settings = {"backend.request_timeout": "500ms"}
        with Proxy(self.own.seeds, settings) as in_front, in_front.connect(timeout=60) as client:
            self.assertEqual(client.pipeline([("SET", tag, "1") for tag in TAGS]), ["OK"] * 3)
            self.own.nodes[2].pause()
            replies = [client.call("EVAL", "return 7", 0) for _ in range(100)]
            wrong = [reply for reply in replies if reply != 7]
            # Until the first time-out shows it, nobody can know.
            self.assertLessEqual(len(wrong), 2, wrong)
            self.assertEqual(replies[-50:], [7] * 50)
            self.own.nodes[2].resume()
            wait_until(lambda: client.call("GET", C) == b"1", what="the master to be back")


class LostShard(unittest.TestCase):
    """One shard does not answer, and no other node takes its place."""
    SETTINGS = {"backend.request_timeout": "1s", "backend.retry_deadline": "2s"}
    KEYS = (A + "k", B + "k", C + "k")
    # Each of them is sent to all three shards.
    SPLIT = [("MGET", *KEYS), ("EXISTS", *KEYS), ("TOUCH", *KEYS), ("DEL", *KEYS),
             ("UNLINK", *KEYS), ("MSET", KEYS[0], 7, KEYS[1], 7, KEYS[2], 7)]
    WRITES = ("DEL", "UNLINK", "MSET")

    @classmethod
    def setUpClass(cls):
        # The nodes do not notice: the proxy is alone with the trouble.
        cls.own = Cluster(masters=3, options=PATIENT)
        cls.addClassCleanup(cls.own.stop)

    def setUp(self):
        self.bring_the_shard_back()
        self.own.wait_ok()
        self.in_front = Proxy(self.own.seeds, self.SETTINGS)
        self.addCleanup(self.in_front.stop_cleanly)
        self.client = self.in_front.connect(timeout=60)
        self.addCleanup(self.client.close)
        self.fill()

    def bring_the_shard_back(self):
        """Whatever the last test did to it."""
        if self.own.nodes[1].process:
            self.own.nodes[1].resume()
        else:
            self.own.nodes[1].start()

    def fill(self):
        words = [word for key in self.KEYS for word in (key, "v" + key)]
        self.assertEqual(self.client.call("MSET", *words), "OK")

    def assert_names_the_shard(self, reply, command):
        self.assertIsInstance(reply, Error, command)
        self.assertIn(f"127.0.0.1:{self.own.nodes[1].port}", reply, command)
        for node in (self.own.nodes[0], self.own.nodes[2]):
            self.assertNotIn(f":{node.port}", reply, command)
        if command[0] in self.WRITES:
            self.assertIn("other parts of the command may have run", reply, command)

    def wait_for_the_shard(self):
        self.own.wait_ok()
        wait_until(lambda: not isinstance(self.client.call("MGET", *self.KEYS), Error),
                   what="the shard to be back")

    def test_one_silent_shard_makes_one_error_that_names_it_and_never_a_nil(self):
        """M-01: MGET gave nil for keys of a dead shard, and a cache overwrote them."""
        self.own.nodes[1].pause()
        for command in self.SPLIT:
            self.assert_names_the_shard(self.client.call(*command), command)
        self.own.nodes[1].resume()
        self.wait_for_the_shard()
        self.fill()
        self.assertEqual(self.client.call("MGET", *self.KEYS),
                         [b"v" + key.encode() for key in self.KEYS])

    def test_what_is_pipelined_around_the_failure_is_answered_in_order(self):
        """M-01: one failed MGET shifted the replies of a pipeline."""
        self.own.nodes[1].pause()
        first, dead, last = self.KEYS
        replies = self.client.pipeline([("GET", first), ("MGET", *self.KEYS), ("GET", last),
                                        ("MGET", last, first), ("EXISTS", dead, dead, first),
                                        ("GET", dead), ("ECHO", "end")])
        wanted = [b"v" + key.encode() for key in self.KEYS]
        self.assertEqual(replies[0], wanted[0])
        self.assertEqual(replies[2:4], [wanted[2], [wanted[2], wanted[0]]])
        self.assertEqual(replies[6], b"end")
        for reply in (replies[1], replies[4], replies[5]):
            self.assertIsInstance(reply, Error)
            self.assertIn(f"127.0.0.1:{self.own.nodes[1].port}", reply)
        self.own.nodes[1].resume()
        self.wait_for_the_shard()
        self.assertEqual(self.client.call("MGET", *self.KEYS), wanted)
        self.assertEqual(self.client.pipeline([("GET", key) for key in self.KEYS]), wanted)

    def test_a_shard_that_was_away_for_longer_than_requests_wait_is_used_again(self):
        """M-01: a shard that had been away for seconds was not used any more."""
        for away, back in ((self.own.nodes[1].pause, self.own.nodes[1].resume),
                           (self.own.nodes[1].kill, self.own.nodes[1].start)):
            with self.subTest(away.__name__):
                away()
                deadline = time.monotonic() + 3
                while time.monotonic() < deadline:
                    self.assertIsInstance(self.client.call("MGET", *self.KEYS), Error)
                    self.assertIsInstance(self.client.call("GET", self.KEYS[1]), Error)
                back()
                self.wait_for_the_shard()
                self.fill()

    def test_another_client_still_reads_the_shards_that_live(self):
        """M-01: everybody waited for the dead shard, whatever they asked."""
        self.own.nodes[1].pause()
        with self.in_front.connect() as other:
            for _ in range(20):
                self.client.send(encode("MGET", *self.KEYS))
                self.assertEqual(other.call("MGET", self.KEYS[0], self.KEYS[2]),
                                 [b"v" + self.KEYS[0].encode(), b"v" + self.KEYS[2].encode()])
        for _ in range(20):
            self.assertIsInstance(self.client.read(), Error)

    def test_a_dead_shard_is_an_error_and_no_crash_until_it_is_back(self):
        """M-04: an MSET crashed the proxy when a server was down."""
        self.own.nodes[1].kill()
        for _ in range(30):
            for command in self.SPLIT:
                self.assert_names_the_shard(self.client.call(*command), command)
        for reply in self.client.pipeline(self.SPLIT * 50):
            self.assertIsInstance(reply, Error)
        # MSET came last: its parts for the shards that live have run, as the error said.
        self.assertEqual(self.client.call("MGET", self.KEYS[0], self.KEYS[2]), [b"7", b"7"])
        self.own.nodes[1].start()
        self.wait_for_the_shard()
        self.fill()
        self.assertEqual(self.client.call("MGET", *self.KEYS),
                         [b"v" + key.encode() for key in self.KEYS])
        self.assertTrue(self.in_front.is_alive())


if __name__ == "__main__":
    unittest.main()

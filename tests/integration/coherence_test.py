# SPDX-License-Identifier: Apache-2.0
"""Every value that is read is checked, while everything that can go wrong does."""
import itertools
import random
import time
import unittest

from support import PATIENT, Cluster, Proxy
from support.caching import KINDS, counter
from support.coherence import Check, is_feed, is_tracked, kill_connections
from support.moving import Mover
from support.slots import slot_of

SECONDS = 4  # for each kind of proxy
BOUND = 1.0  # reply_cache.max_staleness, and what a process that was not scheduled needs


class Coherence(unittest.TestCase):
    """No client reads what is older than its own last write, than what it has read before, or than
    what the bound allows."""

    def setUp(self):
        self.cluster = Cluster(3, 0, PATIENT)
        self.addCleanup(self.cluster.stop)
        self.mover = Mover(self.cluster)
        self.addCleanup(self.mover.close)

    def check(self, settings, *troubles):
        self.cluster.flush()
        with Proxy(self.cluster.seeds, settings) as proxy:
            check = Check(proxy.port, [node.port for node in self.cluster.nodes], BOUND + 0.5)
            end = time.monotonic() + SECONDS
            for trouble in itertools.cycle(troubles):
                trouble()
                time.sleep(random.uniform(0, 0.2))
                if time.monotonic() > end or not check.keys.running.value:
                    break
            hits = counter(proxy, "hits")
            self.assertEqual(check.stop(), [])
            self.assertGreater(check.reads, 2000)
            self.assertGreater(hits, check.reads / 20)

    def kill_what_is_tracked(self):
        kill_connections(random.choice(self.cluster.nodes), is_tracked)

    def kill_a_feed(self):
        kill_connections(random.choice(self.cluster.nodes), is_feed)

    def move_a_slot(self):
        self.mover.move(slot_of("{t%d}" % random.randrange(6)))

    def wait(self):
        time.sleep(0.5)

    def test_in_peace(self):
        for name, settings in KINDS.items():
            with self.subTest(name):
                self.check(settings, self.wait)

    def test_while_connections_die_and_slots_move(self):
        for name, settings in KINDS.items():
            with self.subTest(name):
                self.check(settings, self.kill_what_is_tracked, self.wait, self.kill_a_feed,
                           self.wait, self.move_a_slot, self.wait)


if __name__ == "__main__":
    unittest.main()

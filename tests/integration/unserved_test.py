# SPDX-License-Identifier: Apache-2.0
"""Commands that are not supported yet, or never: they say so, and no node hears of them."""
import unittest

from support import Cluster, Error, Proxy, commands
from support.policy import arities, policy_names


def setUpModule():
    global cluster, proxy
    cluster = Cluster(3)
    unittest.addModuleCleanup(cluster.stop)
    proxy = Proxy(cluster.seeds)
    unittest.addModuleCleanup(proxy.stop_cleanly)


class Unserved(unittest.TestCase):
    def words_of(self, name):
        words = name.upper().split("|")
        return words + ["1"] * (abs(arities().get(name, 2)) - len(words))

    def node_statistics(self):
        out = {}
        for node in cluster.nodes:
            for name, value in node.info("commandstats").items():
                out[node.port, name] = value
        return out

    def assert_refused(self, section, why):
        names = policy_names(section)
        before = self.node_statistics()
        with proxy.connect(timeout=10) as client:
            for name in names:
                with self.subTest(command=name):
                    reply = client.call(*self.words_of(name))
                    self.assertIsInstance(reply, Error)
                    self.assertTrue(reply.startswith(f"ERR {name.upper()} ".replace("|", " ")))
                    self.assertIn(why, reply)
            replies = client.pipeline([self.words_of(name) for name in names] + [["PING"]])
            self.assertEqual(replies[-1], "PONG")
        after = self.node_statistics()
        for name in names:
            for node in cluster.nodes:
                key = (node.port, "cmdstat_" + name)
                self.assertEqual(before.get(key), after.get(key), name)

    def test_each_command_that_is_not_supported_yet_says_so_at_once_by_name(self):
        """A command that the proxy cannot serve hung in place of being refused."""
        self.assert_refused("not_yet", "is not supported yet")

    def test_each_command_that_administers_nodes_is_refused_at_once_by_name(self):
        """SHUTDOWN through the proxy reached a node."""
        self.assert_refused("refused", "is not allowed through the proxy")

    def test_reading_streams_with_block_says_that_it_is_not_supported_yet(self):
        """XREAD BLOCK stalled everybody on the same connection."""
        with proxy.connect() as client:
            for words in commands("XREAD BLOCK 0 STREAMS k $", "XREAD COUNT 1 block 10 STREAMS k $",
                                  "XREADGROUP GROUP g c BLOCK 0 STREAMS k >"):
                self.assertIn("with BLOCK is not supported yet", client.call(*words))
            self.assertIsNone(client.call("XREAD", "STREAMS", "block", "0"))

    def test_debug_does_nothing_but_look_at_keys_and_types(self):
        """DEBUG SLEEP through the proxy reached a node."""
        before = self.node_statistics()
        with proxy.connect() as client:
            for words in commands("DEBUG SLEEP 5", "DEBUG RELOAD", "DEBUG SET-ACTIVE-EXPIRE 1",
                                  "DEBUG HELP", "DEBUG PROTOCOL push", "DEBUG HTSTATS 0",
                                  "DEBUG JMAP", "DEBUG LOG x"):
                self.assertIn("is not allowed through the proxy", client.call(*words))
        self.assertEqual({key: each for key, each in self.node_statistics().items()
                          if "debug" in key[1]},
                         {key: each for key, each in before.items() if "debug" in key[1]})

    def test_help_texts_name_only_what_is_served(self):
        """CLIENT HELP named a subcommand that was refused."""
        for container in ("CLIENT", "CLUSTER", "COMMAND", "CONFIG"):
            lines = proxy.call(container, "HELP")
            self.assertTrue(lines[0].startswith(container + " <subcommand>"))
            served = [line.split(" ")[0].lower() for line in lines[1:] if line[0] != " "]
            unserved = set(policy_names("not_yet") + policy_names("refused"))
            for name in served:
                self.assertNotIn(f"{container.lower()}|{name}", unserved)
            self.assertIn("help", served)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The proxy in front of a cluster answers thousands of random commands as one node does.

PENSTOCK_SEED is the seed, "new" for one that was never tried; PENSTOCK_COMMANDS is the number of
commands for each protocol.
"""
import os
import unittest

from commands import facts, generator, pair, scripts
from commands.info_entries import expected_entry, normalized
from support import Cluster, Proxy
from support.cluster import start_plain_server

COMMANDS = int(os.environ.get("PENSTOCK_COMMANDS", "12000"))
# Hashes and sorted sets keep the order of insertion only in their small encodings.
SMALL = ["--hash-max-listpack-value", "1000000", "--hash-max-listpack-entries", "1000000",
         "--zset-max-listpack-value", "1000000", "--zset-max-listpack-entries", "1000000"]
SEED = pair.seed()
LOG_SHOWN = 6000


def payloads_of(node):
    """DUMP of a value of each kind."""
    fills = [("SET", "{p}s", "hello"), ("RPUSH", "{p}l", "a", "b"), ("HSET", "{p}h", "f", "v"),
             ("ZADD", "{p}z", 1, "a"), ("SADD", "{p}i", 1, 2, 3)]
    payloads = []
    for fill in fills:
        node.call(*fill)
        payloads.append(node.call("DUMP", fill[1]))
    node.call("FLUSHALL")
    return payloads


def on_all(nodes, *words):
    for node in nodes:
        node.call(*words)


class Differential(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"PENSTOCK_SEED={SEED}", flush=True)
        cls.cluster = Cluster(masters=3, options=SMALL)
        cls.addClassCleanup(cls.cluster.stop)
        cls.single = Cluster(masters=1, options=SMALL)
        cls.addClassCleanup(cls.single.stop)
        cls.node = cls.single.nodes[0]
        for node in cls.cluster.nodes + cls.single.nodes:
            assert node.call("FUNCTION", "LOAD", scripts.LIBRARY) == b"penstock_test"
        cls.proxy = cls.enterClassContext(Proxy(cls.cluster.seeds))
        cls.facts = facts.Facts(cls.node)
        cls.payloads = payloads_of(cls.node)

    def setUp(self):
        if not self.proxy.is_alive():  # the test that ended it has failed
            type(self).proxy = self.enterClassContext(Proxy(self.cluster.seeds))

    def compare(self, ours, behind, theirs, protocol, commands, count, alone=True):
        """`ours` is asked, `behind` are the nodes with its data; `theirs` says what is right."""
        nodes = behind + [theirs]
        on_all(nodes, "SCRIPT", "FLUSH")
        both = pair.Pair(pair.Side(ours.connect, protocol), pair.Side(theirs.connect, protocol),
                         self.facts, lambda: on_all(nodes, "FLUSHALL"))
        self.addCleanup(both.close)
        both.run(commands, count, alone)
        if both.differences:
            self.fail(both.report(SEED) + self.last_words())
        return both

    def last_words(self):
        """What the proxy left in its log when it died."""
        return "" if self.proxy.is_alive() else "\n" + self.proxy.log_text()[-LOG_SHOWN:]

    def commands(self, *purpose, protocol):
        return generator.Generator(pair.random_for(SEED, *purpose, protocol), self.facts,
                                   self.payloads, protocol)

    def check_against_one_node(self, protocol):
        commands = self.commands("node", protocol=protocol)
        both = self.compare(self.proxy, self.cluster.nodes, self.node, protocol, commands, COMMANDS)
        if COMMANDS >= 2 * len(commands.deck()):
            self.assertEqual(both.names - {"(unknown)"}, set(self.facts.commands) - {"quit"})

    def test_answers_in_resp2_as_one_cluster_node_does(self):
        """An application noticed that it was not talking to a node: any command, RESP2."""
        self.check_against_one_node(2)

    def test_answers_in_resp3_as_one_cluster_node_does(self):
        """PR-06: an application noticed that it was not talking to a node: any command, RESP3."""
        self.check_against_one_node(3)

    def test_answers_split_commands_as_one_node_without_a_cluster_does(self):
        """A command over many slots was answered otherwise than by one big server."""
        plain = start_plain_server(self.addCleanup, SMALL)
        for protocol in (2, 3):
            commands = generator.SpreadGenerator(
                pair.random_for(SEED, "plain", protocol), self.facts)
            self.compare(self.proxy, self.cluster.nodes, plain, protocol, commands, COMMANDS // 6)

    def test_two_nodes_answer_alike(self):
        """When this fails, the commands or the rules are to blame, not the proxy."""
        with Cluster(masters=1, options=SMALL) as twin:
            twin.nodes[0].call("FUNCTION", "LOAD", scripts.LIBRARY)
            for protocol in (2, 3):
                self.compare(twin.nodes[0], twin.nodes, self.node, protocol,
                             self.commands("twin", protocol=protocol), COMMANDS // 4, alone=False)

    def test_command_info_is_what_the_newest_server_says(self):
        """A cluster client took a command's key positions from COMMAND INFO and went astray."""
        for protocol in (2, 3):
            with self.proxy.connect() as connection:
                connection.call("HELLO", protocol)
                for name in self.facts.commands:
                    reply = connection.call("COMMAND", "INFO", name)
                    with self.subTest(command=name, protocol=protocol):
                        self.assertEqual(normalized(reply[0]), expected_entry(name, self.facts))

    def test_command_list_has_only_what_the_proxy_serves(self):
        """A tool used a command from the list and was told that it is not supported."""
        listed = {name.decode() for name in self.proxy.call("COMMAND", "LIST")}
        self.assertEqual({n for n in listed if not self.facts.is_served(n)}, set())

    def test_conversations_that_end_are_answered_alike(self):
        """A client that said QUIT, or nonsense, did not get the last words of a node."""
        for lines in CONVERSATIONS:
            with self.subTest(lines=lines):
                self.assertEqual(self.hear_out(self.proxy.connect(), lines),
                                 self.hear_out(self.node.connect(), lines))

    @staticmethod
    def hear_out(connection, lines):
        """All that is answered to these inline commands, up to the end."""
        with connection:
            connection.send("".join(line + "\r\n" for line in lines).encode())
            return connection.read_rest()


# Each ends with the connection closed by the other side.
CONVERSATIONS = (
    ["QUIT"],
    ["quit now please", "PING"],
    ["PING", "QUIT", "PING"],
    ["CLIENT REPLY OFF", "PING 1", "NOSUCH", "CLIENT REPLY ON", "PING 2", "QUIT"],
    ["CLIENT REPLY SKIP", "PING 1", "PING 2", "QUIT"],
    ["CLIENT REPLY SKIP", "NOSUCH", "PING 2", "QUIT"],
    ["CLIENT REPLY SKIP", "GET {a}k", "GET {b}k", "QUIT"],
    ["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING 1", "PING 2", "QUIT"],
    ["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "PING 1", "CLIENT REPLY ON", "PING 2", "QUIT"],
    ["CLIENT REPLY OFF", "RESET", "PING 1", "QUIT"],
    ["POST / HTTP/1.1", "SET {a}k v"],
    ["Host: here", "SET {a}k v"],
    ["GET", "host: here"],
    ["GET {a}nokey", "*1", "$x"],
    ["*1", "!4", "PING"],
    ["*1048577x", ""],
    ["*1", "$-1"],
    ["SET {a}k 'unbalanced"],
    ["", "  ", "PING \"a\\x41\\n\"", "QUIT"],
)


class Documentation(unittest.TestCase):
    def test_every_command_of_the_three_servers_is_documented(self):
        """A command was missing in docs/commands.md: does the proxy serve it?"""
        documented = set()
        for line in (facts.ROOT / "docs/commands.md").read_text().splitlines():
            if line.startswith("| `"):
                documented.add(line.split("`")[1])
        commands = facts.generator_script().load_commands()
        self.assertGreater(len(commands), 400)
        titles = {name.replace("|", " ").upper() for name in commands}
        self.assertEqual(titles - documented, set())


if __name__ == "__main__":
    unittest.main()

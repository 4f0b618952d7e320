# SPDX-License-Identifier: Apache-2.0
"""What clients say first: AUTH, HELLO, SELECT, CLIENT, and how they leave: RESET, QUIT."""
import os
import random
import re
import socket
import unittest

from support import Cluster, Error, Map, Proxy, commands, encode, frames, wait_until
from support.ports import hold_port
from support.side_by_side import PASSWORD, SideBySide, conversation, last_words

NOAUTH = "NOAUTH Authentication required."


def setUpModule():
    global open_pair, guarded
    open_pair = SideBySide()
    guarded = SideBySide(open_pair.cluster, PASSWORD, {"log.level": "trace"})


def without_ids(answer):
    """A HELLO reply whose connection id, different by nature, is left out."""
    return re.sub(rb"(\$2\r\nid\r\n):\d+", rb"\1", answer)


class ClientCommands(unittest.TestCase):
    """CLIENT SETINFO, SETNAME, NO-TOUCH, NO-EVICT, ID, INFO, LIST, KILL."""

    def setUp(self):
        self.proxy = open_pair.proxy
        self.client = self.proxy.connect()
        self.addCleanup(self.client.close)

    def listed(self, *words):
        """CLIENT LIST as a dictionary for each client."""
        text = self.client.call("CLIENT", "LIST", *words).decode()
        return [dict(field.split("=", 1) for field in line.split(" "))
                for line in text.splitlines()]

    def test_setinfo_is_accepted_although_the_nodes_do_not_know_it(self):
        """H-02: a library sent CLIENT SETINFO on connect, got an error and gave up."""
        refusal = open_pair.node.call("CLIENT", "SETINFO", "LIB-NAME", "x")
        self.assertIn("unknown subcommand", refusal)
        for option, value in (("LIB-NAME", "lettuce"), ("lib-ver", "6.4.0"), ("Lib-Name", "jedis"),
                              ("LIB-VER", "")):
            self.assertEqual(self.client.call("CLIENT", "SETINFO", option, value), "OK")
        self.assertEqual(self.client.call("CLIENT", "SETINFO", "LIB-VER", "5.1"), "OK")
        me = self.listed("ID", self.client.call("CLIENT", "ID"))[0]
        self.assertEqual((me["lib-name"], me["lib-ver"]), ("jedis", "5.1"))

    def test_setinfo_refuses_what_it_does_not_know(self):
        """H-02: a wrong CLIENT SETINFO upset the connection."""
        for words in (["NOSUCH", "x"], ["LIB-NAME", "a b"], ["LIB-VER", "1\n2"], ["LIB-NAME"],
                      ["LIB-NAME", "a", "b"]):
            self.assertEqual(self.client.call("CLIENT", "SETINFO", *words).code, "ERR", words)
        self.assertEqual(self.client.call("PING"), "PONG")

    def test_a_name_is_kept_shown_and_taken_back(self):
        """H-02: CLIENT GETNAME did not know the name that SETNAME had given."""
        self.assertIsNone(self.client.call("CLIENT", "GETNAME"))
        self.assertEqual(self.client.call("CLIENT", "SETNAME", "worker-1"), "OK")
        self.assertEqual(self.client.call("CLIENT", "GETNAME"), b"worker-1")
        self.assertIn(b" name=worker-1 ", self.client.call("CLIENT", "INFO"))
        self.assertIn("worker-1", [each["name"] for each in self.listed()])
        self.assertEqual(self.client.call("CLIENT", "SETNAME", ""), "OK")
        self.assertIsNone(self.client.call("CLIENT", "GETNAME"))

    def test_no_touch_and_no_evict_are_accepted(self):
        """H-02: CLIENT NO-TOUCH and NO-EVICT were refused."""
        for switch in ("NO-TOUCH", "NO-EVICT"):
            for value in ("on", "OFF", "ON"):
                self.assertEqual(self.client.call("CLIENT", switch, value), "OK")
            self.assertEqual(self.client.call("CLIENT", switch, "maybe").code, "ERR")
            self.assertEqual(self.client.call("CLIENT", switch).code, "ERR")

    def test_the_list_shows_the_proxys_own_clients_on_all_its_workers(self):
        """H-02: CLIENT LIST showed the clients of one worker, or the proxy's to a node."""
        names = [f"listed-{index}" for index in range(20)]
        clients = [self.proxy.connect() for _ in names]
        ids = []
        for name, client in zip(names, clients):
            client.call("CLIENT", "SETNAME", name)
            ids.append(client.call("CLIENT", "ID"))
        listed = self.listed()
        self.assertEqual(len({each["id"] for each in listed}), len(listed))
        shown = {each["name"]: each for each in listed}
        for name, number, client in zip(names, ids, clients):
            self.assertEqual((shown[name]["id"], shown[name]["addr"]),
                             (str(number), client.address))
        self.assertEqual({each["id"] for each in self.listed("ID", ids[0], ids[5])},
                         {str(ids[0]), str(ids[5])})
        self.assertEqual(len(self.listed("TYPE", "normal")), len(listed))
        for client in clients:
            client.close()
        wait_until(lambda: len(self.listed()) < 10, what="the clients to leave the list")

    def test_a_listed_client_has_the_fields_tools_read(self):
        """H-02: a tool did not find its fields in CLIENT LIST."""
        fields = dict(each.split("=", 1) for each in
                      open_pair.node.call("CLIENT", "LIST").decode().splitlines()[0].split(" "))
        self.assertEqual(set(fields) - set(self.listed()[0]), set())
        self.assertEqual(set(fields) - {each.split("=")[0] for each in
                                        self.client.call("CLIENT", "INFO").decode().split(" ")},
                         set())

    def test_errors_of_client_commands_are_a_nodes_errors(self):
        """H-02: a wrong CLIENT command was answered in other words than a node's."""
        for command in commands(
                "CLIENT", "CLIENT NOSUCH", "CLIENT GETNAME x", "CLIENT SETNAME", "CLIENT ID x",
                "CLIENT NO-EVICT x", "CLIENT KILL", "CLIENT KILL 127.0.0.1:1", "CLIENT KILL ID",
                "CLIENT KILL ID abc", "CLIENT KILL ID 0", "CLIENT KILL ID -1",
                "CLIENT KILL ID 9999999", "CLIENT KILL ADDR 127.0.0.1:1",
                "CLIENT KILL LADDR 127.0.0.1:1", "CLIENT KILL TYPE nosuch",
                "CLIENT KILL TYPE master", "CLIENT KILL TYPE pubsub", "CLIENT KILL USER nosuch",
                "CLIENT KILL SKIPME maybe", "CLIENT KILL NOSUCH x", "CLIENT KILL ID 1 ADDR",
                "CLIENT LIST TYPE nosuch", "CLIENT LIST ID", "CLIENT LIST ID abc",
                "CLIENT LIST NOSUCH", "CLIENT LIST TYPE pubsub", "CLIENT LIST ID 9999999",
                "CLIENT LIST TYPE replica", "CLIENT LIST ID 0", "CLIENT INFO x"):
            with self.subTest(command=command):
                open_pair.assert_same(self, encode(*command))
        for name in ("a b", "a\nb", "\x7f", "\u00e9", " "):
            open_pair.assert_same(self, encode("CLIENT", "SETNAME", name))

    def kill(self, *words):
        """Kills one client by `words`, in which {} stand for facts about it."""
        with self.proxy.connect() as victim:
            facts = {"id": victim.call("CLIENT", "ID"), "addr": victim.address}
            reply = self.client.call("CLIENT", "KILL", *[word.format(**facts) for word in words])
            self.assertTrue(victim.at_end())
            return reply

    def test_a_client_can_be_killed_by_id_and_by_address(self):
        """H-02: CLIENT KILL did not find the client that CLIENT LIST had shown."""
        self.assertEqual(self.kill("ID", "{id}"), 1)
        self.assertEqual(self.kill("ADDR", "{addr}"), 1)
        self.assertEqual(self.kill("{addr}"), "OK")
        self.assertEqual(self.kill("ID", "{id}", "TYPE", "normal", "USER", "default"), 1)
        self.assertEqual(self.client.call("PING"), "PONG")

    def test_killing_all_others_spares_the_killer_unless_he_says_so(self):
        """H-02: CLIENT KILL TYPE normal ended the one who asked for it."""
        others = [self.proxy.connect() for _ in range(10)]
        for other in others:
            other.call("PING")
        self.assertGreaterEqual(self.client.call("CLIENT", "KILL", "TYPE", "normal"), 10)
        for other in others:
            self.assertTrue(other.at_end())
        self.assertEqual(self.client.call("PING"), "PONG")
        self.assertEqual(self.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"), 1)
        self.assertTrue(self.client.at_end())

    def test_what_libraries_send_on_connect_is_accepted(self):
        """H-02: a library could not connect because its greeting was refused."""
        # What is sent, and which of it may be refused.
        greetings = {
            "go-redis 9": (["HELLO 3 SETNAME me", "CLIENT SETINFO LIB-NAME go-redis(,go1.22)",
                            "CLIENT SETINFO LIB-VER 9.5.1"], []),
            "redis-py 5": (["HELLO 3", "CLIENT SETNAME me", "CLIENT SETINFO LIB-NAME redis-py",
                            "CLIENT SETINFO LIB-VER 5.0.1", "SELECT 0"], []),
            "jedis 5": (["CLIENT SETNAME me", "CLIENT SETINFO lib-name jedis",
                         "CLIENT SETINFO lib-ver 5.1.0"], []),
            "lettuce 6": (["HELLO 3", "CLIENT SETNAME me", "CLIENT SETINFO lib-name Lettuce",
                           "CLIENT SETINFO lib-ver 6.4.0/abc"], []),
            "node-redis 6": (["HELLO 3", "CLIENT SETINFO LIB-VER 6.0.0",
                              "CLIENT SETINFO LIB-NAME node-redis",
                              "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none"], [3]),
            "ioredis 6": (["hello 3", "client SETINFO LIB-NAME ioredis",
                           "client SETINFO LIB-VER 6.0.0", "info"], []),
            "phpredis": (["SELECT 0", "CLIENT SETNAME me", "READONLY", "READWRITE", "ASKING"], [])}
        for library, (lines, refusable) in greetings.items():
            with self.subTest(library=library), self.proxy.connect() as client:
                for index, reply in enumerate(client.pipeline(commands(*lines))):
                    if index not in refusable:
                        self.assertNotIsInstance(reply, Error, lines[index])
                self.assertEqual(client.call("PING"), "PONG")


class Authentication(unittest.TestCase):
    def test_every_form_of_auth_is_answered_as_by_a_node_without_a_password(self):
        """H-07: AUTH where no password is set was not answered in a node's words."""
        for command in commands(
                "AUTH", "AUTH x", "AUTH default x", "AUTH default ", "AUTH nobody x", "AUTH a b c",
                "HELLO 3 AUTH nobody x", "HELLO 3 AUTH default", "HELLO AUTH default x",
                "HELLO 3 AUTH default x SETNAME"):
            with self.subTest(command=command):
                open_pair.assert_same(self, encode(*command) + encode("GET", "none"))

    def test_every_form_of_auth_is_answered_as_by_a_node_with_a_password(self):
        """H-07: AUTH with a user name, or twice, was not understood."""
        right, default = f"AUTH {PASSWORD}", f"AUTH default {PASSWORD}"
        for lines in (["AUTH wrong"], [right], [default], ["AUTH default wrong"],
                      [f"AUTH nobody {PASSWORD}"], ["AUTH"], ["AUTH a b c"], [f"AUTH {PASSWORD}x"],
                      [f"AUTH {PASSWORD[:-1]}"], ["AUTH "], [right, "AUTH wrong"],
                      [right, f"AUTH nobody {PASSWORD}"], [right, "RESET"], [right, right],
                      [right, "RESET", default], ["RESET"], ["HELLO 9"],
                      ["HELLO 3 AUTH default wrong"], ["HELLO 3 AUTH nobody x"],
                      ["HELLO 9 AUTH default " + PASSWORD]):
            with self.subTest(lines=lines):
                guarded.assert_same(self, frames(*commands(*lines), ["GET", "none"]),
                                    encode("AUTH", PASSWORD))

    def test_hello_with_auth_answers_as_a_node_does(self):
        """H-07: HELLO with AUTH and SETNAME was not understood."""
        for line in (f"HELLO 3 AUTH default {PASSWORD}", f"HELLO 2 AUTH default {PASSWORD}",
                     f"HELLO 3 SETNAME me AUTH default {PASSWORD}"):
            data = frames(line.split(" "), ["CLIENT", "GETNAME"], ["GET", "none"])
            expected, actual = [without_ids(conversation(port, data)) for port in guarded.ports()]
            self.assertEqual(expected, actual)

    def test_hello_before_auth_is_refused_and_changes_nothing(self):
        """H-07: HELLO 3 before AUTH switched the dialect although it was refused."""
        for line in ("HELLO 3", "HELLO", "HELLO 2", "HELLO 3 SETNAME x"):
            for port in guarded.ports():
                data = frames(line.split(" "), ["GET", "none"], ["AUTH", PASSWORD], ["GET", "none"])
                refusal, rest = conversation(port, data).split(b"\r\n", 1)
                self.assertRegex(refusal, b"^-NOAUTH HELLO must be called with the client already")
                self.assertEqual(rest, f"-{NOAUTH}\r\n+OK\r\n$-1\r\n".encode())

    def test_before_auth_nothing_is_done_and_little_is_said(self):
        """H-07: a client without the password could see or do something."""
        for command in commands(
                "PING", "ECHO x", "GET k", "SET k v", "MGET a b", "INFO", "CLIENT LIST",
                "CLIENT ID", "CLIENT SETNAME x", "CLIENT KILL TYPE normal", "CONFIG GET *",
                "COMMAND",
                "CLUSTER SLOTS", "CLUSTER INFO", "READONLY", "ASKING", "SELECT 0", "MULTI", "TIME",
                "EVAL x 0", "SUBSCRIBE x", "SLAVEOF no one", "DEBUG OBJECT k", "SCAN 0", "ROLE",
                "GET", "NOSUCH x", "CLIENT NOSUCH", "CLIENT", "PUBLISH a b", "OBJECT HELP"):
            with self.subTest(command=command):
                guarded.assert_same(self, encode(*command), encode("AUTH", PASSWORD))

    def test_reset_forgets_the_login_the_name_and_the_dialect(self):
        """H-07: a pool handed out a connection after RESET that was still logged in."""
        with guarded.proxy.connect() as client:
            client.call("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "me")
            self.assertIsInstance(client.call("HGETALL", "none"), Map)
            self.assertEqual(client.call("RESET"), "RESET")
            self.assertEqual(client.call("GET", "k"), NOAUTH)
            self.assertEqual(client.call("AUTH", PASSWORD), "OK")
            self.assertEqual(client.call_raw("HGETALL", "none"), b"*0\r\n")
            self.assertIsNone(client.call("CLIENT", "GETNAME"))

    def test_a_password_shows_up_nowhere(self):
        """H-07: a password was in the log, in CLIENT LIST, or in a node's MONITOR."""
        secret = "s3cr3t-" + str(os.getpid())
        monitors = [node.connect() for node in open_pair.cluster.nodes]
        for monitor in monitors:
            self.assertEqual(monitor.call("MONITOR"), "OK")
        with guarded.proxy.connect() as client, guarded.proxy.connect() as other:
            other.call("AUTH", PASSWORD)
            client.pipeline(commands(f"AUTH {secret}", f"AUTH default {secret}", f"AUTH x {secret}",
                                     f"HELLO 3 AUTH default {secret}", f"AUTH a b {secret}",
                                     f"AUTH {PASSWORD}", f"HELLO 3 AUTH default {PASSWORD}"))
            seen = repr([other.call(*command) for command in commands(
                "CLIENT LIST", "CLIENT INFO", "CONFIG GET *", "INFO everything", "SLOWLOG GET")])
            for index in range(30):
                client.call("SET", f"marker:{index}", "the-end")
        seen += guarded.proxy.log_text()
        for monitor in monitors:
            seen += monitor.read_until(b"the-end").decode()
            monitor.close()
        self.assertNotIn(secret, seen)
        self.assertNotIn(PASSWORD, seen)

    def test_a_bad_login_in_an_unreadable_request_is_not_logged_either(self):
        """H-07: a password was in the log as part of a malformed request."""
        last_words(guarded.proxy.port, f'AUTH "{PASSWORD}\r\n'.encode())
        last_words(guarded.proxy.port, b"*2\r\n$4\r\nAUTH\r\n" + PASSWORD.encode() + b"\r\n")
        with guarded.proxy.connect() as client:
            client.call("NOSUCH", PASSWORD)
            client.send(b"*1\r\n:the-last-mistake\r\n")
            client.read()
        wait_until(lambda: guarded.proxy.log_lines(", got ':'"), what="the log to be written")
        self.assertNotIn(PASSWORD, guarded.proxy.log_text())


class Manners(unittest.TestCase):
    """HELLO, SELECT, RESET, QUIT, PING and ECHO."""

    def test_hello_says_what_a_node_says(self):
        """H-04: a client could not read the reply to HELLO."""
        for line in ("HELLO", "HELLO 2", "HELLO 3", "HELLO 3 SETNAME me", "HELLO 2 SETNAME me"):
            expected, actual = [without_ids(conversation(port, encode(*line.split(" "))))
                                for port in open_pair.ports()]
            self.assertEqual(expected, actual, line)
        for line in ("HELLO 1", "HELLO 4", "HELLO x", "HELLO 3.0", "HELLO 3 NOSUCH", "HELLO -3",
                     "HELLO 3 SETNAME", "HELLO 03", "HELLO 3 SETNAME a SETNAME", "HELLO "):
            open_pair.assert_same(self, encode(*line.split(" ")))
        open_pair.assert_same(self, encode("HELLO", "3", "SETNAME", "a b"))

    def test_select_knows_one_database_as_a_cluster_node_does(self):
        """SELECT 1 was answered OK, and data of two databases mixed."""
        for line in ("SELECT 0", "SELECT 1", "SELECT 15", "SELECT -1", "SELECT x", "SELECT 00",
                     "SELECT", "SELECT 0 0", "SELECT 99999999999"):
            with self.subTest(line=line):
                open_pair.assert_same(self, encode(*line.split(" ")) + encode("GET", "none"))

    def test_quit_is_answered_and_nothing_after_it_runs(self):
        """A client that said QUIT was cut off without its OK."""
        for quit_words in (["QUIT"], ["quit"], ["QUIT", "x"]):
            data = frames(["SET", "quit", "1"], ["GET", "quit"], quit_words, ["SET", "quit", "2"])
            answer = open_pair.assert_same_last_words(self, data)
            self.assertEqual(answer, b"+OK\r\n$1\r\n1\r\n+OK\r\n")
            self.assertEqual(open_pair.proxy.call("GET", "quit"), b"1")
        guarded.assert_same_last_words(self, encode("QUIT"))

    def test_quit_after_large_replies_lets_them_out_first(self):
        """QUIT cut off the replies that were still on their way."""
        size = 5000000
        open_pair.proxy.call("SET", "large", b"x" * size)
        answer = last_words(open_pair.proxy.port, frames(["GET", "large"], ["QUIT"]))
        self.assertEqual(len(answer), size + len(b"$5000000\r\n\r\n+OK\r\n"))

    def test_a_client_that_stops_sending_still_gets_its_replies(self):
        """A script that closed its sending side got no replies."""
        with open_pair.proxy.connect() as client:
            client.send(frames(["SET", "half", "1"], ["GET", "half"], ["MGET", "half", "a", "b"]))
            client.socket.shutdown(socket.SHUT_WR)
            self.assertEqual([client.read(), client.read()], ["OK", b"1"])
            self.assertEqual(client.read(), [b"1", None, None])
            self.assertTrue(client.at_end())

    def test_reset_gives_back_a_fresh_connection(self):
        """RESET left the name of the last user on a connection."""
        open_pair.assert_same(self, frames(["CLIENT", "SETNAME", "x"], ["RESET"],
                                           ["CLIENT", "GETNAME"], ["RESET"], ["RESET", "x"]))

    def test_echo_and_ping_give_back_every_byte(self):
        """H-08: ECHO of random bytes, as a health check, came back broken."""
        source = random.Random(8)
        for size in (0, 1, 16, 16, 16, 100, 4096, 70000):
            payload = source.randbytes(size)
            open_pair.assert_same(self, frames(["ECHO", payload], ["PING", payload], ["PING"],
                                               ["ping"], ["eChO", payload]))
        open_pair.assert_same(self, frames(["ECHO"], ["ECHO", "a", "b"], ["PING", "a", "b"]))


class WithoutCluster(unittest.TestCase):
    """What is still answered while no node is."""

    def test_ping_is_answered_by_a_proxy_that_never_saw_its_cluster(self):
        """H-08: a proxy whose cluster was not up yet was killed by its liveness check."""
        nobody = hold_port()
        self.addCleanup(nobody.close)
        with Proxy([f"127.0.0.1:{nobody.getsockname()[1]}"], wait=False) as proxy:
            wait_until(proxy.answers_ping, what="the proxy to listen")
            with proxy.connect(timeout=60) as client:
                self.assert_alive_but_not_ready(client)

    def test_ping_is_answered_and_readiness_lost_when_the_whole_cluster_dies(self):
        """H-08: a proxy without a cluster was killed, or still called ready."""
        with Cluster(1) as cluster, Proxy(cluster.seeds,
                                          {"backend.retry_deadline": "1s"}) as proxy:
            with proxy.connect(timeout=60) as client:
                self.assertEqual(client.call("SET", "k", "v"), "OK")
                cluster.nodes[0].kill()
                self.assert_alive_but_not_ready(client)

    def assert_alive_but_not_ready(self, client):
        for _ in range(10):
            client.send(encode("PING") * 5000)
            for _ in range(5000):
                self.assertEqual(client.read(), "PONG")
        self.assertEqual(client.call("ECHO", "x"), b"x")
        self.assertIn(b"redis_version:", client.call("INFO"))
        self.assertEqual(client.call("ROLE")[0], b"master")
        self.assertIsInstance(client.call("HELLO", 3), Map)
        wait_until(lambda: b"cluster_state:fail" in client.call("CLUSTER", "INFO"),
                   what="the proxy to say that it is not ready")
        for command in commands("GET k", "SET k v", "MGET a b c", "PUBLISH a b"):
            self.assertIsInstance(client.call(*command), Error)
        self.assertEqual(client.call("PING"), "PONG")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What tools and cluster-aware clients ask about the server."""
import re
import unittest

from support import Connection, Map, Proxy, commands, encode, frames, slot_of
from support.policy import policy_names
from support.ports import free_ports
from support.side_by_side import SideBySide, conversation


def setUpModule():
    global pair
    pair = SideBySide()


class ClusterView(unittest.TestCase):
    """The proxy as the one node of a cluster."""

    def ask(self, proxy, *words, host="127.0.0.1", dialect=2):
        with Connection(proxy.port, host) as client:
            client.call("HELLO", dialect)
            return client.call("CLUSTER", *words)

    def assert_shows(self, proxy, host, port, dial="127.0.0.1"):
        """All views name this address, one id, and every slot."""
        me = self.ask(proxy, "MYID", host=dial).decode()
        self.assertEqual(self.ask(proxy, "SLOTS", host=dial),
                         [[0, 16383, [host.encode(), port, me.encode(), []]]])
        shard = dict(self.ask(proxy, "SHARDS", host=dial, dialect=3)[0])
        self.assertEqual(shard[b"slots"], [0, 16383])
        node = dict(shard[b"nodes"][0])
        self.assertEqual((node[b"id"], node[b"port"], node[b"ip"], node[b"endpoint"]),
                         (me.encode(), port, host.encode(), host.encode()))
        self.assertEqual((node[b"role"], node[b"health"]), (b"master", b"online"))
        lines = self.ask(proxy, "NODES", host=dial).decode().splitlines()
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], rf"^{me} {re.escape(host)}:{port}@\d+ myself,master - \d+ \d+ "
                                   r"\d+ connected 0-16383$")

    def test_every_view_shows_one_node_at_the_address_that_was_dialled(self):
        """H-04: a cluster client went past the proxy to the nodes that CLUSTER SLOTS named."""
        self.assert_shows(pair.proxy, "127.0.0.1", pair.proxy.port)

    def test_an_announced_address_is_shown_in_its_place(self):
        """H-04: behind NAT a cluster client was sent to an address it could not reach."""
        for host, port in (("10.1.2.3", 7379), ("proxy.example.org", 6379)):
            settings = {"server.announce": f"{host}:{port}"}
            with Proxy(pair.cluster.seeds, settings) as proxy:
                self.assert_shows(proxy, host, port)

    def test_clients_of_several_addresses_are_each_shown_their_own(self):
        """H-04: a client that came by IPv6 was sent to an IPv4 address."""
        ports = free_ports(3)
        settings = {"server.listen": [f"127.0.0.1:{ports[0]}", f"[::1]:{ports[1]}",
                                      f"127.0.0.2:{ports[2]}"]}
        with Proxy(pair.cluster.seeds, settings, wait=False) as proxy:
            for host, port in zip(("127.0.0.1", "::1", "127.0.0.2"), ports):
                proxy.port = port
                proxy.wait_ready(host=host)
                entry = self.ask(proxy, "SLOTS", host=host)[0]
                self.assertEqual(entry[2][:2], [host.encode(), port])

    def test_no_view_tells_where_the_real_nodes_are(self):
        """H-04: a cluster client found a real node's address and connected to it."""
        secrets = [str(node.port).encode() for node in pair.cluster.nodes]
        secrets += [node.id.encode() for node in pair.cluster.nodes]
        for line in ("SLOTS", "SHARDS", "NODES", "INFO", "MYID", "LINKS"):
            for dialect in (2, 3):
                with pair.proxy.connect() as client:
                    client.call("HELLO", dialect)
                    frame = client.call_raw("CLUSTER", line)
                for secret in secrets:
                    self.assertNotIn(secret, frame, line)

    def test_the_views_have_a_nodes_shape_byte_for_byte(self):
        """H-04: a client could not read the proxy's CLUSTER NODES or SHARDS."""
        for dialect in (2, 3):
            for line in ("SLOTS", "SHARDS", "NODES", "MYID", "LINKS"):
                with self.subTest(line=line, dialect=dialect):
                    data = frames(["HELLO", dialect], ["CLUSTER", line])
                    expected, actual = [self.masked(conversation(port, data), port)
                                        for port in pair.ports()]
                    self.assertEqual(expected, actual)

    @staticmethod
    def masked(answer, port):
        """Without ids, addresses, ports and the lengths that depend on them."""
        answer = re.sub(rb"(\$2\r\nid\r\n):\d+", rb"\1", answer)
        answer = re.sub(rb"[0-9a-f]{40}", b"ID", answer).replace(b"127.0.0.1", b"")
        answer = answer.replace(b"%d" % port, b"PORT").replace(b"%d" % (port + 10000), b"BUS")
        return re.sub(rb"([$=])\d+\r\n(?!id\r\n|ip\r\n)", rb"\1N\r\n", answer)

    def test_cluster_info_says_ok_and_counts_every_slot(self):
        """H-04: a client waited for cluster_state:ok for ever."""
        fields = dict(line.split(":") for line in
                      self.ask(pair.proxy, "INFO").decode().splitlines())
        wanted = dict(line.split(":") for line in
                      pair.node.call("CLUSTER", "INFO").decode().splitlines())
        self.assertEqual(set(wanted) - set(fields), set())
        for name in ("cluster_state", "cluster_slots_assigned", "cluster_slots_ok", "cluster_size",
                     "cluster_slots_pfail", "cluster_slots_fail", "cluster_known_nodes"):
            self.assertEqual(fields[name], wanted[name], name)

    def test_key_slots_are_a_nodes_key_slots(self):
        """H-04: CLUSTER KEYSLOT and the client's own hashing disagreed."""
        keys = ["a", "", "{}", "{}{a}", "{}a", "a{}b", "{a}{b}", "{", "}{a", "a}{b}", "{{a}",
                "foo{{bar}}zap", "foo{bar}{zap}", b"a\0b", b"a\r\nb", b"\xff{\xfe}", "x" * 1000]
        pair.assert_same(self, frames(*[["CLUSTER", "KEYSLOT", key] for key in keys]))
        self.assertEqual(pair.proxy.call("CLUSTER", "KEYSLOT", "{t}x"), slot_of("t"))

    def test_keys_of_a_slot_come_from_its_owner(self):
        """H-04: CLUSTER COUNTKEYSINSLOT asked any node and said 0."""
        for tag in ("{t1}", "{t2}", "{t0}"):
            slot = slot_of(tag)
            with pair.proxy.connect() as client:
                for index in range(5):
                    client.call("SET", f"{tag}{index}", "x")
                self.assertEqual(client.call("CLUSTER", "COUNTKEYSINSLOT", slot), 5)
                keys = client.call("CLUSTER", "GETKEYSINSLOT", slot, 3)
                self.assertEqual(len(keys), 3)
                self.assertTrue(all(key.startswith(tag.encode()) for key in keys))

    def test_wrong_cluster_commands_get_a_nodes_errors(self):
        """H-04: a wrong CLUSTER command was answered in other words than a node's."""
        for command in commands(
                "CLUSTER", "CLUSTER NOSUCH", "CLUSTER KEYSLOT", "CLUSTER INFO x", "CLUSTER SLOTS x",
                "CLUSTER COUNTKEYSINSLOT", "CLUSTER COUNTKEYSINSLOT -1",
                "CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT x",
                "CLUSTER GETKEYSINSLOT 0 -1", "CLUSTER GETKEYSINSLOT 0 x",
                "CLUSTER GETKEYSINSLOT -1 1", "CLUSTER GETKEYSINSLOT x 1", "CLUSTER REPLICAS x",
                "CLUSTER SLAVES x", "CLUSTER COUNT-FAILURE-REPORTS x"):
            with self.subTest(command=command):
                pair.assert_same(self, encode(*command))

    def test_the_modes_a_cluster_client_sets_are_accepted_and_change_nothing(self):
        """H-04: READONLY was refused, and the client reconnected in a loop."""
        data = frames(["SET", "mode", "1"], ["READONLY"], ["GET", "mode"], ["SET", "mode", "2"],
                      ["READWRITE"], ["GET", "mode"], ["ASKING"], ["GET", "mode"],
                      ["READONLY", "x"])
        pair.assert_same(self, data)
        me = pair.proxy.call("CLUSTER", "MYID")
        self.assertEqual(pair.proxy.call("CLUSTER", "REPLICAS", me), [])
        self.assertEqual(pair.proxy.call("CLUSTER", "COUNT-FAILURE-REPORTS", me), 0)


class CommandTables(unittest.TestCase):
    """COMMAND and its subcommands."""

    GETKEYS = """GET k|SET k v|MSET a 1 b 2|MGET a b c|DEL a b|EVAL s 2 a b x|EVALSHA s 1 a
ZUNIONSTORE d 2 a b WEIGHTS 1 2|ZUNION 2 a b|ZINTERCARD 2 a b LIMIT 1|SINTERCARD 2 a b
LMPOP 2 a b LEFT|ZMPOP 1 a MIN|XREAD COUNT 1 STREAMS a b 0 0|XREADGROUP GROUP g c STREAMS a >
SORT k BY x GET y STORE d|GEORADIUS k 0 0 1 m STORE d|GEORADIUSBYMEMBER k m 1 m STOREDIST d
GEOSEARCHSTORE d k FROMMEMBER m|BITOP AND d a b|RENAME a b|COPY a b|LCS a b|OBJECT ENCODING k
XINFO STREAM k|XGROUP CREATE k g $|MEMORY USAGE k|FCALL f 1 a x|PFCOUNT a b|PFMERGE d a b
SDIFFSTORE d a b|LMOVE a b LEFT RIGHT|HGETALL h|RPOPLPUSH a b|SMOVE a b m|BLPOP a b 0
BLMPOP 0 2 a b LEFT|BZMPOP 0 1 a MIN|XCLAIM k g c 0 0-0|TOUCH a b|ZRANGESTORE d s 0 1|GETEX k
DEBUG OBJECT k|SPUBLISH c m|SSUBSCRIBE a b|DUMP k|RESTORE k 0 x|SETEX k 1 v|EVAL s 0 x|EVAL s 5 a
EVAL s x a|FCALL f 0 x|PING x y|CONFIG GET x|NOSUCH a b|SET k|XREAD COUNT 1""" \
        .replace("\n", "|").split("|")

    def ask(self, *words):
        return pair.proxy.call("COMMAND", *words)

    def test_the_table_its_length_and_its_list_agree_and_name_only_what_is_served(self):
        """H-05: a tool used a command from COMMAND that the proxy does not serve."""
        table = [entry[0].decode() for entry in self.ask()]
        self.assertEqual(len(table), len(set(table)))
        self.assertEqual(self.ask("COUNT"), len(table))
        listed = {name.decode() for name in self.ask("LIST")}
        self.assertEqual({name for name in listed if "|" not in name}, set(table))
        for section in ("not_yet", "refused"):
            self.assertEqual(set(policy_names(section)) & set(table), set())
        self.assertEqual([entry[0].decode() for entry in self.ask("INFO")], table)

    def test_key_positions_and_flags_are_a_nodes(self):
        """H-05: a cluster client took wrong key positions from COMMAND."""
        ours = {entry[0]: entry for entry in self.ask()}
        for theirs in pair.node.call("COMMAND"):
            mine = ours.get(theirs[0])
            if mine is None:
                continue
            with self.subTest(command=theirs[0]):
                self.assertEqual(mine[3:6], theirs[3:6])
                self.assertEqual(set(theirs[2]) - set(mine[2]), set())
                self.assertEqual(set(theirs[6]) - set(mine[6]), set())
                self.assertIn(theirs[1], (mine[1], -mine[1]))

    def test_served_subcommands_of_a_node_are_in_the_table(self):
        """H-05: a client did not find CLIENT SETNAME in COMMAND."""
        unserved = set(policy_names("not_yet") + policy_names("refused"))
        ours = {entry[0]: {sub[0] for sub in entry[9]} for entry in self.ask()}
        for theirs in pair.node.call("COMMAND"):
            if theirs[0] not in ours:
                continue
            names = {sub[0] for sub in theirs[9] if sub[0].decode() not in unserved}
            self.assertEqual(names - ours[theirs[0]], set())

    def test_the_keys_of_a_command_are_found_as_a_node_finds_them(self):
        """H-05: COMMAND GETKEYS named other keys than a node."""
        for line in self.GETKEYS:
            with self.subTest(line=line):
                pair.assert_same(self, encode("COMMAND", "GETKEYS", *line.split(" ")))

    def test_info_names_what_it_does_not_know_as_a_node_does(self):
        """H-05: a null in COMMAND INFO was not what the client could read."""
        for dialect in (2, 3):
            with self.subTest(dialect=dialect):
                answers = []
                for port in pair.ports():
                    with Connection(port) as client:
                        client.call("HELLO", dialect)
                        answers.append(client.call_raw("COMMAND", "INFO", "nosuch", "a|b"))
                self.assertEqual(answers[0], answers[1])
        known = self.ask("INFO", "get", "nosuch", "client|id", "SET")
        self.assertEqual([entry and entry[0] for entry in known],
                         [b"get", None, b"client|id", b"set"])

    def test_wrong_command_commands_get_a_nodes_errors(self):
        """H-05: a wrong COMMAND subcommand was answered in other words than a node's."""
        for command in commands(
                "COMMAND NOSUCH", "COMMAND COUNT x", "COMMAND GETKEYS", "COMMAND LIST FILTERBY",
                "COMMAND LIST FILTERBY NOSUCH x", "COMMAND LIST NOSUCH", "COMMAND DOCS nosuch",
                "COMMAND LIST FILTERBY ACLCAT nosuch", "COMMAND LIST FILTERBY MODULE nosuch"):
            with self.subTest(command=command):
                pair.assert_same(self, encode(*command))

    def test_the_list_can_be_filtered(self):
        """H-05: COMMAND LIST ignored its filter."""
        self.assertEqual(set(self.ask("LIST", "FILTERBY", "PATTERN", "xr*")),
                         {b"xrange", b"xrevrange", b"xread", b"xreadgroup"})
        in_category = self.ask("LIST", "FILTERBY", "ACLCAT", "hyperloglog")
        self.assertTrue({b"pfadd", b"pfcount", b"pfmerge"} <= set(in_category))
        for dialect in (2, 3):
            kinds = []
            for port in pair.ports():
                with Connection(port) as client:
                    client.call("HELLO", dialect)
                    kinds.append([client.call_raw("COMMAND", "LIST", *words)[:1] for words in
                                  ([], ["FILTERBY", "PATTERN", "ge*"])])
            with self.subTest(dialect=dialect):
                self.assertEqual(kinds[0], kinds[1])

    def test_docs_have_a_summary_and_a_group_for_every_command(self):
        """H-05: redis-cli 7 stumbled over COMMAND DOCS when it started."""
        with pair.proxy.connect() as client:
            client.call("HELLO", 3)
            docs = client.call("COMMAND", "DOCS")
            self.assertIsInstance(docs, Map)
            self.assertEqual({name for name, _ in docs}, {entry[0] for entry in self.ask()})
            for name, about in docs:
                self.assertTrue(dict(about)[b"summary"], name)
                self.assertTrue(dict(about)[b"group"], name)
            self.assertEqual([name for name, _ in client.call("COMMAND", "DOCS", "get", "nosuch")],
                             [b"get"])

    def test_a_hundred_tables_at_once_hold_nobody_up(self):
        """H-05: megabytes of COMMAND replies stalled every other client."""
        others = [pair.proxy.connect() for _ in range(4)]
        with pair.proxy.connect(timeout=60) as greedy:
            greedy.send(encode("COMMAND") * 100)
            for other in others * 10:
                self.assertEqual(other.call("PING"), "PONG")
            size = len(greedy.read_frame())
            for _ in range(99):
                self.assertEqual(len(greedy.read_frame()), size)
        for other in others:
            other.close()


class ServerFacts(unittest.TestCase):
    """ROLE, INFO and CONFIG GET."""

    def test_it_is_a_master_without_replicas_wherever_one_asks(self):
        """H-09: a master/replica client refused a server whose role it did not learn."""
        pair.assert_same(self, encode("ROLE"))
        pair.assert_same(self, encode("ROLE", "x"))
        info = pair.proxy.info("replication")
        self.assertEqual((info["role"], info["connected_slaves"]), ("master", "0"))
        self.assertEqual(dict(self.call_in(3, "HELLO"))[b"role"], b"master")

    def call_in(self, dialect, *words):
        with pair.proxy.connect() as client:
            client.call("HELLO", dialect)
            return client.call(*words)

    def test_sentinel_is_unknown_and_nobody_can_make_it_a_replica(self):
        """H-09: SLAVEOF NO ONE through the proxy reached a node."""
        pair.assert_same(self, frames(["SENTINEL", "masters"], ["sentinel"], ["PING"]))
        for command in commands("SLAVEOF NO ONE", "REPLICAOF 127.0.0.1 6379", "FAILOVER"):
            self.assertIn("is not allowed through the proxy", pair.proxy.call(*command))
        self.assertTrue(all(node.is_master() for node in pair.cluster.nodes))

    def test_config_get_has_harmless_values_for_what_tools_ask(self):
        """H-09: a framework that reads CONFIG GET maxmemory failed at its start."""
        wanted = {"maxmemory": "0", "maxmemory-policy": "noeviction", "save": "", "databases": "1",
                  "appendonly": "no", "cluster-enabled": "yes", "port": str(pair.proxy.port),
                  "maxclients": "10000", "proto-max-bulk-len": "536870912", "timeout": "0",
                  "notify-keyspace-events": "", "tcp-keepalive": "300"}
        for name, value in wanted.items():
            for asked in (name, name.upper(), name[:-1] + "?"):
                found = dict(self.call_in(3, "CONFIG", "GET", asked))
                found = {key.decode().lower(): each.decode() for key, each in found.items()}
                self.assertEqual(found.get(name), value, asked)

    def test_config_get_takes_patterns_and_lists_nothing_twice(self):
        """H-09: CONFIG GET * showed a parameter twice, or a password."""
        pairs = pair.proxy.call("CONFIG", "GET", "*")
        names = pairs[::2]
        self.assertEqual(len(names), len(set(names)))
        self.assertFalse([name for name in names if b"password" in name])
        self.assertEqual(pair.proxy.call("CONFIG", "GET", "max*", "*memory", "save", "save")[::2],
                         [name for name in names if re.match(rb"max|.*memory$|save$", name)])
        self.assertIsInstance(self.call_in(3, "CONFIG", "GET", "*"), Map)
        for command in commands("CONFIG", "CONFIG GET", "CONFIG NOSUCH", "CONFIG GET nosuch",
                                "CONFIG GET nosuch nosuch2"):
            pair.assert_same(self, encode(*command))

    def test_info_has_the_fields_that_tools_and_dashboards_read(self):
        """H-09: a dashboard was empty because INFO had not the fields of a server."""
        info = pair.proxy.info()
        self.assertRegex(info["redis_version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(info["redis_version"], pair.node.info("server")["redis_version"])
        fixed = {"role": "master", "loading": "0", "cluster_enabled": "1", "redis_mode": "cluster",
                 "tcp_port": str(pair.proxy.port), "maxmemory_policy": "noeviction",
                 "blocked_clients": "0", "maxmemory": "0", "process_id":
                 str(pair.proxy.process.pid)}
        self.assertEqual({name: info[name] for name in fixed}, fixed)
        numbers = ["uptime_in_seconds", "uptime_in_days", "connected_clients", "used_memory",
                   "used_memory_rss", "total_connections_received", "total_commands_processed",
                   "instantaneous_ops_per_sec", "total_net_input_bytes", "total_net_output_bytes",
                   "rejected_connections", "total_error_replies"]
        for name in numbers:
            self.assertRegex(info[name], r"^\d+$", name)
        for name in ("used_cpu_sys", "used_cpu_user"):
            self.assertRegex(info[name], r"^\d+\.\d+$", name)
        self.assertRegex(info["used_memory_human"], r"^\d+(\.\d+)?[BKMG]$")

    def test_info_counts_commands_and_errors(self):
        """H-09: INFO commandstats and errorstats stayed at zero."""
        before = pair.proxy.info()
        with pair.proxy.connect() as client:
            client.pipeline([["SET", "counted", "x"]] * 7 + [["LPUSH", "counted", "x"]] * 3)
        after = pair.proxy.info()
        calls = [int(re.match(r"calls=(\d+),usec=\d+,usec_per_call=[\d.]+",
                              each.get("cmdstat_set", "calls=0,usec=0,usec_per_call=0"))[1])
                 for each in (before, after)]
        self.assertEqual(calls[1] - calls[0], 7)
        errors = [int(each.get("errorstat_WRONGTYPE", "count=0").split("=")[1])
                  for each in (before, after)]
        self.assertEqual(errors[1] - errors[0], 3)

    def test_info_gives_the_sections_that_were_asked_for(self):
        """H-09: INFO replication answered with everything, or with nothing."""
        for words, sections in (([], {"Server", "Clients", "Memory", "Stats", "Replication", "CPU",
                                      "Cluster", "Keyspace", "Persistence", "Errorstats"}),
                                (["server"], {"Server"}), (["REPLICATION"], {"Replication"}),
                                (["server", "cluster"], {"Server", "Cluster"}), (["nosuch"], set()),
                                (["all"], {"Server", "Commandstats"}),
                                (["default"], {"Server", "Cluster"}),
                                (["everything"], {"Server", "Modules", "Commandstats"})):
            text = pair.proxy.call("INFO", *words).decode()
            found = set(re.findall(r"^# (\w+)\r$", text, re.M))
            with self.subTest(words=words):
                self.assertEqual(sections - found, set())
                self.assertEqual("Commandstats" in found, "Commandstats" in sections)
                if words in (["server"], ["REPLICATION"], ["server", "cluster"], ["nosuch"]):
                    self.assertEqual(found, sections)
            for line in text.split("\r\n"):
                self.assertRegex(line, r"^$|^# \w+$|^[A-Za-z0-9_.|-]+:")


if __name__ == "__main__":
    unittest.main()

"""A slot that is half here and half there: right replies, in order, and no redirect is seen."""
import random
import select
import shutil
import unittest

from moving import SLOT, OwnCluster
from support import Error, Node, Proxy, encode, slot_of, wait_until
from support.cluster import free_ports
from testbed import PATIENT, call, difference, frame_of, frames_of, is_silent, raw_pipeline


class HalfMovedSlot(OwnCluster):
    def fill(self, count=2):
        names = [f"{{t2}}{i + 1}" for i in range(count)]
        words = [word for name in names for word in (name, "value of " + name)]
        self.check([("MSET", *words, "{t1}x", "other"), ("SET", "{t0}y", "third")])
        return names

    def test_M_06_reads_of_a_half_moved_slot_get_the_right_values_at_once(self):
        names = self.fill(6)
        absent = "{t2}absent"
        asked = [names, names[::-1], [names[0], names[5]], names + names, [absent, *names, absent],
                 [absent, names[0]], [absent, names[5]], [absent, absent], [*names, "{t1}x"],
                 ["{t0}y", absent, *names, "{t1}x", names[0], "{t0}y"]]
        self.half_move(names[:3], names[3:])
        before = self.proxy.counter("tryagain")
        for protocol in (2, 3):
            client = self.connect(protocol)
            self.direct.call("HELLO", protocol)
            for name in ("MGET", "EXISTS", "TOUCH", "mget"):
                for keys in asked:
                    self.check([(name, *keys)], client)
            self.check([(name, *keys) for name in ("MGET", "EXISTS") for keys in asked], client)
        self.assertGreater(self.proxy.counter("tryagain"), before)

    def test_M_06_reads_stay_right_at_every_stage_of_the_move(self):
        names = self.fill(12)
        self.half_move([])
        for name in names:
            self.check([("MGET", *names, "{t2}absent"), ("EXISTS", *names), ("GET", name)])
            self.mover.move_keys(SLOT, [name])
            self.check([("MGET", *names[::-1], "{t1}x"), ("TOUCH", *names), ("GET", name)])
        self.mover.finish(SLOT)
        self.check([("MGET", *names, "{t1}x", "{t2}absent")])

    PAIRS = [(f"{{t2}}{index}:stay", f"{{t2}}{index}:go") for index in range(10)]
    # One for each pair of keys, of which one will have moved.
    WAITING = [("MSET", PAIRS[0][0], "x", PAIRS[0][1], "y"), ("DEL", *PAIRS[1]),
               ("UNLINK", *PAIRS[2], "{t1}u"),
               ("EVAL", "return redis.call('mget',KEYS[1],KEYS[2])", 2, *PAIRS[3]),
               ("MSET", PAIRS[4][1], "x", "{t1}m", "z", PAIRS[4][0], "y", "{t0}m", "w"),
               ("SUNIONSTORE", PAIRS[5][0], *PAIRS[5]), ("SINTER", *PAIRS[6]),
               ("SMOVE", *PAIRS[7], "both"), ("LMOVE", *PAIRS[8], "LEFT", "RIGHT"),
               ("RENAME", *PAIRS[9])]

    def fill_pairs(self):
        kinds = [("SET", "v")] * 5 + [("SADD", "both")] * 3 + [("RPUSH", "a")] * 2
        self.check([(name, key, value) for (name, value), pair in zip(kinds, self.PAIRS)
                    for key in pair])

    def test_M_06_commands_that_cannot_be_split_wait_until_the_keys_are_together(self):
        self.fill_pairs()
        self.half_move([key for _, key in self.PAIRS], [key for key, _ in self.PAIRS])
        clients = [self.connect(2 + index % 2) for index in range(len(self.WAITING))]
        for client, command in zip(clients, self.WAITING):
            client.send(encode(*command))
        for client, command in zip(clients, self.WAITING):
            self.assertTrue(is_silent(client, 0.05), command)
        self.mover.finish(SLOT)
        for index, (client, command) in enumerate(zip(clients, self.WAITING)):
            self.direct.call("HELLO", 2 + index % 2)
            self.assertEqual(client.read_frame(), self.direct.call_raw(*command), command)
        self.direct.call("HELLO", 2)
        self.check([("MGET", *[key for pair in self.PAIRS[:5] for key in pair], "{t1}m", "{t0}m")])

    def test_M_06_when_the_budget_ends_tryagain_is_passed_on_and_nothing_was_half_done(self):
        self.fill_pairs()
        self.half_move([key for _, key in self.PAIRS], [key for key, _ in self.PAIRS])
        settings = {"backend.retry_deadline": "200ms", "io.engine": self.engine}
        with Proxy(self.cluster.seeds, settings) as hasty:
            client = self.connect(proxy=hasty)
            for reply in client.pipeline(self.WAITING):
                self.assertIsInstance(reply, Error)
                self.assertEqual(reply.code, "TRYAGAIN", reply)
            self.assertEqual(client.call(*self.WAITING[0]),
                             "TRYAGAIN Multiple keys request during rehashing of slot")
            keys = [key for pair in self.PAIRS[:5] for key in pair]
            self.assertEqual(client.call("MGET", *keys), [b"v"] * 10)
            self.assertEqual([client.call("TYPE", key) for pair in self.PAIRS[5:] for key in pair],
                             ["set"] * 6 + ["list"] * 4)
            self.assertEqual(client.call("SET", keys[0], "new"), "OK")
            self.mover.finish(SLOT)
            self.assertEqual(client.call(*self.WAITING[0]), "OK")

    def test_M_06_a_pipeline_behind_a_command_that_waits_keeps_its_order(self):
        first, second = self.fill(2)
        both = "return redis.call('mget',KEYS[1],KEYS[2])"
        commands = [("MSET", first, "a", second, "b"), ("GET", first), ("GET", second),
                    ("MSET", first, "c", second, "d"), ("MGET", first, second, "{t1}x"),
                    ("APPEND", first, "!"), ("EVAL", both, 2, first, second),
                    ("DEL", first), ("EXISTS", first, second, "{t1}x"), ("INCR", "{t2}n"),
                    ("RENAME", second, first), ("MGET", first, second), ("GET", "{t0}y"),
                    ("MSET", first, 1, "{t1}x", 2, second, 3), ("MGET", second, "{t1}x", first),
                    ("INCR", "{t2}n")]
        for moved in (first, second):
            self.fill(2)
            self.half_move([moved])
            self.client.send(frames_of(commands))
            self.assertTrue(is_silent(self.client))
            self.mover.finish(SLOT)
            got = [self.client.read_frame() for _ in commands]
            self.assertEqual(got, raw_pipeline(self.direct, commands))

    def test_M_06_other_slots_and_other_clients_do_not_wait(self):
        first, second = self.fill(2)
        self.half_move([first])
        self.client.send(encode("MSET", first, "a", second, "b"))
        self.assertTrue(is_silent(self.client))
        other = self.connect()
        for _ in range(50):
            self.assertEqual(other.call("GET", "{t1}x"), b"other")
            self.assertEqual(other.call("GET", second), b"value of {t2}2")
            self.assertEqual(other.call("MGET", first, "{t0}y"), [b"value of {t2}1", b"third"])
        self.mover.finish(SLOT)
        self.assertEqual(self.client.read(), "OK")
        self.assertEqual(other.call("MGET", first, second), [b"a", b"b"])

    def test_M_06_clients_that_leave_while_they_wait_leave_nothing_behind(self):
        first, second = self.fill(2)
        self.half_move([first])
        clients = [self.connect() for _ in range(20)]
        for number, client in enumerate(clients):
            client.send(encode("MSET", first, "a", second, "b"))
            if number % 2:
                client.send(encode("GET", first) + encode("MSET", first, "x", second, "y"))
        self.assertTrue(is_silent(clients[0]))
        for client in clients:
            client.reset()
        self.mover.finish(SLOT)
        wait_until(lambda: self.proxy.counter("connected_clients") <= 2, what="them to be gone")
        self.assertEqual(self.client.call("MSET", first, "c", second, "d"), "OK")
        self.assertEqual(self.client.call("MGET", first, second), [b"c", b"d"])

    def test_R_08_pipelined_commands_on_keys_that_are_asked_for_elsewhere_keep_their_order(self):
        self.fill(3)
        self.half_move(["{t2}1"], ["{t2}2"])
        before = self.proxy.counter("ask")
        for protocol in (2, 3):
            client = self.connect(protocol)
            commands = [command for i in range(200) for command in (
                ("RPUSH", "{t2}new list", i), ("APPEND", "{t2}1", i), ("GET", "{t2}1"),
                ("SETRANGE", "{t2}2", i % 7, "x"), ("INCR", "{t2}new counter"))]
            self.check([*commands, ("LRANGE", "{t2}new list", 0, -1), ("GET", "{t2}2")], client)
        self.assertGreater(self.proxy.counter("ask"), before)

    def test_R_08_pipelined_commands_on_a_slot_that_has_moved_keep_their_order(self):
        for protocol in (2, 3):
            client = self.connect(protocol)
            for key in ("{t2}", "{t1}", "{t0}"):
                self.check([("SET", key + "s", ""), ("RPUSH", key + "l", "first")], client)
                before = self.proxy.counter("moved")
                self.mover.move(slot_of(key))
                commands = [command for i in range(200) for command in (
                    ("RPUSH", key + "l", i), ("APPEND", key + "s", i), ("GET", key + "s"),
                    ("MSET", key + "a", i, key + "b", i), ("MGET", key + "a", key + "b"))]
                self.check([*commands, ("LRANGE", key + "l", 0, -1)], client)
                self.assertGreater(self.proxy.counter("moved"), before)

    def test_R_08_large_values_survive_moved_and_ask(self):
        dice = random.Random(8)
        names = self.fill(4)
        sizes = (15000, 17000, 70000, 1000000)
        for stage in (lambda: self.half_move(names[:2]), lambda: self.mover.finish(SLOT),
                      lambda: self.mover.move(SLOT)):
            stage()
            for size in sizes:
                values = [dice.randbytes(size) for _ in names]
                self.check([("SET", name, value) for name, value in zip(names, values)] +
                           [("GET", name) for name in names] +
                           [("MGET", *names, "{t1}x"), ("SET", "{t2}new", values[0]),
                            ("GET", "{t2}new"), ("STRLEN", names[0]), ("DEL", "{t2}new")])


class HalfMovedSlotOnIoUring(HalfMovedSlot, unittest.TestCase):
    engine = "io_uring"


class HalfMovedSlotOnEpoll(HalfMovedSlot, unittest.TestCase):
    engine = "epoll"


class HugeReadOfAHalfMovedSlot(OwnCluster, unittest.TestCase):
    def test_M_06_more_than_65535_keys_of_a_half_moved_slot_are_read_right(self):
        keys = [b"{t2}%d" % i for i in range(66000)]
        for start in range(0, len(keys), 6000):
            some = keys[start:start + 6000]
            words = [word for key in some for word in (key, key[4:])]
            self.assertEqual(call(self.client, "MSET", *words), "OK")
        self.half_move(keys[::100])
        for asked in (keys[:30000], keys[::-1]):
            self.client.send(frame_of(["MGET", *asked]) + frame_of(["EXISTS", *asked]) +
                             encode("ECHO", "in step"))
            self.assertEqual(difference(self.client.read(), [key[4:] for key in asked]), "")
            self.assertEqual(self.client.read(), len(asked))
            self.assertEqual(self.client.read(), b"in step")


class NewNode(OwnCluster, unittest.TestCase):
    """A master joins with no slots, and the first slot comes to it."""

    def setUp(self):
        super().setUp()
        self.new = Node(free_ports(1)[0], self.cluster.directory, PATIENT).start()
        self.cluster.nodes.append(self.new)
        self.addCleanup(self.leave)
        self.cluster.nodes[0].call("CLUSTER", "MEET", "127.0.0.1", self.new.port)
        for node in self.cluster.nodes:
            wait_until(lambda n=node: self.cluster.cluster_info(n)["cluster_known_nodes"] == "4",
                       what="the nodes to know each other")
        self.cluster.wait_ok()

    def leave(self):
        """Gives back what came to the new node and forgets it."""
        home = self.cluster.nodes[0]
        if self.cluster.owner_of(SLOT) is self.new:
            self.cluster.migrate_slot(SLOT, home)
        new_id = self.new.id
        self.cluster.nodes.remove(self.new)
        self.new.kill()
        shutil.rmtree(self.new.directory)
        for node in self.cluster.nodes:
            node.call("CLUSTER", "FORGET", new_id)

    def test_R_08_a_slot_on_its_way_to_a_node_that_has_just_joined_is_served_at_once(self):
        self.check([("MSET", "{t2}1", 1, "{t2}2", 2)])
        source = self.cluster.begin_migration(SLOT, self.new)
        self.cluster.migrate_keys(source, self.new, "{t2}1")
        self.client.send(frames_of([("GET", "{t2}1"), ("SET", "{t2}new", "x"),
                                    ("GET", "{t2}new"), ("GET", "{t2}2")]))
        try:
            arrived = select.select([self.client.socket], [], [], 10)[0]
            self.assertTrue(arrived, "nothing is answered while the slot is on its way")
            self.assertEqual([self.client.read() for _ in range(4)], [b"1", "OK", b"x", b"2"])
        finally:
            self.cluster.finish_migration(SLOT, source, self.new)

    def test_R_08_a_slot_that_has_moved_to_a_node_that_has_just_joined_is_found(self):
        self.check([("MSET", "{t2}1", 1, "{t2}2", 2)])
        self.cluster.migrate_slot(SLOT, self.new)
        self.check([("GET", "{t2}1"), ("MGET", "{t2}2", "{t2}1", "{t1}x"), ("INCR", "{t2}1"),
                    ("APPEND", "{t2}2", "b"), ("MSET", "{t2}2", 5, "{t1}x", 6), ("GET", "{t2}2")])
        self.assertEqual(self.new.call("MGET", "{t2}1", "{t2}2"), [b"2", b"5"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""A slot that is half here and half there: right replies, in order, and no redirect is seen."""
import random
import shutil
import unittest

from support import PATIENT, Error, Node, Proxy, encode, frames, slot_of
from support.moving import SLOT, OwnCluster
from support.ports import free_port
from support.slots import TAGS
from support.testbed import difference


class HalfMovedSlot(OwnCluster):
    """Some keys of a slot are on its old owner, some on the new one."""

    def fill(self, count=2):
        names = [f"{{t2}}{i + 1}" for i in range(count)]
        words = [word for name in names for word in (name, "value of " + name)]
        self.check([("MSET", *words, "{t1}x", "other"), ("SET", "{t0}y", "third")])
        return names

    def test_reads_of_a_half_moved_slot_get_the_right_values_at_once(self):
        """M-06: MGET during a reshard answered TRYAGAIN, or nil for keys that were there."""
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

    def test_reads_stay_right_at_every_stage_of_the_move(self):
        """M-06: at some stage of a slot's move MGET missed keys."""
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

    def test_commands_that_cannot_be_split_wait_until_the_keys_are_together(self):
        """M-06: MSET and scripts failed with TRYAGAIN during a reshard."""
        self.fill_pairs()
        self.half_move([key for _, key in self.PAIRS], [key for key, _ in self.PAIRS])
        clients = [self.connect(2 + index % 2) for index in range(len(self.WAITING))]
        for client, command in zip(clients, self.WAITING):
            client.send(encode(*command))
        for client, command in zip(clients, self.WAITING):
            self.assertTrue(client.is_silent(0.05), command)
        self.mover.finish(SLOT)
        for index, (client, command) in enumerate(zip(clients, self.WAITING)):
            self.direct.call("HELLO", 2 + index % 2)
            self.assertEqual(client.read_frame(), self.direct.call_raw(*command), command)
        self.direct.call("HELLO", 2)
        self.check([("MGET", *[key for pair in self.PAIRS[:5] for key in pair], "{t1}m", "{t0}m")])

    def test_when_the_budget_ends_tryagain_is_passed_on_and_nothing_was_half_done(self):
        """M-06: half of an MSET had run when it failed during a reshard."""
        self.fill_pairs()
        self.half_move([key for _, key in self.PAIRS], [key for key, _ in self.PAIRS])
        with Proxy(self.cluster.seeds, {"backend.retry_deadline": "200ms"}) as hasty:
            client = self.connect(proxy=hasty)
            for reply in client.pipeline(self.WAITING):
                self.assertIsInstance(reply, Error)
                self.assertEqual(reply.code, "TRYAGAIN", reply)
            self.assertEqual(client.call(*self.WAITING[0]),
                             "TRYAGAIN Multiple keys request during rehashing of slot")
            keys = [key for pair in self.PAIRS[:5] for key in pair]
            self.assertEqual(self.client.call("MGET", *keys), [b"v"] * 10)
            self.assertEqual([self.client.call("TYPE", key)
                              for pair in self.PAIRS[5:] for key in pair],
                             ["set"] * 6 + ["list"] * 4)
        self.mover.finish(SLOT)
        self.assertEqual(self.client.call(*self.WAITING[0]), "OK")

    def test_a_pipeline_behind_a_command_that_waits_keeps_its_order(self):
        """M-06: commands overtook one that waited for a slot's move."""
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
            self.client.send(frames(*commands))
            self.assertTrue(self.client.is_silent())
            self.mover.finish(SLOT)
            got = [self.client.read_frame() for _ in commands]
            self.assertEqual(got, self.direct.pipeline_raw(commands))

    def test_other_slots_and_other_clients_do_not_wait(self):
        """M-06: everybody waited for one slot's move."""
        first, second = self.fill(2)
        self.half_move([first])
        self.client.send(encode("MSET", first, "a", second, "b"))
        self.assertTrue(self.client.is_silent())
        other = self.connect()
        for _ in range(50):
            self.assertEqual(other.call("GET", "{t1}x"), b"other")
            self.assertEqual(other.call("GET", second), b"value of {t2}2")
            self.assertEqual(other.call("MGET", first, "{t0}y"), [b"value of {t2}1", b"third"])
        self.mover.finish(SLOT)
        self.assertEqual(self.client.read(), "OK")
        self.assertEqual(other.call("MGET", first, second), [b"a", b"b"])

    def test_clients_that_leave_while_they_wait_leave_nothing_behind(self):
        """M-06: a command ran for a client that had given up long before."""
        first, second = self.fill(2)
        self.half_move([first])
        clients = [self.connect() for _ in range(20)]
        for number, client in enumerate(clients):
            client.send(encode("MSET", first, "a", second, "b"))
            if number % 2:
                client.send(encode("GET", first) + encode("MSET", first, "x", second, "y"))
        self.assertTrue(clients[0].is_silent())
        for client in clients:
            client.reset()
        self.mover.finish(SLOT)
        self.proxy.wait_for_clients(1)
        self.assertEqual(self.client.call("MSET", first, "c", second, "d"), "OK")
        self.assertEqual(self.client.call("MGET", first, second), [b"c", b"d"])

    def test_pipelined_commands_on_keys_that_are_asked_for_elsewhere_keep_their_order(self):
        """R-08: ASK turned the order of a pipeline's commands around."""
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

    def test_pipelined_commands_on_a_slot_that_has_moved_keep_their_order(self):
        """R-08: MOVED turned the order of a pipeline's commands around."""
        before = self.proxy.counter("moved")
        for protocol in (2, 3):
            client = self.connect(protocol)
            for key in TAGS:
                self.check([("SET", key + "s", ""), ("RPUSH", key + "l", "first")], client)
                self.mover.move(slot_of(key))
                commands = [command for i in range(200) for command in (
                    ("RPUSH", key + "l", i), ("APPEND", key + "s", i), ("GET", key + "s"),
                    ("MSET", key + "a", i, key + "b", i), ("MGET", key + "a", key + "b"))]
                self.check([*commands, ("LRANGE", key + "l", 0, -1)], client)
        self.assertGreater(self.proxy.counter("moved"), before)

    def test_large_values_survive_moved_and_ask(self):
        """R-08: a large value was cut when it was redirected."""
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


class HugeReadOfAHalfMovedSlot(OwnCluster):
    def test_more_than_65535_keys_of_a_half_moved_slot_are_read_right(self):
        """M-06: an MGET of very many keys got the values of others during a reshard."""
        keys = [b"{t2}%d" % i for i in range(66000)]
        for start in range(0, len(keys), 6000):
            some = keys[start:start + 6000]
            words = [word for key in some for word in (key, key[4:])]
            self.assertEqual(self.client.call("MSET", *words), "OK")
        self.half_move(keys[::100])
        for asked in (keys[:30000], keys[::-1]):
            self.client.send(frames(["MGET", *asked], ["EXISTS", *asked], ["ECHO", "in step"]))
            self.assertEqual(difference(self.client.read(), [key[4:] for key in asked]), "")
            self.assertEqual(self.client.read(), len(asked))
            self.assertEqual(self.client.read(), b"in step")


class NewNode(OwnCluster):
    """A master joins with no slots, and the first slot comes to it."""

    def setUp(self):
        super().setUp()
        self.home = self.mover.owners[SLOT]
        # Or it would become a replica of whoever takes its last slot.
        options = (*PATIENT, "--cluster-allow-replica-migration", "no")
        self.new = Node(free_port(), self.cluster.directory, options).start()
        self.cluster.nodes.append(self.new)
        self.cluster.meet(self.new)
        self.cluster.wait_known()
        self.cluster.wait_ok()
        self.mover.add(self.new)
        self.addCleanup(self.leave)

    def leave(self):
        """Gives back what came to the new node and forgets it."""
        self.mover.finish(SLOT)
        if self.mover.owners[SLOT] is self.new:
            self.mover.move(SLOT, self.home)
        new_id = self.new.id
        self.mover.remove(self.new)
        self.cluster.nodes.remove(self.new)
        self.new.kill()
        shutil.rmtree(self.new.directory)
        for node in self.cluster.nodes:
            node.call("CLUSTER", "FORGET", new_id)

    def test_a_slot_on_its_way_to_a_node_that_has_just_joined_is_served_at_once(self):
        """R-08: ASK to a node that the proxy had not heard of yet was not followed."""
        self.check([("MSET", "{t2}1", 1, "{t2}2", 2)])
        self.mover.begin(SLOT, self.new)
        self.mover.move_keys(SLOT, ["{t2}1"])
        self.client.send(frames(("GET", "{t2}1"), ("SET", "{t2}new", "x"), ("GET", "{t2}new"),
                                ("GET", "{t2}2")))
        self.assertFalse(self.client.is_silent(30), "nothing is answered while it is on its way")
        self.assertEqual([self.client.read() for _ in range(4)], [b"1", "OK", b"x", b"2"])

    def test_a_slot_that_has_moved_to_a_node_that_has_just_joined_is_found(self):
        """R-08: MOVED to a node that the proxy had not heard of yet was not followed."""
        self.check([("MSET", "{t2}1", 1, "{t2}2", 2)])
        self.mover.move(SLOT, self.new)
        self.check([("GET", "{t2}1"), ("MGET", "{t2}2", "{t2}1", "{t1}x"), ("INCR", "{t2}1"),
                    ("APPEND", "{t2}2", "b"), ("MSET", "{t2}2", 5, "{t1}x", 6), ("GET", "{t2}2")])
        self.assertEqual(self.new.call("MGET", "{t2}1", "{t2}2"), [b"2", b"5"])


if __name__ == "__main__":
    unittest.main()

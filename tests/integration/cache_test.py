# SPDX-License-Identifier: Apache-2.0
"""The reply cache: what is kept, and that nothing stale is ever served."""
import time
import unittest

from support import Error, slot_of
from support.caching import BROADCAST, KINDS, Cached, counter, is_kept, keep, keys_of_all_shards
from support.moving import SLOT, Mover
from support.resp import encode
from support.wait import wait_until

KEY = "{t2}k"

# A write of every kind, the keys that it changes, and how they are prepared.
WRITES = [
    (("SET", KEY, "new"), ("SET", KEY, "old"), ("GET", KEY)),
    (("SET", KEY, "new", "KEEPTTL"), ("SET", KEY, "old"), ("GET", KEY)),
    (("SETEX", KEY, 100, "new"), ("SET", KEY, "old"), ("GET", KEY)),
    (("MSET", KEY, "new", "{t2}other", "x"), ("SET", KEY, "old"), ("GET", KEY)),
    (("MSET", KEY, "new", "{t1}other", "x"), ("SET", KEY, "old"), ("GET", KEY)),
    (("APPEND", KEY, "er"), ("SET", KEY, "old"), ("STRLEN", KEY)),
    (("INCR", KEY), ("SET", KEY, "1"), ("GET", KEY)),
    (("GETDEL", KEY), ("SET", KEY, "old"), ("EXISTS", KEY)),
    (("DEL", KEY, "{t1}none"), ("SET", KEY, "old"), ("GET", KEY)),
    (("UNLINK", KEY), ("SET", KEY, "old"), ("GET", KEY)),
    (("RENAME", "{t2}other", KEY), ("MSET", KEY, "old", "{t2}other", "new"), ("GET", KEY)),
    (("RENAME", KEY, "{t2}other"), ("SET", KEY, "old"), ("GET", KEY)),
    (("COPY", "{t2}other", KEY, "REPLACE"), ("MSET", KEY, "old", "{t2}other", "new"),
     ("GET", KEY)),
    (("SORT", "{t2}list", "STORE", KEY), ("RPUSH", KEY, "9"), ("LRANGE", KEY, 0, -1)),
    (("EVAL", "return redis.call('set', KEYS[1], 'new')", 1, KEY), ("SET", KEY, "old"),
     ("GET", KEY)),
    (("EVAL", f"return redis.call('set', '{KEY}', 'new')", 1, "{t2}declared"),
     ("SET", KEY, "old"), ("GET", KEY)),
    (("FCALL", "overwrite", 1, KEY), ("SET", KEY, "old"), ("GET", KEY)),
    (("EXPIRE", KEY, -1), ("SET", KEY, "old"), ("GET", KEY)),
    (("HSET", KEY, "field", "new"), ("HSET", KEY, "field", "old"), ("HGET", KEY, "field")),
    (("HDEL", KEY, "field"), ("HSET", KEY, "field", "old", "f", "v"), ("HGETALL", KEY)),
    (("SADD", KEY, "b"), ("SADD", KEY, "a"), ("SMEMBERS", KEY)),
    (("ZADD", KEY, 2, "a"), ("ZADD", KEY, 1, "a"), ("ZSCORE", KEY, "a")),
    (("LPUSH", KEY, "b"), ("RPUSH", KEY, "a"), ("LRANGE", KEY, 0, -1)),
    (("ZUNIONSTORE", KEY, 1, "{t2}zset"), ("ZADD", KEY, 1, "a"), ("ZRANGE", KEY, 0, -1)),
    (("SETBIT", KEY, 1, 1), ("SET", KEY, "old"), ("GETBIT", KEY, 1)),
]
LIBRARY = """#!lua name=cachetest
redis.register_function('overwrite', function(keys) return redis.call('set', keys[1], 'new') end)
"""


class WhatIsKept(Cached):
    def test_a_hot_get_costs_the_node_nothing(self):
        """What it is for: no command reaches the node."""
        for proxy, client, _ in self.each_kind():
            direct = self.direct(KEY)
            direct.call("SET", KEY, "value")
            self.assertEqual(keep(proxy, client, "GET", KEY), b"value")
            before = self.cluster.owner_of(KEY).calls("get")
            self.assertEqual(client.pipeline([("GET", KEY)] * 50), [b"value"] * 50)
            self.assertEqual(self.cluster.owner_of(KEY).calls("get"), before)

    def test_a_value_that_a_client_wrote_is_kept_with_broadcast(self):
        """A read right after a write is the most usual one."""
        for proxy, client, _ in self.each_kind(kinds={k: KINDS[k] for k in KINDS if "broad" in k}):
            keep(proxy, client, "GET", self.set_directly(KEY, "value"))
            for write in (("SET", KEY, "1"), ("SET", KEY, "2", "EX", 100), ("SETEX", KEY, 100, "3"),
                          ("PSETEX", KEY, 100000, "4"), ("set", KEY, "5", "px", 100000)):
                client.call(*write)
                self.assertTrue(is_kept(proxy, client, "GET", KEY), write)
                self.assertEqual(client.call("GET", KEY), self.direct(KEY).call("GET", KEY))
            for write in (("SET", KEY, "6", "NX"), ("SET", KEY, "7", "GET"),
                          ("SET", KEY, "8", "KEEPTTL"), ("INCR", KEY)):
                client.call(*write)
                self.assertFalse(is_kept(proxy, client, "GET", KEY), write)

    def set_directly(self, key, value):
        self.direct(key).call("SET", key, value)
        return key

    def test_all_kept_reads_answer_what_the_node_does(self):
        """C-07: a cached HGETALL came as an array in RESP3, a null as the other protocol's."""
        node = self.direct(KEY)
        node.pipeline([("RPUSH", "{t2}l", "a", "b"), ("SADD", "{t2}s", "1"),
                       ("ZADD", "{t2}z", 1.5, "a", 2, "b"), ("HSET", "{t2}h", "f", "v"),
                       ("GEOADD", "{t2}g", 13.3, 38.1, "p", 15, 37.5, "q"), ("SET", KEY, "value"),
                       ("XADD", "{t2}x", "1-1", "f", "v"), ("SET", "{t2}empty", "")])
        reads = [("GET", KEY), ("GET", "{t2}empty"), ("STRLEN", KEY), ("GETRANGE", KEY, 1, 2),
                 ("GETBIT", KEY, 3), ("BITCOUNT", KEY), ("BITPOS", KEY, 1), ("EXISTS", KEY),
                 ("TYPE", KEY), ("LLEN", "{t2}l"), ("LINDEX", "{t2}l", 0), ("LINDEX", "{t2}l", 9),
                 ("LRANGE", "{t2}l", 0, -1), ("LPOS", "{t2}l", "b"), ("SCARD", "{t2}s"),
                 ("SISMEMBER", "{t2}s", "1"), ("SMISMEMBER", "{t2}s", "1", "2"),
                 ("SMEMBERS", "{t2}s"), ("ZCARD", "{t2}z"), ("ZCOUNT", "{t2}z", 1, 2),
                 ("ZSCORE", "{t2}z", "a"), ("ZSCORE", "{t2}z", "none"),
                 ("ZMSCORE", "{t2}z", "a", "none"), ("ZRANK", "{t2}z", "b"),
                 ("ZRANGE", "{t2}z", 0, -1, "WITHSCORES"), ("HGET", "{t2}h", "f"),
                 ("HGET", "{t2}h", "none"), ("HMGET", "{t2}h", "f", "none"), ("HGETALL", "{t2}h"),
                 ("HLEN", "{t2}h"), ("GEOPOS", "{t2}g", "p", "none"), ("GEOHASH", "{t2}g", "p"),
                 ("GEODIST", "{t2}g", "p", "q"), ("XLEN", "{t2}x"), ("MGET", KEY, "{t2}empty")]
        for name in ("broadcast", "opt-in, shared pipes"):
            proxy = self.start(KINDS[name])
            for protocol in (2, 3):
                client, plain = self.connect(proxy), self.direct(KEY)
                for each in (client, plain):
                    each.call("HELLO", protocol)
                for read in reads:
                    with self.subTest(kind=name, protocol=protocol, read=read):
                        keep(proxy, client, *read)
                        self.assertEqual(client.call_raw(*read), plain.call_raw(*read))

    def test_what_depends_on_time_chance_or_groups_is_never_kept(self):
        """C-07: TTL stood still, SRANDMEMBER gave one element for ever."""
        self.direct(KEY).pipeline([("SET", KEY, "v", "EX", 1000), ("SADD", "{t2}s", "1", "2"),
                                   ("HSET", "{t2}h", "f", "v"), ("XADD", "{t2}x", "1-1", "f", "v"),
                                   ("XGROUP", "CREATE", "{t2}x", "g", "0")])
        never = [("TTL", KEY), ("PTTL", KEY), ("OBJECT", "IDLETIME", KEY),
                 ("OBJECT", "ENCODING", KEY), ("SRANDMEMBER", "{t2}s"), ("HRANDFIELD", "{t2}h"),
                 ("HSCAN", "{t2}h", 0), ("SSCAN", "{t2}s", 0), ("XREAD", "STREAMS", "{t2}x", 0),
                 ("XPENDING", "{t2}x", "g"), ("XINFO", "STREAM", "{t2}x"), ("MEMORY", "USAGE", KEY),
                 ("EVAL_RO", "return redis.call('get', KEYS[1])", 1, KEY), ("DUMP", KEY),
                 ("EXPIRETIME", KEY), ("SORT_RO", "{t2}s"), ("SINTER", "{t2}s"),
                 ("EXISTS", KEY, KEY), ("GETEX", KEY)]
        for proxy, client, _ in self.each_kind(kinds={"opt-in": KINDS["opt-in"]}):
            keep(proxy, client, "STRLEN", KEY)
            before = counter(proxy, "hits") + counter(proxy, "fills")
            for read in never * 4:
                self.assertNotIsInstance(client.call(*read), Error, read)
            self.assertEqual(counter(proxy, "hits") + counter(proxy, "fills"), before)

    def test_mget_takes_what_is_there_and_asks_for_the_rest(self):
        """Of several slots, with absent keys, keys of another type, and keys named twice."""
        for proxy, client, _ in self.each_kind():
            keys = keys_of_all_shards("m")
            for key in keys:
                self.direct(key).call("SET", key, f"value of {key}")
                keep(proxy, client, "GET", key)
            for other in ("{t1}a", "{t1}b"):
                self.direct(other).call("SET", other, other)
            self.direct("{t1}hash").call("HSET", "{t1}hash", "f", "v")
            asked = [keys[0], "{t1}a", keys[1], "{t1}none", keys[0], "{t1}hash", keys[2], "{t1}b"]
            wanted = [b"value of " + k.encode() if k in keys else None for k in asked]
            wanted[1], wanted[7] = b"{t1}a", b"{t1}b"
            for _ in range(4):
                self.assertEqual(client.call("MGET", *asked), wanted)
            wait_until(lambda c=client, p=proxy: is_kept(p, c, "MGET", "{t1}a", "{t1}b"),
                       what="MGET to fill")
            self.assertEqual(client.call("MGET", *keys), [wanted[0], wanted[2], wanted[6]])
            self.assertIn("WRONGTYPE", client.call("GET", "{t1}hash"))

    def test_many_clients_that_miss_one_key_are_one_read(self):
        """A hot key that went cold was read once by every client at once."""
        for name in ("broadcast", "opt-in"):
            proxy = self.start({**KINDS[name], "server.workers": 1})
            clients = [self.connect(proxy) for _ in range(30)]
            direct = self.direct(KEY)
            direct.call("SET", KEY, "0")
            keep(proxy, clients[0], "GET", KEY)
            node = self.cluster.owner_of(KEY)
            node.pause()
            try:
                clients[0].send(encode("INCR", KEY))
                time.sleep(0.1)  # a write is under way: nobody joins a read of before
                for client in clients[1:]:
                    client.send(encode("GET", "{t2}cold"))
                time.sleep(0.1)
            finally:
                node.resume()
            self.assertEqual(clients[0].read(), 1)
            self.assertEqual([client.read() for client in clients[1:]], [None] * 29)
            self.assertGreaterEqual(counter(proxy, "joined"), 28)

    def test_keys_that_the_configuration_names_are_never_kept(self):
        for proxy, client, _ in self.each_kind({"reply_cache.never": ["{t2}session:*"],
                                                "reply_cache.prefixes": ["{t2}"]}):
            for key, wanted in ((KEY, True), ("{t2}session:1", False), ("{t1}x", False)):
                self.direct(key).call("SET", key, "v")
                if wanted:
                    keep(proxy, client, "GET", key)
                    continue
                for _ in range(5):
                    self.assertFalse(is_kept(proxy, client, "GET", key), key)

    def test_large_values_and_the_budget(self):
        """RSS grew with every value that was kept."""
        proxy = self.start({**BROADCAST, "reply_cache.max_bytes_per_worker": "4mb"})
        client = self.connect(proxy)
        keep(proxy, client, "GET", self.filled(KEY, "v"))
        for number in range(3000):
            client.call("SET", "{t2}%d" % number, "x" * (number * 3 % 9000))
        self.assertLess(counter(proxy, "bytes"), 8 << 20)
        self.assertGreater(counter(proxy, "evictions"), 500)
        huge = "{t2}huge"
        client.call("SET", huge, "x" * (1 << 20))
        self.assertEqual([len(client.call("GET", huge)) for _ in range(3)], [1 << 20] * 3)
        self.assertFalse(is_kept(proxy, client, "GET", huge))

    def filled(self, key, value):
        self.direct(key).call("SET", key, value)
        return key


class Switching(Cached):
    def test_it_is_turned_on_and_off_resized_and_flushed_while_clients_work(self):
        proxy = self.start()
        client = self.connect(proxy)
        client.call("SET", KEY, "1")
        self.assertFalse(is_kept(proxy, client, "GET", KEY))
        self.assertEqual(client.call("CONFIG", "SET", "reply_cache.enabled", "yes"), "OK")
        keep(proxy, client, "GET", KEY)
        self.assertEqual(client.call("CACHE", "FLUSH"), "OK")
        self.assertEqual(counter(proxy, "entries"), 0)
        keep(proxy, client, "GET", KEY)
        size = "reply_cache.max_bytes_per_worker"
        self.assertEqual(client.call("CONFIG", "SET", size, "1mb"), "OK")
        self.assertEqual(client.call("CONFIG", "GET", size), [size.encode(), b"1mb"])
        self.assertIn("a size with a unit", client.call("CONFIG", "SET", size, "1"))
        self.assertIn("while the proxy runs",
                      client.call("CONFIG", "SET", "reply_cache.max_age", "1s"))
        self.assertEqual(client.call("CONFIG", "SET", "reply_cache.enabled", "no"), "OK")
        self.assertFalse(is_kept(proxy, client, "GET", KEY))
        wait_until(lambda: counter(proxy, "trackers") == 0, what="the trackers to go")
        self.direct(KEY).call("SET", KEY, "2")
        self.assertEqual(client.call("GET", KEY), b"2")
        self.assertEqual(client.call("CONFIG", "SET", "reply_cache.enabled", "yes"), "OK")
        self.assertEqual(keep(proxy, client, "GET", KEY), b"2")

    def test_a_node_that_may_not_track_is_served_without_it(self):
        """An ACL user without CLIENT TRACKING: everything works, nothing is kept, the log says."""
        for node in self.cluster.nodes:
            node.call("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-client|tracking")
        proxy = self.start({**BROADCAST, "cluster.username": "app", "cluster.password": "pw"})
        client = self.connect(proxy)
        client.call("SET", KEY, "1")
        wait_until(lambda: "does not track" in proxy.log_text(), what="the log to say so")
        self.assertEqual([client.call("GET", KEY) for _ in range(5)], [b"1"] * 5)
        self.assertEqual((counter(proxy, "hits"), counter(proxy, "trackers_up")), (0, 0))

    def test_a_password_is_asked_for_before_anything_is_served_from_memory(self):
        proxy = self.start({**BROADCAST, "server.password": "secret"})
        client, stranger = self.connect(proxy), self.connect(proxy)
        client.call("AUTH", "secret")
        client.call("SET", KEY, "1")

        def hits():
            lines = client.call("INFO", "reply_cache").decode().splitlines()
            return int(dict(line.split(":") for line in lines if ":" in line)["reply_cache_hits"])

        wait_until(lambda: client.call("GET", KEY) and hits() > 0, what="the key to be kept")
        self.assertEqual(stranger.call("GET", KEY).code, "NOAUTH")


class OwnWrites(Cached):
    def test_a_client_reads_what_was_written_last(self):
        """C-05: it read the value of before its own write, or of before another client's."""
        for proxy, client, other in self.each_kind():
            self.direct(KEY).call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
            for write, prepare, read in WRITES:
                with self.subTest(write=write):
                    node = self.direct(KEY)
                    node.pipeline([("FLUSHALL",), ("RPUSH", "{t2}list", "1", "2"),
                                   ("ZADD", "{t2}zset", 5, "b"), prepare])
                    for each in (client, other):
                        keep(proxy, each, *read)
                    self.assertNotIsInstance(client.call(*write), Error)
                    self.assertEqual([each.call_raw(*read) for each in (other, client)],
                                     [node.call_raw(*read)] * 2)

    def test_a_pipeline_reads_its_own_writes(self):
        """C-05, in one packet."""
        for proxy, client, _ in self.each_kind():
            self.direct(KEY).call("SET", KEY, "0")
            keep(proxy, client, "GET", KEY)
            for number in range(1, 200):
                value = b"%d" % number
                self.assertEqual(
                    client.pipeline([("GET", KEY), ("SET", KEY, value), ("GET", KEY),
                                     ("MGET", KEY, "{t1}none"), ("GET", KEY)]),
                    [b"%d" % (number - 1), "OK", value, [value, None], value])

    def test_clients_that_take_turns_never_see_the_value_of_before(self):
        """C-05: one writes, and tells the other, who reads through another worker."""
        for proxy, client, other in self.each_kind():
            for number in range(300):
                client.call("SET", KEY, number)
                self.assertEqual(other.call("GET", KEY), b"%d" % number)
                client, other = other, client

    def check_refused(self, *commands):
        for _, client, _ in self.each_kind(kinds={"broadcast": KINDS["broadcast"]}):
            for command in commands:
                self.assertIn("not supported yet", client.call(*command))

    def test_transactions_and_watch_are_refused_by_name(self):
        """C-09: answering OK and serving what they read from the cache would be wrong."""
        self.check_refused(("WATCH", KEY), ("MULTI",), ("EXEC",))

    def test_tracking_of_clients_is_refused_by_name(self):
        """C-13: answering OK and sending no announcements would make their caches stale."""
        self.check_refused(("CLIENT", "TRACKING", "ON"), ("CLIENT", "CACHING", "YES"))


class OutsideWrites(Cached):
    def check_new_value_is_seen(self, client, key, value):
        wait_until(lambda: client.call("GET", key) == value, 5, 0.002, f"{value} to be seen")

    def test_a_write_behind_its_back_is_seen_at_once(self):
        """Milliseconds, not max_age."""
        for proxy, client, other in self.each_kind():
            node = self.direct(KEY)
            for number in range(20):
                node.call("SET", KEY, number)
                began = time.monotonic()
                for each in (client, other):
                    self.check_new_value_is_seen(each, KEY, b"%d" % number)
                self.assertLess(time.monotonic() - began, 5)  # max_age is 10 s
                keep(proxy, client, "GET", KEY)

    def test_flushing_a_node_behind_its_back_empties_the_cache(self):
        for proxy, client, _ in self.each_kind():
            node = self.direct(KEY)
            node.call("SET", KEY, "1")
            keep(proxy, client, "GET", KEY)
            node.call("FLUSHALL")
            self.check_new_value_is_seen(client, KEY, None)
            self.assertGreater(counter(proxy, "node_flushes"), 0)

    def test_an_absent_key_comes_to_life_on_another_node(self):
        """C-03: a cached nil survived the move of its slot, there and back."""
        mover = Mover(self.cluster)
        self.addCleanup(mover.close)
        for proxy, client, other in self.each_kind():
            absent = "{t2}absent"
            for round_trip in range(3):
                for each in (client, other) * 2:
                    self.assertIsNone(each.call("GET", absent))
                mover.move(SLOT)
                node = mover.owners[SLOT]
                node.call("SET", absent, "now")
                for each in (client, other):
                    self.assertEqual(each.call("GET", absent), b"now")
                node.call("DEL", absent)
                self.check_new_value_is_seen(client, absent, None)
                self.check_new_value_is_seen(other, absent, None)
        while mover.owners[SLOT] is not self.cluster.nodes[0]:
            mover.move(SLOT)

    def test_a_key_moves_and_changes_there(self):
        """C-03: the same with a key that is there."""
        mover = Mover(self.cluster)
        self.addCleanup(mover.close)
        self.assertEqual(slot_of(KEY), SLOT)
        for proxy, client, _ in self.each_kind():
            for number in range(3):
                mover.owners[SLOT].call("SET", KEY, number)
                keep(proxy, client, "GET", KEY)
                mover.move(SLOT)
                mover.owners[SLOT].call("SET", KEY, "moved")
                self.check_new_value_is_seen(client, KEY, b"moved")
        while mover.owners[SLOT] is not self.cluster.nodes[0]:
            mover.move(SLOT)


if __name__ == "__main__":
    unittest.main()

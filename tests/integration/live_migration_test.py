# SPDX-License-Identifier: Apache-2.0
"""Many slots move under traffic: no client sees an error, and nothing is lost or done twice."""
import random
import time
import unittest

from support import frames, slot_of
from support.load import Background, expect
from support.moving import OwnCluster
from support.slots import keys_of_slots, slots_of_shard

REDIRECTS = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")


class Traffic:
    """One client of the live migration: every kind of work once in each run()."""
    KEYS = 4  # of each kind, for each slot

    def __init__(self, client, name, tags, seed):
        self.client, self.name, self.tags = client, name, tags
        self.dice = random.Random(seed)
        self.increments = {}  # counter -> how often this client has added one
        self.seen = {}        # counter -> the last value this client saw
        self.values = {}      # its own keys
        self.lists = {}       # its own lists -> how long they are
        self.version = 0

    def run(self):
        for work in (self.increment, self.set_and_get, self.read_many, self.set_many,
                     self.pipeline, self.script):
            work()

    def count(self, counter, value):
        self.increments[counter] = self.increments.get(counter, 0) + 1
        assert isinstance(value, int), (counter, value)
        assert value > self.seen.get(counter, 0), (counter, value, self.seen.get(counter))
        self.seen[counter] = value

    def increment(self):
        counter = self.dice.choice(self.tags) + f"counter{self.dice.randrange(self.KEYS)}"
        self.count(counter, self.client.call("INCR", counter))

    def script(self):
        tag = self.dice.choice(self.tags)
        counters = [f"{tag}counter{i}" for i in self.dice.sample(range(self.KEYS), 2)]
        both = "return {redis.call('incr',KEYS[1]),redis.call('incr',KEYS[2])}"
        reply = self.client.call("EVAL", both, 2, *counters)
        assert isinstance(reply, list), reply
        for counter, value in zip(counters, reply):
            self.count(counter, value)

    def set_and_get(self):
        key = f"{self.dice.choice(self.tags)}{self.name}:{self.dice.randrange(self.KEYS)}"
        expect(self.client.call("GET", key), self.values.get(key), key)
        self.version += 1
        self.values[key] = b"%d of " % self.version + key.encode() * self.dice.choice((1, 1, 200))
        expect(self.client.call("SET", key, self.values[key]), "OK", key)
        expect(self.client.call("GET", key), self.values[key], key)

    def read_many(self):
        tags = self.dice.choices(self.tags, k=self.dice.choice((1, 2, 5)))
        keys = [f"{tag}stable{i}" for tag in tags
                for i in self.dice.choices(range(self.KEYS), k=3)]
        expect(self.client.call("MGET", *keys), [key.encode() for key in keys], keys)
        expect(self.client.call("EXISTS", *keys), len(keys), keys)

    def set_many(self):
        self.version += 1
        keys = [f"{tag}{self.name}:{half}" for half in ("left", "right")
                for tag in self.dice.sample(self.tags, 3)]
        words = [word for key in keys for word in (key, self.version)]
        expect(self.client.call("MSET", *words), "OK", keys)
        expect(self.client.call("MGET", *keys), [b"%d" % self.version] * len(keys), keys)

    def pipeline(self):
        key = f"{self.dice.choice(self.tags)}{self.name}"
        length = self.lists.get(key, 0)
        commands = [("SET", key + "p", "")]
        wanted = ["OK"]
        for i in range(10):
            commands += [("RPUSH", key + "list", length + i), ("APPEND", key + "p", i),
                         ("GET", key + "p")]
            wanted += [length + i + 1, i + 1, "".join(map(str, range(i + 1))).encode()]
        expect(self.client.pipeline(commands), wanted, key)
        self.lists[key] = length + 10


class LiveMigration(OwnCluster):
    """All kinds of work on slots that move all the time."""
    LIVE_CLIENTS = 10
    LIVE_MOVES = 140
    LIVE_TAGS = [f"{{{i}}}" for i in range(40)]

    def test_many_slots_move_under_traffic_without_an_error_or_a_lost_increment(self):
        """R-08: while slots moved, clients saw MOVED and increments were lost."""
        stable = [f"{tag}stable{i}" for tag in self.LIVE_TAGS for i in range(Traffic.KEYS)]
        words = [word for key in stable for word in (key, key)]
        self.assertEqual(self.client.call("MSET", *words), "OK")
        traffic = [Traffic(self.connect(2 + i % 2), f"client{i}", self.LIVE_TAGS, i)
                   for i in range(self.LIVE_CLIENTS)]
        before = self.proxy.info()
        with Background() as background:
            for each in traffic:
                background.start(each.run)
            for number in range(self.LIVE_MOVES):
                if background.stopped.is_set():
                    break
                self.mover.move(slot_of(self.LIVE_TAGS[number % len(self.LIVE_TAGS)]), step=3)
        for name in ("moved", "ask"):
            self.assertGreater(self.proxy.counter(name), int(before[name]))
        self.check_increments(traffic)
        self.check_lists(traffic)
        errors = self.proxy.info("errorstats")
        self.assertEqual([code for code in REDIRECTS if f"errorstat_{code}" in errors], [])
        self.check_that_redirects_end(stable)

    def check_increments(self, traffic):
        for tag in self.LIVE_TAGS:
            for counter in (f"{tag}counter{i}" for i in range(Traffic.KEYS)):
                total = sum(each.increments.get(counter, 0) for each in traffic)
                got = self.client.call("GET", counter)
                self.assertEqual(int(got or 0), total, counter)

    def check_lists(self, traffic):
        for each in traffic:
            for key, length in each.lists.items():
                self.assertEqual(self.client.call("LRANGE", key + "list", 0, -1),
                                 [b"%d" % i for i in range(length)], key)


class PipelineClient:
    """Sends random pipelines to the proxy and to an ordinary server, and compares the replies."""
    KEYS = 4

    def __init__(self, client, direct, name, tags, seed):
        self.client, self.direct, self.name, self.tags = client, direct, name, tags
        self.dice = random.Random(seed)

    def key(self, kind, tag=None):
        tag = tag or self.dice.choice(self.tags)
        return f"{tag}{self.name}:{kind}{self.dice.randrange(self.KEYS)}"

    def keys(self, kind, tag=None):
        return [self.key(kind, tag) for _ in range(self.dice.randrange(1, 6))]

    def one_key(self):
        number = self.dice.randrange(1000)
        return self.dice.choice([
            ("SET", self.key("s"), number), ("GET", self.key("s")), ("GETDEL", self.key("s")),
            ("APPEND", self.key("s"), number), ("INCR", self.key("n")), ("DEL", self.key("n")),
            ("RPUSH", self.key("l"), number), ("LPOP", self.key("l")),
            ("LRANGE", self.key("l"), 0, -1), ("SET", self.key("s"), "x" * 20000),
            ("EVAL", "return redis.call('append',KEYS[1],ARGV[1])", 1, self.key("s"), number)])

    def one_slot(self):
        tag = self.dice.choice(self.tags)
        both = "return redis.call('mget',KEYS[1],KEYS[2])"
        return self.dice.choice([
            ("EVAL", both, 2, self.key("s", tag), self.key("s", tag)),
            ("RENAME", self.key("s", tag), self.key("s", tag)),
            ("COPY", self.key("s", tag), self.key("s", tag)),
            ("LMOVE", self.key("l", tag), self.key("l", tag), "LEFT", "RIGHT"),
            ("MSETNX", self.key("s", tag), 1, self.key("s", tag), 2),
            ("SINTER", self.key("e", tag), self.key("e", tag)), *self.split(tag)])

    def split(self, tag=None):
        words = [word for key in self.keys("s", tag) for word in (key, self.dice.randrange(1000))]
        return [("MSET", *words), ("MGET", *self.keys("s", tag)), ("MGET", *self.keys("s", tag)),
                ("DEL", *self.keys("s", tag)), ("UNLINK", *self.keys("l", tag)),
                ("EXISTS", *self.keys("s", tag)), ("TOUCH", *self.keys("l", tag))]

    def run(self):
        commands = []
        for _ in range(self.dice.randrange(1, 100)):
            kind = self.dice.random()
            commands.append(self.one_key() if kind < 0.6 else self.one_slot() if kind < 0.8 else
                            self.dice.choice(self.split()))
        got = self.client.pipeline_raw(commands)
        wanted = self.direct.pipeline_raw(commands)
        for number, command in enumerate(commands):
            expect(got[number], wanted[number], (number, command))


class RandomPipelines(OwnCluster):
    """Random pipelines on slots that move all the time."""
    RANDOM_CLIENTS = 4
    RANDOM_MOVES = 120
    RANDOM_TAGS = ["{t0}", "{t1}", "{t2}", "{t3}"]

    def test_random_pipelines_get_the_replies_of_one_server_while_their_slots_move(self):
        """R-08: while slots moved, commands of one pipeline overtook each other."""
        dice, before = random.Random(88), self.proxy.info()
        with Background() as background:
            for number in range(self.RANDOM_CLIENTS):
                direct = self.plain.connect()
                self.addCleanup(direct.close)
                protocol = 2 + number % 2
                direct.call("HELLO", protocol)
                client = PipelineClient(self.connect(protocol), direct, f"c{number}",
                                        self.RANDOM_TAGS, number)
                background.start(client.run)
            for _ in range(self.RANDOM_MOVES):
                if background.stopped.is_set():
                    break
                self.move_slowly(dice)
        for name in ("moved", "ask", "tryagain"):
            self.assertGreater(self.proxy.counter(name), int(before[name]))

    def move_slowly(self, dice):
        slot = slot_of(dice.choice(self.RANDOM_TAGS))
        self.mover.begin(slot)
        for _ in range(4):
            time.sleep(dice.random() / 100)
            keys = self.mover.keys_left(slot, dice.randrange(1, 6))
            if keys:
                self.mover.move_keys(slot, keys)
        self.mover.finish(slot)


class Reshard(OwnCluster):
    """Five hundred slots go from one master to the next under two hundred clients."""
    CLIENTS = 200
    THREADS = 4
    SLOTS_MOVED = 500

    def test_five_hundred_slots_move_under_two_hundred_clients_and_redirects_end(self):
        """R-08: after a reshard every request was redirected, for ever."""
        keys = keys_of_slots(slots_of_shard(1)[:self.SLOTS_MOVED])
        names = list(keys.values())
        for name in names:
            self.client.call("SET", name, name)
        per_thread = self.CLIENTS // self.THREADS
        with Background() as background:
            for number in range(self.THREADS):
                clients = [self.connect(2 + i % 2) for i in range(per_thread)]
                background.start(self.round_of_all, clients, names, random.Random(number))
            for slot in keys:
                self.mover.move(slot)
                if background.stopped.is_set():
                    break
        clients = [self.connect() for _ in range(4)]
        self.assertLessEqual(self.redirects_of_reading(names, clients), 2 * len(names),
                             "more than one for each slot and each of the two workers")
        self.check_that_redirects_end(names)

    @staticmethod
    def round_of_all(clients, names, dice):
        """Every client has requests under way at the same time."""
        asked = [[dice.choice(names) for _ in range(4)] for _ in clients]
        for client, mine in zip(clients, asked):
            client.send(frames(("GET", mine[0]), ("GET", mine[1]), ("SET", mine[2], mine[2]),
                               ("MGET", *mine)))
        for client, mine in zip(clients, asked):
            wanted = [name.encode() for name in mine]
            got = [client.read() for _ in range(4)]
            expect(got, [wanted[0], wanted[1], "OK", wanted], mine)

    def test_a_moved_slot_costs_at_most_one_redirect_for_each_worker(self):
        """R-08: a redirect was followed but not learnt."""
        slots = list(range(12000, 12040))
        names = list(keys_of_slots(slots).values())
        for name in names:
            self.client.call("SET", name, name)
        for slot in slots:
            self.mover.move(slot)
        clients = [self.connect() for _ in range(4)]
        self.assertLessEqual(self.redirects_of_reading(names, clients * 3), 2 * len(slots))


if __name__ == "__main__":
    unittest.main()

"""Many slots move under traffic: no client sees an error, and nothing is lost or done twice."""
import random
import time
import unittest

from moving import Background, OwnCluster, expect
from support import encode, slot_of
from testbed import call, raw_pipeline

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
    LIVE_CLIENTS = 10
    LIVE_MOVES = 140
    LIVE_TAGS = [f"{{{i}}}" for i in range(40)]

    def test_R_08_many_slots_move_under_traffic_without_an_error_or_a_lost_increment(self):
        stable = [f"{tag}stable{i}" for tag in self.LIVE_TAGS for i in range(Traffic.KEYS)]
        words = [word for key in stable for word in (key, key)]
        self.assertEqual(call(self.client, "MSET", *words), "OK")
        traffic = [Traffic(self.connect(2 + i % 2), f"client{i}", self.LIVE_TAGS, i)
                   for i in range(self.LIVE_CLIENTS)]
        background = Background()
        for each in traffic:
            background.start(each.run)
        try:
            for number in range(self.LIVE_MOVES):
                if background.stopped.is_set():
                    break
                self.mover.move(slot_of(self.LIVE_TAGS[number % len(self.LIVE_TAGS)]), step=3)
        finally:
            background.stop()
        self.assertGreater(self.proxy.counter("moved"), 0)
        self.assertGreater(self.proxy.counter("ask"), 0)
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
        got = raw_pipeline(self.client, commands)
        wanted = raw_pipeline(self.direct, commands)
        for number, command in enumerate(commands):
            expect(got[number], wanted[number], (number, command))


class RandomPipelines(OwnCluster):
    RANDOM_CLIENTS = 4
    RANDOM_MOVES = 120
    RANDOM_TAGS = ["{t0}", "{t1}", "{t2}", "{t3}"]

    def test_R_08_random_pipelines_get_the_replies_of_one_server_while_their_slots_move(self):
        background = Background()
        for number in range(self.RANDOM_CLIENTS):
            direct = self.plain.connect()
            self.addCleanup(direct.close)
            protocol = 2 + number % 2
            direct.call("HELLO", protocol)
            client = PipelineClient(self.connect(protocol), direct, f"c{number}",
                                    self.RANDOM_TAGS, number)
            background.start(client.run)
        dice = random.Random(88)
        try:
            for _ in range(self.RANDOM_MOVES):
                if background.stopped.is_set():
                    break
                self.move_slowly(dice)
        finally:
            background.stop()
        for name in ("moved", "ask", "tryagain"):
            self.assertGreater(self.proxy.counter(name), 0)

    def move_slowly(self, dice):
        slot = slot_of(dice.choice(self.RANDOM_TAGS))
        self.mover.begin(slot)
        for _ in range(4):
            time.sleep(dice.random() / 100)
            keys = self.mover.keys_left(slot, dice.randrange(1, 6))
            if keys:
                self.mover.move_keys(slot, keys)
        self.mover.finish(slot)


class MovingSlotsOnIoUring(LiveMigration, RandomPipelines, unittest.TestCase):
    engine = "io_uring"


class MovingSlotsOnEpoll(LiveMigration, RandomPipelines, unittest.TestCase):
    engine = "epoll"


class Reshard(OwnCluster, unittest.TestCase):
    """Five hundred slots go from the first master to the second under two hundred clients."""
    CLIENTS = 200
    THREADS = 4
    SLOTS_MOVED = 500

    def keys_of_the_first_master(self):
        """A key for each slot to move."""
        keys, number = {}, 0
        while len(keys) < self.SLOTS_MOVED:
            number += 1
            slot = slot_of(str(number))
            if self.mover.owners[slot] is self.mover.nodes[0]:
                keys[slot] = str(number)
        return keys

    def test_R_08_five_hundred_slots_move_under_two_hundred_clients_and_redirects_end(self):
        keys = self.keys_of_the_first_master()
        names = list(keys.values())
        for name in names:
            self.client.call("SET", name, name)
        background = Background()
        per_thread = self.CLIENTS // self.THREADS
        for number in range(self.THREADS):
            clients = [self.connect(2 + i % 2) for i in range(per_thread)]
            background.start(self.round_of_all, clients, names, random.Random(number))
        try:
            for slot in keys:
                self.mover.move(slot)
                if background.stopped.is_set():
                    break
        finally:
            background.stop()
        clients = [self.connect() for _ in range(4)]
        self.assertLessEqual(self.redirects_of_reading(names, clients), 2 * len(names),
                             "more than one for each slot and each of the two workers")
        self.check_that_redirects_end(names)

    @staticmethod
    def round_of_all(clients, names, dice):
        """Every client has requests under way at the same time."""
        asked = [[dice.choice(names) for _ in range(4)] for _ in clients]
        for client, mine in zip(clients, asked):
            client.send(b"".join(encode("GET", name) for name in mine[:2]) +
                        encode("SET", mine[2], mine[2]) + encode("MGET", *mine))
        for client, mine in zip(clients, asked):
            wanted = [name.encode() for name in mine]
            got = [client.read() for _ in range(4)]
            expect(got, [wanted[0], wanted[1], "OK", wanted], mine)

    def test_R_08_a_moved_slot_costs_at_most_one_redirect_for_each_worker(self):
        slots = list(range(12000, 12040))
        names = self.names_in(slots)
        for name in names:
            self.client.call("SET", name, name)
        for slot in slots:
            self.mover.move(slot)
        clients = [self.connect() for _ in range(4)]
        self.assertLessEqual(self.redirects_of_reading(names * 3, clients), 2 * len(slots))

    def names_in(self, slots):
        found, number = {}, 0
        with self.mover.nodes[0].connect() as node:
            while len(found) < len(slots):
                names = [str(i) for i in range(number, number + 20000)]
                answers = node.pipeline([("CLUSTER", "KEYSLOT", name) for name in names])
                found.update((slot, name) for slot, name in zip(answers, names) if slot in slots)
                number += len(names)
        return list(found.values())


if __name__ == "__main__":
    unittest.main()

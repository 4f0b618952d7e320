# SPDX-License-Identifier: Apache-2.0
"""Shared pipes: one connection per node for all workers, changed to and from while clients work."""
import itertools
import random
import subprocess
import threading
import time
import unittest

from support import PATIENT, Cluster, Error, Proxy, encode
from support.load import Load
from support.resp import frames
from support.shared_cluster import OneCluster
from support.wait import wait_until

SHARED = {"backend.sharding": "shared"}
WORKERS = 4


class OrderChecker:
    """A client that is never idle: counts up a key of its own, and checks every answer.

    With `window` requests always under way a reply that is lost, doubled, swapped or out of order
    shows at once, as a number that is not the next one.
    """

    def __init__(self, proxy, name, window):
        self.connection = proxy.connect(timeout=60)
        self.keys, self.window = [f"{name}:{i}" for i in range(3)], window
        self.done, self.wrong, self.running = 0, [], True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _commands(self):
        """INCR and GET of a few keys in turn, with the replies that must come."""
        for count in itertools.count(1):
            for key in self.keys:
                yield encode("INCR", key), count
                yield encode("GET", key), b"%d" % count
            if count % 20 == 0:
                yield encode("MGET", *self.keys), [b"%d" % count] * len(self.keys)

    def _run(self):
        try:
            commands, expected = self._commands(), []
            while self.running:
                batch = list(itertools.islice(commands, self.window - len(expected)))
                self.connection.send(b"".join(request for request, _ in batch))
                expected += [reply for _, reply in batch]
                for wanted in expected[:max(1, self.window // 2)]:
                    got = self.connection.read()
                    if got != wanted:
                        raise AssertionError(f"{got!r} instead of {wanted!r}")
                    self.done += 1
                del expected[:max(1, self.window // 2)]
        except Exception as trouble:  # whatever it is, the test has to show it
            self.wrong.append(f"{type(trouble).__name__}: {trouble}")

    def stop(self):
        self.running = False
        self.thread.join()
        self.connection.close()
        return self.wrong


class SharedPipes(OneCluster):
    def connections_at_nodes(self):
        """How many connections of the proxy each node has."""
        counts = []
        for node in self.cluster.nodes:
            lines = node.call("CLIENT", "LIST").decode().splitlines()
            counts.append(sum("name=penstock" in line for line in lines))
        return counts

    def test_the_whole_process_has_one_connection_to_each_node(self):
        """Nodes had a connection for each worker, hundreds of them with many proxies."""
        for settings, wanted in (({**SHARED, "server.workers": WORKERS}, 1),
                                 ({"backend.sharding": "worker", "server.workers": WORKERS},
                                  WORKERS)):
            with Proxy(self.cluster.seeds, settings) as proxy:
                clients = [proxy.connect() for _ in range(2 * WORKERS)]
                for number, client in enumerate(clients):
                    keys = [f"{{t{i}}}:{number}" for i in range(6)]
                    self.assertEqual(client.pipeline([("SET", key, key) for key in keys]),
                                     ["OK"] * 6)
                    self.assertEqual(client.call("MGET", *keys), [key.encode() for key in keys])
                self.assertEqual(self.connections_at_nodes(), [wanted] * 3)
                for client in clients:
                    client.close()
            wait_until(lambda: self.connections_at_nodes() == [0, 0, 0], what="it to be gone")

    def test_requests_and_replies_of_every_size_pass_between_workers(self):
        """A value that did not fit into the way between two threads stopped everything."""
        proxy = self.start({**SHARED, "server.workers": WORKERS})
        clients = [self.connect(proxy) for _ in range(2 * WORKERS)]
        sizes = [0, 1, 100, 4000, 40_000, 70_000, 300_000, 5_000_000]
        for number, client in enumerate(clients):
            client.call("HELLO", 2 + number % 2)
            values = [random.Random(number).randbytes(size) for size in sizes]
            names = [f"size:{number}:{size}" for size in sizes]
            self.assertEqual(
                client.pipeline([("SET", *pair) for pair in zip(names, values)]),
                ["OK"] * len(sizes))
            self.assertTrue(client.pipeline([("GET", name) for name in names]) == values)
            self.assertTrue(client.call("MGET", *names) == values)
            self.assertEqual(client.call("DEL", *names), len(sizes))
            self.assertIsInstance(client.call("LPUSH", client.call("SET", "text", "x")), Error)

    def test_a_reader_of_large_values_that_stops_reading_does_not_stop_the_others(self):
        """One slow client made the shared connection stand still for everybody."""
        proxy = self.start({**SHARED, "server.workers": WORKERS, "limits.client_output": "64mb",
                            "backend.request_timeout": "60s"})
        self.assertEqual(proxy.call("SET", "big", b"x" * 1_000_000), "OK")
        slow = [self.connect(proxy) for _ in range(WORKERS)]
        for client in slow:
            client.send(frames(*[("GET", "big")] * 40))
        for client in [self.connect(proxy) for _ in range(WORKERS)]:
            for number in range(50):
                self.assertEqual(client.call("SET", "big:other", number), "OK")
        for client in slow:
            for _ in range(40):
                self.assertEqual(len(client.read()), 1_000_000)

    def test_late_replies_of_clients_that_left_go_to_nobody(self):
        """A client got the reply to what a closed connection had asked."""
        proxy = self.start({**SHARED, "server.workers": WORKERS})
        for number in range(60):
            leaving = [proxy.connect() for _ in range(WORKERS)]
            for client in leaving:
                client.send(frames(*[("GET", f"gone:{number}")] * 20))
                client.reset()
            for client in [proxy.connect() for _ in range(WORKERS)]:
                with client:
                    self.assertEqual(client.call("ECHO", number), b"%d" % number)
                    self.assertEqual(client.call("SET", f"stay:{number}", number), "OK")
                    self.assertEqual(client.call("GET", f"stay:{number}"), b"%d" % number)

    def test_a_node_that_hangs_holds_up_who_writes_to_it_and_loses_nothing(self):
        """Requests beyond what a connection could queue were dropped between two threads."""
        with Cluster(3, 0, PATIENT) as cluster:
            settings = {**SHARED, "server.workers": WORKERS, "limits.pipe_queue": "1mb",
                        "backend.request_timeout": "60s"}
            with Proxy(cluster.seeds, settings) as proxy:
                clients = [proxy.connect(timeout=60) for _ in range(2 * WORKERS)]
                for client in clients:
                    self.assertEqual(client.call("SET", "{t0}first", "x"), "OK")
                owner = cluster.owner_of("{t0}")
                owner.pause()
                value = b"v" * 20_000
                senders = [threading.Thread(target=client.send, args=(
                    frames(*[("APPEND", f"{{t0}}{number}", value)] * 300),))
                    for number, client in enumerate(clients)]
                for sender in senders:
                    sender.start()
                wait_until(lambda: proxy.counter("stalled_pipe") > 0, what="somebody to wait")
                owner.resume()
                for sender, client in zip(senders, clients):
                    self.assertEqual([client.read() for _ in range(300)],
                                     [len(value) * (count + 1) for count in range(300)])
                    sender.join()
                    client.close()

    def test_a_shard_that_is_gone_fails_its_own_commands_only(self):
        with Cluster(3, 0, PATIENT) as cluster:
            settings = {**SHARED, "server.workers": WORKERS, "backend.retry_deadline": "500ms"}
            with Proxy(cluster.seeds, settings) as proxy:
                others = [Load(proxy, ("SET", f"{{t1}}{i}", "v"), ("GET", f"{{t1}}{i}"))
                          for i in range(2 * WORKERS)]
                owner = cluster.owner_of("{t0}")
                owner.kill()
                clients = [proxy.connect() for _ in range(WORKERS)]
                for client in clients:
                    reply = client.call("SET", "{t0}x", "v")
                    self.assertIn("No connection", str(reply))
                    self.assertIn(str(owner.port), str(reply))
                for load in others:
                    load.wait_for_more()
                self.assertEqual([error for load in others for error in load.stop()], [])
                for client in clients:
                    client.close()


class Switching(OneCluster):
    def test_changing_the_pipes_thousands_of_times_keeps_every_clients_order(self):
        """Commands of one connection overtook each other when it changed its connections."""
        proxy = self.start({"server.workers": WORKERS})
        checkers = [OrderChecker(proxy, f"order:{i}", window)
                    for i, window in enumerate([1, 1, 1, 2, 5, 20, 60, 200] * 2)]
        deadline = time.monotonic() + 60
        with proxy.connect() as admin:
            modes = itertools.cycle(("shared", "worker"))
            while proxy.counter("sharding_session_switches") < 3000:
                for _ in range(20):
                    self.assertEqual(admin.call("CONFIG", "SET", "backend.sharding", next(modes)),
                                     "OK")
                    time.sleep(0.005)
                self.assertLess(time.monotonic(), deadline, "too few changes")
                self.assertEqual([wrong for each in checkers for wrong in each.wrong], [])
        self.assertEqual([wrong for each in checkers for wrong in each.stop()], [])
        self.assertTrue(all(each.done > 50 for each in checkers))

    def test_a_client_that_is_never_idle_changes_too(self):
        """The client with the most commands stayed where it was for ever."""
        proxy = self.start({"backend.sharding": "worker"})
        checker = OrderChecker(proxy, "busy", 100)
        self.assertEqual(proxy.call("CONFIG", "SET", "backend.sharding", "shared"), "OK")
        wait_until(lambda: "pipes=shared" in self.line_of(proxy, checker), what="the change")
        self.assertEqual(proxy.call("CONFIG", "SET", "backend.sharding", "worker"), "OK")
        wait_until(lambda: "pipes=worker" in self.line_of(proxy, checker), what="the change")
        self.assertEqual(checker.stop(), [])

    @staticmethod
    def line_of(proxy, checker):
        lines = proxy.call("CLIENT", "LIST").decode().splitlines()
        return next(line for line in lines if checker.connection.address in line)


class Auto(OneCluster):
    def test_a_busy_proxy_tries_and_says_what_it_found(self):
        """Nobody could tell which connections were used, and why."""
        proxy = self.start({"backend.sharding": "auto"})
        info = proxy.info("sharding")
        self.assertEqual((info["sharding_mode"], info["sharding_state"]), ("auto", "worker"))
        self.assertEqual(info["sharding_probes"], "0")
        checkers = [OrderChecker(proxy, f"auto:{i}", 100) for i in range(4)]
        load = subprocess.Popen(["redis-benchmark", "-p", str(proxy.port), "-c", "50", "-P", "16",
                                 "-t", "get", "-n", "1000000000", "-r", "1000", "-q"],
                                stdout=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        wait_until(lambda: proxy.log_lines("sharding: "), timeout=60, what="a decision")
        info = proxy.info("sharding")
        self.assertGreaterEqual(int(info["sharding_probes"]), 1)
        self.assertGreaterEqual(int(info["sharding_keeps"]) + int(info["sharding_reverts"]), 1)
        self.assertRegex(info["sharding_last_decision"], r"from=worker,to=\w+,kept=\d,"
                         r"rate_before=\d+,rate_trial=\d+,.*reason=\w+")
        self.assertRegex(proxy.log_lines("sharding: ")[0], r"(not )?keeping \w+ instead of worker: "
                         r".*commands/s")
        self.assertEqual([wrong for each in checkers for wrong in each.stop()], [])

    def test_an_idle_proxy_never_tries(self):
        proxy = self.start({"backend.sharding": "auto"})
        for _ in range(20):
            self.assertEqual(proxy.call("SET", "k", "v"), "OK")
            time.sleep(0.1)
        self.assertEqual(proxy.counter("sharding_probes"), 0)

    def test_config_set_changes_the_mode_and_config_get_shows_it(self):
        proxy = self.start({"backend.sharding": "auto"})
        self.assertEqual(proxy.call("CONFIG", "GET", "backend.sharding"),
                         [b"backend.sharding", b"auto"])
        for mode in ("shared", "worker", "auto"):
            self.assertEqual(proxy.call("CONFIG", "SET", "Backend.Sharding", mode), "OK")
            self.assertEqual(proxy.call("CONFIG", "GET", "backend.sharding")[1], mode.encode())
            self.assertEqual(proxy.info("sharding")["sharding_mode"], mode)
        wrong = proxy.call("CONFIG", "SET", "backend.sharding", "some")
        self.assertIn("must be one of the following: auto, worker, shared", wrong)
        self.assertIn("can't change while the proxy runs",
                      proxy.call("CONFIG", "SET", "server.workers", "3"))
        self.assertIn("Unknown option or number of arguments for CONFIG SET - 'none'",
                      proxy.call("CONFIG", "SET", "none", "3"))
        self.assertIn("syntax error", proxy.call("CONFIG", "SET", "backend.sharding", "auto", "x"))
        self.assertIn("duplicate parameter", proxy.call(
            "CONFIG", "SET", "backend.sharding", "auto", "backend.sharding", "auto"))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What is in the log, how much of it, and where it goes."""
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

from support import Cluster, Error, Proxy, frames, wait_until
from support.shared_cluster import OneCluster
from support.slots import shard_key


class Logging(OneCluster):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="penstock-log-"))
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.log = self.directory / "penstock.log"

    def make_a_log_line(self, proxy):
        """A client that is turned away is worth a line."""
        with proxy.connect() as client:
            client.send(b"*1\r\n$bad\r\n")
            self.assertIsInstance(client.read(), Error)

    def test_after_a_rename_and_SIGUSR1_the_log_goes_on_in_a_new_file(self):
        """O-10: after logrotate the proxy wrote to the old file for ever."""
        proxy = self.start({"log.file": str(self.log)})
        wait_until(lambda: "serves with" in self.log.read_text(), what="the first lines")
        old = self.log.rename(self.directory / "penstock.log.1")
        self.make_a_log_line(proxy)
        wait_until(lambda: "protocol error" in old.read_text(), what="a line in the old file")
        self.assertFalse(self.log.exists())
        proxy.signal(signal.SIGUSR1)
        wait_until(lambda: self.new_lines(proxy) > 0, what="a line in the new file")
        kept = old.read_text()
        lines = self.new_lines(proxy)
        wait_until(lambda: self.new_lines(proxy) > lines, what="another line")
        self.assertEqual(old.read_text(), kept)
        self.assertEqual(proxy.call("PING"), "PONG")

    def new_lines(self, proxy):
        """Gives the proxy something to say; how much is in the log that it writes now."""
        self.make_a_log_line(proxy)
        return self.log.read_text().count("protocol error") if self.log.exists() else 0

    def test_an_existing_log_is_continued_and_not_emptied(self):
        """O-10: a restart threw away the log of the crash before it."""
        self.log.write_text("what was there\n")
        proxy = self.start({"log.file": str(self.log)})
        wait_until(lambda: "serves with" in self.log.read_text(), what="the first lines")
        self.assertTrue(self.log.read_text().startswith("what was there\n"))
        self.assertEqual(proxy.log_text(), "", "nothing goes to standard error then")

    def test_a_full_disk_disturbs_nobody(self):
        """O-10: a full disk stopped the proxy."""
        proxy = self.start({"log.file": "/dev/full", "log.level": "trace"})
        for _ in range(50):
            self.make_a_log_line(proxy)
        self.assertEqual(proxy.call("SET", "a", "1"), "OK")

    def test_closed_standard_streams_disturb_nobody(self):
        """O-10: a daemon without standard streams wrote its log to a client."""
        proxy = self.start({"log.level": "trace"},
                           prefix=("sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-'))
        clients = [proxy.connect() for _ in range(10)]
        for _ in range(20):
            self.make_a_log_line(proxy)
        for client in clients:
            self.assertEqual(client.pipeline([("SET", "a", "1"), ("GET", "a")]), ["OK", b"1"])
            client.close()

    def test_a_flood_of_the_same_trouble_is_a_few_lines_with_a_count(self):
        """O-10: port scans filled the disk with log lines."""
        proxy = self.start()
        for _ in range(300):
            self.make_a_log_line(proxy)
        lines = wait_until(lambda: proxy.log_lines("protocol error"), what="a line")
        self.assertLessEqual(len(lines), 12)
        self.assertEqual(proxy.counter("protocol_errors"), 300, "they are counted all the same")

    def test_an_outage_under_load_is_a_few_lines_that_name_the_node_and_the_cause(self):
        """O-10: an outage filled the disk, and no line said which node was down."""
        batch = frames(*[("SET", shard_key(index), "1") for index in range(3)] * 10)
        with Cluster(3) as cluster, \
                Proxy(cluster.seeds, {"backend.retry_deadline": "1s"}) as proxy:
            clients = [self.connect(proxy) for _ in range(20)]
            port = cluster.nodes[0].port
            for node in cluster.nodes:
                node.kill()
            end = time.monotonic() + 4
            while time.monotonic() < end:
                for client in clients:
                    client.send(batch)
                for client in clients:
                    for _ in range(30):
                        self.assertIsInstance(client.read(), Error)
            text = proxy.log_text()
            self.assertRegex(text, f"127.0.0.1:{port}: .*(refused|closed|reset)")
            self.assertLess(len(text.splitlines()), 100, text)
            for client in clients:
                client.close()

    def test_no_key_no_value_and_no_password_is_ever_in_the_log(self):
        """O-10: keys and passwords of users were in the log."""
        secret = "Xq7secret"
        proxy = self.start({"log.level": "trace", "server.password": f"{secret}-server",
                            "limits.client_query": "64kb"})
        client = proxy.connect()
        client.call("AUTH", f"{secret}-wrong")
        client.call("HELLO", "3", "AUTH", "default", f"{secret}-wrong")
        self.assertEqual(client.call("AUTH", f"{secret}-server"), "OK")
        self.assertEqual(client.call("SET", f"{secret}-key", f"{secret}-value"), "OK")
        for words in (("GET", f"{secret}-key"), ("MGET", f"{secret}-key", f"{secret}-b"),
                      ("INCR", f"{secret}-key"), ("LPUSH", f"{secret}-key", f"{secret}-v"),
                      ("EVAL", f"return redis.call('GET', KEYS[1])..'{secret}'", 1, secret),
                      ("EVAL", f"this is no {secret} script", 0), (f"{secret}-command", secret),
                      ("CONFIG", "SET", "requirepass", secret), ("CLIENT", "SETNAME", secret),
                      ("GET", f"{secret}-key", "too many"), ("CLIENT", secret)):
            client.call(*words)
        for broken in (f"*2\r\n${secret}\r\n", f"*{secret}\r\n", f"GET \"{secret}\r\n",
                       f"*1\r\n+{secret}\r\n", f"POST /{secret} HTTP/1.1\r\n\r\n",
                       f"*2\r\n$3\r\nGET\r\n$200000\r\n{secret}" + "x" * 150000):
            with proxy.connect() as other:
                other.call("AUTH", f"{secret}-server")
                self.be_turned_away(other, broken.encode())
        refused = Proxy(self.cluster.seeds, {"log.level": "trace", "cluster.username": "default",
                                             "cluster.password": f"{secret}-cluster"}, wait=False)
        wait_until(refused.answers_ping, what="PING to be answered")
        refused.call("SET", f"{secret}-key", f"{secret}-value")
        refused.stop_cleanly()
        client.close()
        proxy.stop_cleanly()
        for text in (proxy.log_text(), refused.log_text()):
            self.assertGreater(len(text), 100)
            self.assertNotIn(secret, text)

    @staticmethod
    def be_turned_away(client, data):
        try:
            client.send(data)
        except ConnectionError:  # closed before it took everything
            pass
        client.read_rest()


if __name__ == "__main__":
    unittest.main()

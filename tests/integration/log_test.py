"""What is in the log, how much of it, and where it goes."""
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

from faults import answers_ping, shard_key
from shared_cluster import OneCluster, try_to_connect
from support import Cluster, Error, Proxy, encode, wait_until


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

    def test_O_10_after_a_rename_and_SIGUSR1_the_log_goes_on_in_a_new_file(self):
        proxy = self.start({"log.file": str(self.log)})
        wait_until(lambda: self.log.exists() and "serves with" in self.log.read_text())
        old = self.log.rename(self.directory / "penstock.log.1")
        self.make_a_log_line(proxy)
        wait_until(lambda: "protocol error" in old.read_text(), what="a line in the old file")
        self.assertFalse(self.log.exists())
        kept = old.read_text()
        proxy.signal(signal.SIGUSR1)
        time.sleep(0.3)
        self.make_a_log_line(proxy)
        wait_until(lambda: self.log.exists() and "protocol error" in self.log.read_text(),
                   what="a line in the new file")
        self.assertEqual(old.read_text(), kept)
        self.assertEqual(proxy.call("PING"), "PONG")

    def test_O_10_an_existing_log_is_continued_and_not_emptied(self):
        self.log.write_text("what was there\n")
        proxy = self.start({"log.file": str(self.log)})
        wait_until(lambda: "serves with" in self.log.read_text())
        self.assertTrue(self.log.read_text().startswith("what was there\n"))
        self.assertEqual(proxy.log_text(), "", "nothing goes to standard error then")

    def test_O_10_a_full_disk_disturbs_nobody(self):
        proxy = self.start({"log.file": "/dev/full", "log.level": "trace"})
        for _ in range(50):
            self.make_a_log_line(proxy)
        self.assertEqual(proxy.call("SET", "a", "1"), "OK")

    def test_O_10_closed_standard_streams_disturb_nobody(self):
        for engine in ("auto", "epoll"):
            with self.subTest(engine=engine):
                proxy = self.start({"log.level": "trace", "io.engine": engine},
                                   prefix=("sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-'))
                clients = [proxy.connect() for _ in range(10)]
                for _ in range(20):
                    self.make_a_log_line(proxy)
                for client in clients:
                    self.assertEqual(client.pipeline([("SET", "a", "1"), ("GET", "a")]),
                                     ["OK", b"1"])
                    client.close()

    def test_O_10_a_flood_of_the_same_trouble_is_a_few_lines_with_a_count(self):
        proxy = self.start()
        for _ in range(300):
            self.make_a_log_line(proxy)
        lines = [line for line in proxy.log_text().splitlines() if "protocol error" in line]
        self.assertGreater(len(lines), 0)
        self.assertLessEqual(len(lines), 12)
        self.assertEqual(proxy.counter("protocol_errors"), 300, "they are counted all the same")

    def test_O_10_an_outage_under_load_is_a_few_lines_that_name_the_node_and_the_cause(self):
        with Cluster(3) as cluster:
            proxy = Proxy(cluster.seeds, {"backend.retry_deadline": "1s"})
            self.addCleanup(self.check_end, proxy)
            clients = [proxy.connect(60) for _ in range(20)]
            port = cluster.nodes[0].port
            for node in cluster.nodes:
                node.kill()
            end = time.monotonic() + 5
            while time.monotonic() < end:
                for client in clients:
                    client.send(b"".join(encode("SET", shard_key(i), "1") for i in range(3)) * 10)
                for client in clients:
                    for _ in range(30):
                        self.assertIsInstance(client.read(), Error)
            for client in clients:
                client.close()
            text = proxy.log_text()
            self.assertRegex(text, f"127.0.0.1:{port}: .*(refused|closed|reset)")
            self.assertLess(len(text.splitlines()), 100, text)

    def test_O_10_no_key_no_value_and_no_password_is_ever_in_the_log(self):
        secret = "Xq7secret"
        proxy = self.start({"log.level": "trace", "server.password": f"{secret}-server",
                            "limits.client_query": "64kb"}, wait=False)
        client = wait_until(lambda: try_to_connect(proxy), what="the proxy to listen")
        client.call("AUTH", f"{secret}-wrong")
        client.call("HELLO", "3", "AUTH", "default", f"{secret}-wrong")
        self.assertEqual(client.call("AUTH", f"{secret}-server"), "OK")
        wait_until(lambda: client.call("SET", f"{secret}-key", f"{secret}-value") == "OK")
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
                self.send_and_wait(other, broken.encode())
        refused = Proxy(self.cluster.seeds, {"log.level": "trace", "cluster.username": "default",
                                             "cluster.password": f"{secret}-cluster"}, wait=False)
        wait_until(lambda: answers_ping(refused))
        refused.call("SET", f"{secret}-key", f"{secret}-value")
        refused.stop()
        client.close()
        self.assertEqual(proxy.stop(), 0)
        for text in (proxy.log_text(), refused.log_text()):
            self.assertGreater(len(text), 100)
            self.assertNotIn(secret, text)

    @staticmethod
    def send_and_wait(client, data):
        try:
            client.send(data)
            client.socket.settimeout(0.5)
            client.at_end()
        except OSError:
            pass


if __name__ == "__main__":
    unittest.main()

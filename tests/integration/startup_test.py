# SPDX-License-Identifier: Apache-2.0
"""How the proxy starts: flags, configuration errors, where it listens, the event loop."""
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import tomllib
import unittest

from support import Connection, Proxy, wait_until
from support.ports import free_port, free_ports
from support.proxy import BINARY
from support.shared_cluster import OneCluster
from support.slots import shard_key

WITHOUT_IO_URING = (sys.executable,
                    str(pathlib.Path(__file__).resolve().parent / "support/refuse_io_uring.py"))


def run(*arguments, prefix=(), timeout=60):
    """Runs the program to its end; its status and both outputs."""
    return subprocess.run([*prefix, BINARY, *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)


class WithDirectory(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="penstock-start-"))
        self.addCleanup(shutil.rmtree, self.directory, True)

    def write(self, text, name="penstock.toml"):
        path = self.directory / name
        path.write_text(text)
        return str(path)


class Flags(WithDirectory):
    def test_the_version_is_one_line_with_the_name(self):
        """A packager's script could not read the version."""
        result = run("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\Apenstock \d+\.\d+\.\d+\S*\n\Z")

    def test_the_help_names_every_flag(self):
        """A flag could only be found in the source."""
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for flag in ("--config", "-c", "--set", "--check-config", "--print-config", "--version"):
            self.assertIn(flag, result.stdout)

    def test_a_flag_that_does_not_exist_is_named_and_nothing_starts(self):
        """A mistyped flag was ignored."""
        for arguments in (("--nosuch",), ("extra",), ("-c",), ("--set",)):
            with self.subTest(arguments=arguments):
                result = run(*arguments)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(arguments[0].lstrip("-")[:1], result.stderr)

    def test_the_printed_configuration_can_be_used_as_a_configuration(self):
        """What --print-config printed could not be used."""
        printed = run("--print-config", "--set", "server.workers=3", "--set", "io.engine=epoll",
                      "--set", 'server.listen=["127.0.0.1:7000", "unix:/tmp/a b.sock"]')
        self.assertEqual(printed.returncode, 0, printed.stderr)
        values = tomllib.loads(printed.stdout)
        self.assertEqual(values["server"]["workers"], 3)
        self.assertEqual(values["io"]["engine"], "epoll")
        self.assertEqual(values["server"]["listen"], ["127.0.0.1:7000", "unix:/tmp/a b.sock"])
        for section in ("server", "io", "cluster", "backend", "reply_cache", "limits", "log"):
            self.assertIn(section, values)
        path = self.write(printed.stdout)
        self.assertEqual(run("-c", path, "--print-config").stdout, printed.stdout)
        self.assertEqual(run("-c", path, "--check-config").returncode, 0)

    def test_the_defaults_are_a_good_configuration(self):
        """The shipped configuration was refused."""
        path = self.write(run("--print-config").stdout)
        self.assertEqual(run("-c", path, "--check-config").returncode, 0)
        self.assertEqual(run("--check-config").returncode, 0)

    def test_an_override_beats_the_file_and_the_last_override_beats_the_others(self):
        """An override had no effect because the file said otherwise."""
        path = self.write('[server]\nworkers = 2\n[log]\nlevel = "debug"\n')
        result = run("-c", path, "--print-config", "--set", "server.workers=4", "--set",
                     "server.workers=5", "--set", "backend.connect_timeout=250ms")
        values = tomllib.loads(result.stdout)
        self.assertEqual(values["server"]["workers"], 5)
        self.assertEqual(values["log"]["level"], "debug")
        self.assertEqual(values["backend"]["connect_timeout"], "250ms")

    def test_a_password_of_digits_is_a_text_and_is_not_shown(self):
        """A password of digits was refused, and shown by --print-config."""
        result = run("--print-config", "--set", "server.password=9753124680")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('password = ""  # set, not shown', result.stdout)
        self.assertNotIn("9753124680", result.stdout)


# What the file says; the line that is wrong; the key; what the message says is allowed.
MISTAKES = (
    ('[server]\nlistne = ["127.0.0.1:7000"]\n', 2, "server.listne", "server.listen"),
    ('[server]\nthreads = 4\n', 2, "server.threads", "workers"),
    ('[sever]\nworkers = 4\n', 2, "sever.workers", "server.workers"),
    ('[nosuch]\nkey = 4\n', 2, "nosuch.key", "server, io, cluster"),
    ('\n[nosuch]\n', 2, "nosuch", "server, io, cluster"),
    ('workers = 4\n', 1, "workers", "section"),
    ('[server]\n\nworkers = -1\n', 3, "server.workers", "from 0 to 256"),
    ('[server]\nworkers = 257\n', 2, "server.workers", "from 0 to 256"),
    ('[server]\nworkers = "4"\n', 2, "server.workers", "a whole number"),
    ('[server]\nworkers = 4.5\n', 2, "server.workers", "a whole number"),
    ('[server]\npin_workers = 1\n', 2, "server.pin_workers", "true or false"),
    ('[server]\nlisten = "127.0.0.1:7000"\n', 2, "server.listen", "a list"),
    ('[server]\nlisten = []\n', 2, "server.listen", "a list"),
    ('[server]\nlisten = [7000]\n', 2, "server.listen", "a list"),
    ('[server]\nworkers = 1\nlisten = ["localhost"]\n', 3, "server.listen", "host:port"),
    ('[server]\nlisten = ["127.0.0.1:70000"]\n', 2, "server.listen", "host:port"),
    ('[server]\nlisten = ["[::1:7000"]\n', 2, "server.listen", "host:port"),
    (f'[server]\nlisten = ["unix:/{"x" * 200}"]\n', 2, "server.listen", "paths up to"),
    ('[server]\npassword = 1234\n', 2, "server.password", "a text"),
    ('[server]\nidle_timeout = 30\n', 2, "server.idle_timeout", "a duration with a unit"),
    ('[server]\nidle_timeout = "30"\n', 2, "server.idle_timeout", "us, ms, s, m, h"),
    ('[server]\nannounce = "proxy"\n', 2, "server.announce", "host:port"),
    ('[io]\nengine = "kqueue"\n', 2, "io.engine", '"auto" "io_uring" "epoll"'),
    ('[cluster]\nseeds = ["10.0.0.1"]\n', 2, "cluster.seeds", "host:port"),
    ('[cluster]\nseeds = ["::1"]\n', 2, "cluster.seeds", "[ipv6]:port"),
    ('[cluster]\nseeds = ["10.0.0.1:0"]\n', 2, "cluster.seeds", "host:port"),
    ('[cluster]\nrefresh_interval = "1ms"\n', 2, "cluster.refresh_interval", '"100ms"'),
    ('[backend]\nsharding = "some"\n', 2, "backend.sharding", '"worker"'),
    ('[backend]\nclient_name = "a b"\n', 2, "backend.client_name", "space"),
    ('[backend]\nconnections_per_node = 0\n', 2, "backend.connections_per_node", "from 1 to"),
    ('[reply_cache]\ntracking = "optout"\n', 2, "reply_cache.tracking", 'one of "broadcast"'),
    ('[limits]\nclient_output = "1tb"\n', 2, "limits.client_output", "b, kb, mb, gb"),
    ('[limits]\nclient_output = "1kb"\n', 2, "limits.client_output", '"64kb"'),
    ('[limits]\nmemory = 1000\n', 2, "limits.memory", "a size with a unit"),
    ('[log]\nlevel = "loud"\n', 2, "log.level", '"info"'),
    ('[server]\nworkers = 1\nworkers = 2\n', 3, "workers", "redefine"),
    ('[server]\n[io\n', 2, "", "]"),
    ('[server]\nlisten = ["a:1"\n\n\nworkers = 1\n', 5, "", ""),
)


class ConfigurationErrors(WithDirectory):
    def check(self, result, *parts):
        """One line on standard error that has all the parts; nothing on standard output."""
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("penstock: "), result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_mistake_names_the_file_the_line_the_key_and_what_is_allowed(self):
        """A mistyped key was ignored, or "invalid configuration" was all it said."""
        for text, line, key, allowed in MISTAKES:
            with self.subTest(text=text):
                path = self.write(text)
                self.check(run("-c", path, "--check-config"), f"{path}:{line}: ", key, allowed)

    def test_a_mistake_ends_the_start_and_not_only_the_check(self):
        """The proxy started with a configuration that it had not understood."""
        path = self.write('[server]\nworkers = 1000\n')
        self.check(run("-c", path), f"{path}:2: ", "server.workers", "from 0 to 256")

    def test_a_mistake_in_an_override_names_the_key_and_what_is_allowed(self):
        """A mistyped override was ignored."""
        for override, key, allowed in (
                ("server.workers=1000", "server.workers", "from 0 to 256"),
                ("server.wrokers=1", "server.wrokers", "did you mean server.workers"),
                ("io.engine=kqueue", "io.engine", "epoll"),
                ("server.workers", "server.workers", "key=value"),
                ('server.listen=["localhost"]', "server.listen", "host:port"),
                ("cluster.seeds=127.0.0.1:7000", "cluster.seeds", "a list"),
                ("limits.memory=lots", "limits.memory", "a size with a unit")):
            with self.subTest(override=override):
                self.check(run("--set", override, "--check-config"), "--set", key, allowed)

    def test_a_file_that_cannot_be_read_is_named(self):
        """The proxy started with its defaults because its file could not be read."""
        for path in (str(self.directory / "nosuch.toml"), str(self.directory)):
            with self.subTest(path=path):
                self.check(run("-c", path, "--check-config"), path, "cannot be read")

    def test_a_log_that_cannot_be_written_is_named(self):
        """The proxy ran without a log because the file could not be opened."""
        blocked = self.write("not a directory", "blocked")
        result = run("--set", f"log.file={blocked}/penstock.log", "--set",
                     'server.listen=["127.0.0.1:0"]')
        self.check(result, f"{blocked}/penstock.log")


class Listening(OneCluster, WithDirectory):
    def check_refused(self, listen, reason):
        """The start fails with a reason, and no address is left half open."""
        command = ["--set", f"server.listen={listen}".replace("'", '"')]
        command += ["--set", f"cluster.seeds={self.cluster.seeds}".replace("'", '"')]
        result = run(*command)
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stderr, f"penstock: cannot listen on .*{reason}")

    def test_a_port_in_use_is_a_clear_error_and_no_half_started_daemon(self):
        """O-12: a daemon whose port was taken went on running without it."""
        free = f"127.0.0.1:{free_port()}"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            busy = f"127.0.0.1:{taken.getsockname()[1]}"
            self.check_refused([busy], f"{busy}: Address already in use")
            self.check_refused([free, busy], f"{busy}: Address already in use")
        with self.assertRaises(OSError):
            Connection(int(free.split(":")[1]))

    def test_an_address_that_is_not_here_is_a_clear_error(self):
        """O-12: one bad address in the list was skipped without a word."""
        self.check_refused(["192.0.2.1:7000"], "192.0.2.1:7000: Cannot assign")
        self.check_refused(["no-such-host.invalid:7000"], "no-such-host.invalid:7000: ")
        self.check_refused([f"unix:{self.directory}/nosuch/penstock.sock"], "No such file")

    def test_two_proxies_cannot_share_a_port(self):
        """O-12: a second proxy on the same port took half of the clients."""
        with Proxy(self.cluster.seeds) as proxy:
            self.check_refused([f"127.0.0.1:{proxy.port}"], "Address already in use")
            self.assertEqual(proxy.call("PING"), "PONG")

    def test_ipv4_ipv6_and_unix_listeners_serve_the_same_keys(self):
        """O-12: a client could not connect by IPv6 or by the unix socket."""
        port, other = free_ports(2)
        path = self.directory / "penstock.sock"
        listen = [f"0.0.0.0:{port}", f"[::]:{port}", f"[::1]:{other}", f"unix:{path}"]
        if not self.has_ipv6():
            self.skipTest("this machine has no IPv6 loopback")
        proxy = Proxy(self.cluster.seeds, {"server.listen": listen}, wait=False)
        proxy.port = port
        with proxy:
            wait_until(lambda: path.exists() and proxy.is_alive(), what="the listeners")
            clients = [Connection(port), Connection(port, "::1"), Connection(other, "::1"),
                       Connection(0, path=str(path))]
            wait_until(lambda: clients[0].call("SET", "a", "0") == "OK")
            for number, client in enumerate(clients, 1):
                self.assertEqual(client.call("INCR", "a"), number)
                self.assertIn(b"laddr=", client.call("CLIENT", "INFO"))
                self.assertIsInstance(client.call("CLUSTER", "SLOTS"), list)
                client.close()

    @staticmethod
    def has_ipv6():
        try:
            with socket.create_server(("::1", 0), family=socket.AF_INET6):
                return True
        except OSError:
            return False

    def test_a_unix_socket_is_removed_at_the_end_and_a_stale_one_does_not_stop_the_start(self):
        """O-12: after a crash the proxy did not start because of its old socket."""
        path = self.directory / "penstock.sock"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        for signal_number in (9, 15):
            proxy = Proxy(self.cluster.seeds, {"server.listen": [f"unix:{path}"]}, wait=False)
            wait_until(lambda: self.answers(path) or not proxy.is_alive(), what="the socket")
            self.assertTrue(proxy.is_alive(), proxy.log_text())
            proxy.signal(signal_number)
            proxy.process.wait(20)
            self.assertEqual(path.exists(), signal_number == 9)

    def test_a_unix_socket_in_use_or_another_file_is_not_taken_over(self):
        """O-12: a second proxy took the socket, or a file, away."""
        path = self.directory / "penstock.sock"
        with Proxy(self.cluster.seeds, {"server.listen": [f"unix:{path}"]}, wait=False) as proxy:
            wait_until(lambda: self.answers(path), what="the socket")
            self.check_refused([f"unix:{path}"], "Address already in use")
            self.assertTrue(self.answers(path))
            self.assertTrue(proxy.is_alive())
        path.write_text("precious")
        self.check_refused([f"unix:{path}"], "Address already in use")
        self.assertEqual(path.read_text(), "precious")

    @staticmethod
    def answers(path):
        try:
            with Connection(0, path=str(path)) as client:
                return client.call("PING") == "PONG"
        except OSError:
            return False

    def test_a_busy_second_listener_leaves_no_unix_socket_behind(self):
        """O-12: a start that failed left a socket behind."""
        path = self.directory / "penstock.sock"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            busy = f"127.0.0.1:{taken.getsockname()[1]}"
            self.check_refused([f"unix:{path}", busy], "Address already in use")
        self.assertFalse(path.exists() and stat.S_ISSOCK(os.stat(path).st_mode))

    def test_a_proxy_that_says_it_is_ready_serves(self):
        """The first clients after a start got errors although it had said it was ready."""
        for _ in range(15):
            with Proxy(self.cluster.seeds, wait=False) as proxy:
                clients = wait_until(lambda: self.connect(proxy, 6), step=0.001)
                while b"cluster_state:ok" not in clients[0].call("CLUSTER", "INFO"):
                    self.assertTrue(proxy.is_alive())
                for index, client in enumerate(clients):
                    self.assertEqual(client.call("SET", shard_key(index % 3), "1"), "OK")
                    client.close()

    @staticmethod
    def connect(proxy, count):
        try:
            return [proxy.connect() for _ in range(count)]
        except OSError:
            return None


class EventLoop(OneCluster):
    def check_serves(self, proxy):
        with proxy.connect() as client:
            for index in range(3):
                key = shard_key(index)
                self.assertEqual(client.pipeline([("SET", key, "1"), ("GET", key)]), ["OK", b"1"])

    def test_auto_serves_with_epoll_where_io_uring_is_refused_and_says_so_once(self):
        """In a container, where io_uring is blocked, the proxy did not start."""
        with Proxy(self.cluster.seeds, {"io.engine": "auto"}, prefix=WITHOUT_IO_URING) as proxy:
            self.check_serves(proxy)
            info = proxy.info("workers")
            self.assertEqual(info["io_engine"], "epoll")
            self.assertIn("Operation not permitted", info["io_engine_fallback"])
            self.assertIn("seccomp", info["io_engine_fallback"])
            self.assertEqual(proxy.info("server")["multiplexing_api"], "epoll")
            lines = [line for line in proxy.log_text().splitlines() if "io_uring" in line]
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("epoll", lines[0])
            self.assertIn("Operation not permitted", lines[0])

    def test_io_uring_that_was_asked_for_and_is_refused_is_a_clear_error_at_start(self):
        """io_uring had been asked for, and silently something else was used."""
        result = run("--set", "io.engine=io_uring", "--set", 'server.listen=["127.0.0.1:0"]',
                     prefix=WITHOUT_IO_URING)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("penstock: io.engine = io_uring cannot be used", result.stderr)
        self.assertIn("Operation not permitted", result.stderr)
        self.assertIn("seccomp", result.stderr, "it says what to do")

    def test_epoll_that_was_asked_for_is_no_fallback(self):
        """epoll had been asked for, and the log complained about io_uring."""
        with Proxy(self.cluster.seeds, {"io.engine": "epoll"}, prefix=WITHOUT_IO_URING) as proxy:
            self.check_serves(proxy)
            info = proxy.info("workers")
            self.assertEqual((info["io_engine"], info["io_engine_fallback"]), ("epoll", ""))
            self.assertNotIn("io_uring", proxy.log_text())

    def test_each_engine_serves_and_is_shown(self):
        """Nobody could tell which event loop was used."""
        for engine in ("io_uring", "epoll"):
            with self.subTest(engine=engine):
                if engine == "io_uring" and not self.io_uring_works():
                    self.skipTest("io_uring is refused on this machine")
                with Proxy(self.cluster.seeds, {"io.engine": engine}) as proxy:
                    self.check_serves(proxy)
                    self.assertEqual(proxy.info("workers")["io_engine"], engine)

    def io_uring_works(self):
        with Proxy(self.cluster.seeds, {"io.engine": "auto"}) as proxy:
            return proxy.info("workers")["io_engine"] == "io_uring"


if __name__ == "__main__":
    unittest.main()

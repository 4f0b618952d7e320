# SPDX-License-Identifier: Apache-2.0
"""The proxy under test, as a process."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from .ports import free_port
from .resp import Connection
from .wait import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("PENSTOCK", str(ROOT / "build/release/penstock"))
# Options that a whole run of the suite is made with, e.g. io.engine=epoll.
COMMON = os.environ.get("PENSTOCK_SET", "").split()

# No refresh of the map but those that trouble or a redirect asks for.
QUIET = {"cluster.refresh_interval": "1h"}


def is_sanitized():
    """Whether the program was built with a sanitizer, whose memory is not the program's."""
    libraries = subprocess.run(["ldd", BINARY], capture_output=True, text=True).stdout
    return any(name in libraries for name in ("libasan", "libtsan", "libubsan"))


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


class Proxy:
    """Penstock in front of `seeds`. Settings are given as in `{"io.engine": "epoll"}`."""

    def __init__(self, seeds, settings=None, wait=True, prefix=()):
        self.port = free_port()
        settings = {"server.listen": [f"127.0.0.1:{self.port}"], "cluster.seeds": list(seeds),
                    "server.workers": 2, **(settings or {})}
        self.password = settings.get("server.password")
        self.log = tempfile.NamedTemporaryFile(prefix="penstock-log-", suffix=".txt")
        assignments = COMMON + [f"{key}={toml(value)}" for key, value in settings.items()]
        command = [*prefix, BINARY]
        for assignment in assignments:
            command += ["--set", assignment]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        if wait:
            self.wait_ready()

    def wait_ready(self, **where):
        """Until it says that it knows its cluster."""
        try:
            wait_until(lambda: self.is_ready(**where), what="the proxy to serve")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def is_ready(self, **where):
        assert self.is_alive(), self.log_text()
        try:
            with Connection(**{"port": self.port, **where}) as connection:
                if self.password:
                    connection.call("AUTH", self.password)
                return b"cluster_state:ok" in connection.call("CLUSTER", "INFO")
        except OSError:
            return False

    def answers_ping(self):
        """Also before the cluster is known."""
        try:
            return self.call("PING") == "PONG"
        except OSError:
            return False

    def try_to_connect(self):
        """A connection, or None while it does not listen."""
        try:
            return self.connect()
        except OSError:
            return None

    def connect(self, timeout=30.0):
        return Connection(self.port, timeout=timeout)

    def call(self, *words):
        with self.connect() as connection:
            return connection.call(*words)

    def info(self, section="everything"):
        """INFO as a dictionary of texts."""
        lines = self.call("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def counter(self, name):
        return int(self.info()[name])

    def cluster_state(self):
        lines = self.call("CLUSTER", "INFO").decode().splitlines()
        return dict(line.split(":", 1) for line in lines)["cluster_state"]

    def nodes(self):
        """What INFO tells about each node, as dictionaries of texts."""
        out = []
        for name, text in self.info("backends").items():
            if name.startswith("node"):
                facts, _, trouble = text.partition(",trouble=")
                out.append(dict(fact.split("=", 1) for fact in facts.split(",")))
                out[-1]["trouble"] = trouble
        return out

    def in_flight(self):
        """Requests that wait for a node, over all of them."""
        return sum(int(node["in_flight"]) for node in self.nodes())

    def calls(self, command):
        """How often clients have called a command."""
        text = self.info().get(f"cmdstat_{command}", "calls=0,")
        return int(text.split("calls=")[1].split(",")[0])

    def wait_for_clients(self, count):
        """Until this many clients are connected, besides the one that asks."""
        wait_until(lambda: self.counter("connected_clients") == count + 1,
                   what=f"{count} clients to be left")

    @property
    def rss(self):
        """Resident bytes."""
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the proxy is gone")

    @property
    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_alive(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def log_text(self):
        return pathlib.Path(self.log.name).read_text()

    def log_lines(self, text):
        """The lines of the log that have this text."""
        return [line for line in self.log_text().splitlines() if text in line]

    def stop(self, timeout=20.0):
        """Ends it with SIGTERM; returns the exit status."""
        if self.is_alive():
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def stop_cleanly(self):
        """Ends it; a crash, a leak or a hang fails the test."""
        status = self.stop()
        assert status == 0, f"exit status {status}\n{self.log_text()[-4000:]}"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop_cleanly()
        else:
            self.stop()

"""The proxy under test, as a process."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from .cluster import free_ports
from .resp import Connection
from .wait import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("PENSTOCK", str(ROOT / "build/release/penstock"))
# Options that a whole run of the suite is made with, e.g. io.engine=epoll.
COMMON = os.environ.get("PENSTOCK_SET", "").split()


class Proxy:
    """Penstock in front of `seeds`. Settings are given as in `{"io.engine": "epoll"}`."""

    def __init__(self, seeds, settings=None, wait=True, binary=BINARY, prefix=()):
        self.port = free_ports(1)[0]
        self.settings = {"server.listen": [f"127.0.0.1:{self.port}"], "cluster.seeds": list(seeds),
                         "server.workers": 2}
        self.settings.update(settings or {})
        self.log = tempfile.NamedTemporaryFile(prefix="penstock-log-", suffix=".txt")
        command = list(prefix) + [binary]
        for assignment in COMMON:
            command += ["--set", assignment]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={self._toml(value)}"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        if wait:
            wait_until(self._serves, what="the proxy to serve")

    @staticmethod
    def _toml(value):
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value)

    def _serves(self):
        assert self.process.poll() is None, self.log_text()
        try:
            info = self.call("CLUSTER", "INFO")
        except OSError:
            return False
        return b"cluster_state:ok" in info

    def log_text(self):
        return pathlib.Path(self.log.name).read_text()

    def connect(self, timeout=15.0):
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

    def stop(self, timeout=20.0):
        """Ends it with SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.log.flush()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.stop()
        if kind is None:
            assert status == 0, f"exit status {status}\n{self.log_text()[-4000:]}"

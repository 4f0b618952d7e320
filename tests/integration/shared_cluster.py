"""Tests that share one cluster and start proxies of their own."""
import subprocess
import unittest

from faults import PARTIAL
from support import Cluster, Proxy, wait_until
from support.proxy import BINARY


def is_sanitized():
    """Whether the program was built with a sanitizer, whose memory is not the program's."""
    libraries = subprocess.run(["ldd", BINARY], capture_output=True, text=True).stdout
    return any(name in libraries for name in ("libasan", "libtsan", "libubsan"))


def try_to_connect(proxy):
    """A connection, or None while the proxy does not listen."""
    try:
        return proxy.connect()
    except OSError:
        return None


class OneCluster(unittest.TestCase):
    """All tests of this module share a cluster."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3, 0, PARTIAL)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def start(self, settings=None, **options):
        """A proxy that ends with the test, with status 0 unless the test ended it itself."""
        proxy = Proxy(self.cluster.seeds, settings, **options)
        self.addCleanup(self.check_end, proxy)
        return proxy

    def check_end(self, proxy):
        self.assertEqual(proxy.stop(), 0, proxy.log_text()[-4000:])

    def wait_for_clients(self, proxy, count):
        """Until this many clients are connected, besides the one that asks."""
        wait_until(lambda: proxy.counter("connected_clients") == count + 1,
                   what=f"{count} clients to be left")

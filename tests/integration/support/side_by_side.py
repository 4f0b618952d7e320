# SPDX-License-Identifier: Apache-2.0
"""The same bytes to the proxy and to one real node that owns every slot, and what each answered."""
import time
import unittest

from .cluster import Cluster
from .proxy import Proxy
from .resp import Connection, encode

PASSWORD = "open-sesame-4711"
TOKEN = b"the-end-of-this-conversation"
END = b"$%d\r\n%s\r\n" % (len(TOKEN), TOKEN)


def inline(*lines):
    return b"".join(line + b"\r\n" for line in lines)


def conversation(port, *pieces, pause=0.0, timeout=30.0):
    """All replies to `pieces`, each sent by itself, on a connection that must stay open."""
    with Connection(port, timeout=timeout) as connection:
        for piece in pieces:
            connection.send(piece)
            if pause:
                time.sleep(pause)
        connection.send(encode("ECHO", TOKEN))
        return connection.read_until(END)[:-len(END)]


def last_words(port, data, timeout=30.0):
    """What comes back before the peer closes; a TimeoutError when it does not close."""
    with Connection(port, timeout=timeout) as connection:
        try:
            connection.send(data)
        except ConnectionError:  # closed before it took everything
            pass
        return connection.read_rest()


class SideBySide:
    """A cluster behind the proxy, and beside them a node that is a cluster by itself.

    Lives as long as the test module that makes it in setUpModule().
    """

    def __init__(self, cluster=None, password="", settings=None):
        self.cluster = cluster or self._with_module(Cluster(3))
        options = ["--requirepass", password] if password else []
        self.alone = self._with_module(Cluster(1, options=options))
        self.node = self.alone.nodes[0]
        self.proxy = Proxy(self.cluster.seeds, {"server.password": password, **(settings or {})})
        unittest.addModuleCleanup(self.proxy.stop_cleanly)

    @staticmethod
    def _with_module(cluster):
        unittest.addModuleCleanup(cluster.stop)
        return cluster

    def ports(self):
        return self.node.port, self.proxy.port

    def flush(self):
        self.cluster.flush()
        self.node.call("FLUSHALL")

    def assert_same(self, test, *pieces, pause=0.0):
        """Both answer alike and keep the connection; returns the answer."""
        expected, actual = [conversation(port, *pieces, pause=pause) for port in self.ports()]
        test.assertEqual(expected, actual, b"".join(pieces)[:200])
        return actual

    def assert_same_last_words(self, test, data):
        """Both answer alike and close; returns the answer."""
        expected, actual = [last_words(port, data) for port in self.ports()]
        test.assertEqual(expected, actual, data[:200])
        return actual

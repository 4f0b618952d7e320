# SPDX-License-Identifier: Apache-2.0
"""Tests that share a cluster and start proxies of their own."""
import unittest

from .cluster import PATIENT, Cluster
from .proxy import Proxy

_clusters = {}


class OneCluster(unittest.TestCase):
    """All tests of a module share a cluster of three masters."""

    @classmethod
    def setUpClass(cls):
        if cls.__module__ not in _clusters:
            cluster = _clusters[cls.__module__] = Cluster(3, 0, PATIENT)
            unittest.addModuleCleanup(cluster.stop)
        cls.cluster = _clusters[cls.__module__]

    def start(self, settings=None, **options):
        """A proxy that ends with the test, with status 0 unless the test ended it itself."""
        proxy = Proxy(self.cluster.seeds, settings, **options)
        self.addCleanup(proxy.stop_cleanly)
        return proxy

    def connect(self, proxy, timeout=60):
        """A client that leaves with the test."""
        client = proxy.connect(timeout)
        self.addCleanup(client.close)
        return client

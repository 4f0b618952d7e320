# SPDX-License-Identifier: Apache-2.0
"""Proxies with the reply cache on, and what can be seen of it."""
from .shared_cluster import OneCluster
from .slots import TAGS
from .wait import wait_until

ON = {"reply_cache.enabled": True, "reply_cache.may_rest": False}
BROADCAST = {**ON, "reply_cache.tracking": "broadcast"}
OPTIN = {**ON, "reply_cache.tracking": "optin"}

# Both ways to hear of changes, through own and through shared pipes.
KINDS = {"broadcast": {**BROADCAST, "backend.sharding": "worker"},
         "opt-in": {**OPTIN, "backend.sharding": "worker"},
         "broadcast, shared pipes": {**BROADCAST, "backend.sharding": "shared"},
         "opt-in, shared pipes": {**OPTIN, "backend.sharding": "shared"}}


def counter(proxy, name):
    return int(proxy.info("reply_cache")[f"reply_cache_{name}"])


def is_kept(proxy, client, *words):
    """Whether this read was answered from the cache. Nobody else may read meanwhile."""
    before = counter(proxy, "hits")
    client.call(*words)
    return counter(proxy, "hits") > before


def keep(proxy, client, *words):
    """Reads until the answer comes from the cache."""
    wait_until(lambda: is_kept(proxy, client, *words), step=0.02, what=f"{words} to be kept")
    return client.call(*words)


class Cached(OneCluster):
    """Every test runs once for each kind of proxy; they share the cluster."""

    def setUp(self):
        self.cluster.flush()

    def each_kind(self, settings=None, kinds=KINDS):
        """A proxy, and two clients of different workers, for each kind."""
        for name in kinds:
            with self.subTest(name):
                proxy = self.start({**kinds[name], **(settings or {})})
                yield proxy, self.connect(proxy), self.connect(proxy)
                self.cluster.flush()

    def direct(self, key):
        """A connection to the node that owns a key."""
        connection = self.cluster.owner_of(key).connect()
        self.addCleanup(connection.close)
        return connection


def keys_of_all_shards(name):
    return [f"{tag}{name}" for tag in TAGS]

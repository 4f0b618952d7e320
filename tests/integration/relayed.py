"""Nodes that the proxy reaches only through relays, and a relay that tears what passes through."""
from pieces import in_random_pieces
from support import Cluster, Relay


class Tearing:
    """A socket whose sendall() sends in pieces."""

    def __init__(self, target, tear):
        self._target, self._tear = target, tear

    def sendall(self, data):
        for piece in self._tear(data):
            self._target.sendall(piece)

    def __getattr__(self, name):
        return getattr(self._target, name)


class TearingRelay(Relay):
    """`tear(data)`, which may be set at any time, gives the pieces that bytes are passed on in."""

    tear = staticmethod(lambda data: in_random_pieces(data, len(data)))

    def _pump(self, source, sink, to_node):
        super()._pump(source, Tearing(sink, lambda data: self.tear(data)), to_node)


class RelayedCluster:
    """Masters that announce a relay's port in place of their own."""

    def __init__(self, masters, kind=Relay):
        self.cluster = Cluster(masters)
        self.relays = []
        for node in self.cluster.nodes:
            relay = kind(node.port)
            self.relays.append(relay)
            node.call("CONFIG", "SET", "cluster-announce-port", relay.port)

    @property
    def seeds(self):
        return [f"127.0.0.1:{relay.port}" for relay in self.relays]

    def is_announced(self):
        """True once every node knows every relay's port."""
        ports = {relay.port for relay in self.relays}
        for node in self.cluster.nodes:
            known = {entry[2][1] for entry in node.call("CLUSTER", "SLOTS")}
            if known != ports:
                return False
        return True

    def stop(self):
        for relay in self.relays:
            relay.close()
        self.cluster.stop()

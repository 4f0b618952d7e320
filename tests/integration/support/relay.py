# SPDX-License-Identifier: Apache-2.0
"""A TCP relay between the proxy and a node that a test can slow down, cut, tear or shut."""
import random
import socket
import threading

from .cluster import Cluster
from .pieces import in_random_pieces
from .resp import shut


class Relay:
    """Listens on a port of its own and passes bytes on to `target`. Hooks may be set at any time:

    on_request(bytes), on_reply(bytes): the bytes to pass on, or None to cut the connection.
    """

    def __init__(self, target, host="127.0.0.1", receive_buffer=None):
        self.target, self.host = target, host
        self.pass_everything()
        self._sockets = []
        self._listener = socket.create_server((host, 0))
        self.port = self._listener.getsockname()[1]
        if receive_buffer:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        threading.Thread(target=self._accept, daemon=True).start()

    def pass_everything(self):
        self.on_request = self.on_reply = lambda data: data

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                node = socket.create_connection((self.host, self.target), 5)
                node.settimeout(None)
            except OSError:
                client.close()
                continue
            for each in (client, node):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, node]
            for source, sink, to_node in ((client, node, True), (node, client, False)):
                threading.Thread(target=self._pump, args=(source, sink, to_node),
                                 daemon=True).start()

    def _pump(self, source, sink, to_node):
        try:
            while data := source.recv(65536):
                data = (self.on_request if to_node else self.on_reply)(data)
                if data is None:
                    break
                self._pass_on(sink, data)
        except OSError:
            pass
        for each in (source, sink):
            shut(each)

    def _pass_on(self, sink, data):
        sink.sendall(data)

    def cut(self):
        """Breaks every connection; new ones are taken."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            shut(each)

    def close(self):
        """Breaks every connection; new ones are refused."""
        # Without it the thread in accept() would serve one more connection.
        shut(self._listener)
        self._listener.close()
        self.cut()


class TearingRelay(Relay):
    """`tear(data)`, which may be set at any time, gives the pieces that bytes are passed on in."""

    tear = staticmethod(lambda data: in_random_pieces(data, random.random()))

    def _pass_on(self, sink, data):
        for piece in self.tear(data):
            sink.sendall(piece)


class RelayedCluster:
    """Masters that announce a relay's port in place of their own."""

    def __init__(self, masters, kind=Relay):
        self.cluster = Cluster(masters)
        self.relays = []
        for node in self.cluster.nodes:
            relay = kind(node.port)
            self.relays.append(relay)
            self.cluster.announce(node, relay.port)

    @property
    def seeds(self):
        return [f"127.0.0.1:{relay.port}" for relay in self.relays]

    def stop(self):
        for relay in self.relays:
            relay.close()
        self.cluster.stop()

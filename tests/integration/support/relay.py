"""A TCP relay between the proxy and a node that a test can slow down, cut or break."""
import socket
import threading
import time

from .cluster import free_ports


class Relay:
    """Listens on `port` and passes bytes on to `target`. Hooks may be set at any time:

    on_request(bytes) / on_reply(bytes): returns the bytes to pass on, or None to cut the connection.
    delay: seconds that every chunk towards the client is held back.
    """

    def __init__(self, target, host="127.0.0.1", port=None):
        self.target, self.host = target, host
        self.port = port or free_ports(1)[0]
        self.on_request = lambda data: data
        self.on_reply = lambda data: data
        self.delay = 0.0
        self.accepted = 0
        self._sockets = []
        self._listener = socket.create_server((host, self.port), reuse_port=True)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                node = socket.create_connection((self.host, self.target), 5)
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
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if not to_node and self.delay:
                    time.sleep(self.delay)
                data = (self.on_request if to_node else self.on_reply)(data)
                if data is None:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Breaks every connection; new ones are taken."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self._listener.close()
        self.cut()

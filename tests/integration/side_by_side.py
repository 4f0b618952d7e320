"""The same bytes to the proxy and to one real node that owns every slot, and what each answered."""
import time

from support import Cluster, Connection, Proxy, encode, wait_until

PASSWORD = "open-sesame-4711"
TOKEN = b"the-end-of-this-conversation"
END = b"$%d\r\n%s\r\n" % (len(TOKEN), TOKEN)


def inline(*lines):
    return b"".join(line + b"\r\n" for line in lines)


def frames(*commands):
    return b"".join(encode(*command) for command in commands)


def conversation(port, *pieces, pause=0.0, timeout=10.0):
    """All replies to `pieces`, each sent by itself, on a connection that must stay open."""
    with Connection(port, timeout=timeout) as connection:
        for piece in pieces:
            connection.send(piece)
            if pause:
                time.sleep(pause)
        connection.send(encode("ECHO", TOKEN))
        received = b""
        while not received.endswith(END):
            data = connection.socket.recv(1 << 20)
            if not data:
                raise ConnectionError(f"closed after {received[-200:]!r}")
            received += data
        return received[:-len(END)]


def last_words(port, data, timeout=10.0):
    """What comes back before the peer closes; a TimeoutError when it does not close."""
    with Connection(port, timeout=timeout) as connection:
        received = b""
        try:
            connection.send(data)
            while True:
                piece = connection.socket.recv(1 << 16)
                if not piece:
                    return received
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            return received


def serves(proxy, password):
    """True once the proxy knows its cluster, asked by a client that gives the password."""
    try:
        with proxy.connect() as connection:
            connection.call("AUTH", password)
            return b"cluster_state:ok" in connection.call("CLUSTER", "INFO")
    except OSError:
        return False


class SideBySide:
    """A cluster behind the proxy, and beside them a node that is a cluster by itself."""

    def __init__(self, cluster, password="", settings=None):
        self.alone = Cluster(1, options=["--requirepass", password] if password else [])
        self.node = self.alone.nodes[0]
        self.cluster = cluster
        settings = {"server.password": password, **(settings or {})}
        self.proxy = Proxy(cluster.seeds, settings, wait=False)
        try:
            wait_until(lambda: serves(self.proxy, password or "none"), what="the proxy to serve")
        except BaseException:
            self.stop()
            raise

    def ports(self):
        return self.node.port, self.proxy.port

    def flush(self):
        self.cluster.flush()
        self.node.call("FLUSHALL")

    def stop(self):
        self.alone.stop()
        status = self.proxy.stop()
        assert status == 0, f"exit status {status}\n{self.proxy.log_text()[-4000:]}"

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

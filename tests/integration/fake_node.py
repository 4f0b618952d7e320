"""A cluster node that owns every slot and answers users' commands with whatever a test wants."""
import socket
import threading

from support.cluster import free_ports

NODE_ID = b"f" * 40


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*elements):
    return b"*%d\r\n%s" % (len(elements), b"".join(elements))


def flat_map(resp3, *pairs):
    head = b"%%%d\r\n" % len(pairs) if resp3 else b"*%d\r\n" % (2 * len(pairs))
    return head + b"".join(bulk(key) + value for key, value in pairs)


class RequestReader:
    """Takes requests apart as they arrive."""

    def __init__(self, connection):
        self.connection = connection
        self.buffer = b""

    def _fill(self):
        data = self.connection.recv(1 << 16)
        if not data:
            raise ConnectionError("closed")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def read(self):
        """The words of the next request."""
        words = []
        for _ in range(int(self._line()[1:])):
            size = int(self._line()[1:])
            while len(self.buffer) < size + 2:
                self._fill()
            words.append(self.buffer[:size])
            self.buffer = self.buffer[size + 2:]
        return words


class FakeNode:
    """Answers what the proxy itself asks as a node would; everything else is up to `on_command`.

    on_command(words): the bytes to answer with, or None to close the connection.
    on_handshake(words): the same for HELLO, AUTH and CLIENT SETNAME; None leaves it to the node.
    on_cluster(words): the same for CLUSTER and INFO.
    send(connection, data): how answers are written, so that a test can tear them apart.
    """

    def __init__(self):
        self.port = free_ports(1)[0]
        self.on_command = lambda words: b"+OK\r\n"
        self.on_handshake = lambda words: None
        self.on_cluster = lambda words: None
        self.send = lambda connection, data: connection.sendall(data)
        self.commands = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        reader, resp3 = RequestReader(connection), False
        try:
            while True:
                words = reader.read()
                name = words[0].upper()
                resp3 = resp3 or (name == b"HELLO" and words[1:2] == [b"3"])
                answer = self._answer(name, words, resp3)
                if answer is None:
                    break
                (self.send if self._is_user_command(name, words) else
                 FakeNode._send_whole)(connection, answer)
        except (OSError, ValueError):
            pass
        connection.close()

    @staticmethod
    def _send_whole(connection, data):
        connection.sendall(data)

    @staticmethod
    def _is_user_command(name, words):
        return name not in (b"CLUSTER", b"INFO", b"HELLO", b"AUTH") and \
            words[:2] != [b"CLIENT", b"SETNAME"]

    def _answer(self, name, words, resp3):
        if self._is_user_command(name, words):
            self.commands.append(words)
            return self.on_command(words)
        if name in (b"CLUSTER", b"INFO"):
            return self.on_cluster(words) or self._about_the_cluster(name, words, resp3)
        answer = self.on_handshake(words)
        if answer is not None:
            return answer
        return self._hello(resp3) if name == b"HELLO" else b"+OK\r\n"

    @staticmethod
    def _hello(resp3):
        return flat_map(resp3, (b"server", bulk(b"redis")), (b"version", bulk(b"7.0.15")),
                        (b"proto", b":%d\r\n" % (3 if resp3 else 2)), (b"id", b":1\r\n"),
                        (b"mode", bulk(b"cluster")), (b"role", bulk(b"master")),
                        (b"modules", b"*0\r\n"))

    def _about_the_cluster(self, name, words, resp3):
        what = words[1].upper() if len(words) > 1 else b""
        port = b"%d" % self.port
        if name == b"INFO":
            return bulk(b"# Server\r\nredis_version:7.0.15\r\nloading:0\r\nrole:master\r\n")
        if what == b"INFO":
            return bulk(b"cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"
                        b"cluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\n")
        if what == b"NODES":
            return bulk(b"%s 127.0.0.1:%s@%d myself,master - 0 0 1 connected 0-16383\n"
                        % (NODE_ID, port, self.port + 10000))
        node = (bulk(b"127.0.0.1"), b":%s\r\n" % port, bulk(NODE_ID), b"*0\r\n")
        if what == b"SLOTS":
            return array(array(b":0\r\n", b":16383\r\n", array(*node)))
        if what == b"SHARDS":
            about = flat_map(resp3, (b"id", bulk(NODE_ID)), (b"port", b":%s\r\n" % port),
                             (b"ip", bulk(b"127.0.0.1")), (b"endpoint", bulk(b"127.0.0.1")),
                             (b"role", bulk(b"master")), (b"replication-offset", b":0\r\n"),
                             (b"health", bulk(b"online")))
            return array(flat_map(resp3, (b"slots", array(b":0\r\n", b":16383\r\n")),
                                  (b"nodes", array(about))))
        return b"-ERR unknown subcommand\r\n"

    @property
    def seeds(self):
        return [f"127.0.0.1:{self.port}"]

    def cut(self):
        """Breaks every connection; new ones are taken."""
        connections, self._connections = self._connections, []
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self._listener.close()
        self.cut()

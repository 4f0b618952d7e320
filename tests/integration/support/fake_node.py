# SPDX-License-Identifier: Apache-2.0
"""A cluster node that owns every slot and answers users' commands with whatever a test wants."""
import socket
import threading

from .resp import Connection, shut

NODE_ID = b"f" * 40


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*elements):
    return b"*%d\r\n%s" % (len(elements), b"".join(elements))


def flat_map(resp3, *pairs):
    head = b"%%%d\r\n" % len(pairs) if resp3 else b"*%d\r\n" % (2 * len(pairs))
    return head + b"".join(bulk(key) + value for key, value in pairs)


class FakeServer:
    """Takes connections and answers each request with what answer(connection, words) returns, or
    closes the connection when that is None."""

    def __init__(self):
        self.connections = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(Connection(over=taken))
            threading.Thread(target=self._serve, args=self.connections[-1:], daemon=True).start()

    def _serve(self, connection):
        try:
            while True:
                words = connection.read()
                answer = self.answer(connection, words)
                if answer is None:
                    break
                for piece in self.torn(words, answer):
                    connection.send(piece)
        except (OSError, ValueError):
            pass
        connection.close()

    def answer(self, connection, words):
        raise NotImplementedError

    def torn(self, words, answer):
        """The pieces to send an answer in."""
        return [answer]

    @property
    def seeds(self):
        return [f"127.0.0.1:{self.port}"]

    def cut(self):
        """Breaks every connection; new ones are taken."""
        connections, self.connections = self.connections, []
        for connection in connections:
            shut(connection.socket)

    def close(self):
        shut(self._listener)
        self._listener.close()
        self.cut()


class FakeNode(FakeServer):
    """Answers what the proxy itself asks as a node would; everything else is up to `on_command`.

    on_command(words): the bytes to answer with, or None to close the connection.
    on_handshake(words): the same for HELLO, AUTH and CLIENT SETNAME; None leaves it to the node.
    on_cluster(words): the same for CLUSTER and INFO.
    pieces(data): how answers to commands are torn apart.
    """

    def __init__(self):
        self.on_command = lambda words: b"+OK\r\n"
        self.on_handshake = lambda words: None
        self.on_cluster = lambda words: None
        self.pieces = lambda data: [data]
        self.commands = []
        self._resp3 = set()  # connections that speak it
        super().__init__()

    def answer(self, connection, words):
        name = words[0].upper()
        if name == b"HELLO" and words[1:2] == [b"3"]:
            self._resp3.add(connection)
        resp3 = connection in self._resp3
        if self._is_users(words):
            self.commands.append(words)
            return self.on_command(words)
        if name in (b"CLUSTER", b"INFO"):
            return self.on_cluster(words) or self._about_the_cluster(name, words, resp3)
        return self.on_handshake(words) or (self._hello(resp3) if name == b"HELLO" else b"+OK\r\n")

    @staticmethod
    def _is_users(words):
        return words[0].upper() not in (b"CLUSTER", b"INFO", b"HELLO", b"AUTH") and \
            words[:2] != [b"CLIENT", b"SETNAME"]

    def torn(self, words, answer):
        return self.pieces(answer) if self._is_users(words) else [answer]

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
            return bulk(b"%s 127.0.0.1:%s@%s myself,master - 0 0 1 connected 0-16383\n"
                        % (NODE_ID, port, port))
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


class StaleNode(FakeServer):
    """A node cut off from the majority, as the proxy sees it: passes commands on to a real node,
    and answers questions about the cluster as that node would have when it was cut off."""

    QUESTIONS = ((b"CLUSTER", b"NODES"), (b"CLUSTER", b"SLOTS"), (b"CLUSTER", b"SHARDS"))

    def __init__(self, node):
        self.node = node
        self.asked = 0
        self.frozen = {}
        self._links = {}
        super().__init__()

    def freeze(self, state):
        """From now on the map of this moment is told, with `state` as cluster_state."""
        answers = {}
        with self.node.connect() as connection:
            for question in self.QUESTIONS:
                answers[question] = connection.call_raw(*question)
            info = connection.call("CLUSTER", "INFO")
        info = info.replace(b"cluster_state:ok", b"cluster_state:" + state.encode())
        self.frozen = {**answers, (b"CLUSTER", b"INFO"): bulk(info)}

    def answer(self, connection, words):
        question = tuple(word.upper() for word in words[:2])
        if question in self.frozen:
            self.asked += question == (b"CLUSTER", b"SLOTS")
            return self.frozen[question]
        if connection not in self._links:
            self._links[connection] = self.node.connect()
        return self._links[connection].call_raw(*words)

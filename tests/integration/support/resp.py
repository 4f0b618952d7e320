# SPDX-License-Identifier: Apache-2.0
"""A raw RESP connection: sends exact bytes, reads exact frames, parses RESP2 and RESP3."""
import select
import socket


class Status(str):
    """+OK and the like."""


class Error(str):
    """-ERR ... as a value; the text without the dash."""

    @property
    def code(self):
        return self.split(" ", 1)[0]


class Map(list):
    """A RESP3 map as a list of (key, value) pairs."""


class Set(list):
    """A RESP3 set."""


class Push(list):
    """A RESP3 push."""


def as_bytes(word):
    return word if isinstance(word, bytes) else str(word).encode()


def encode(*words):
    """One request frame."""
    parts = [b"*%d\r\n" % len(words)]
    for word in map(as_bytes, words):
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def frames(*commands):
    """The request frames of several commands."""
    return b"".join(encode(*command) for command in commands)


def commands(*lines):
    """The words of commands that are given as lines of text."""
    return [line.split(" ") for line in lines]


def shut(connected):
    """Ends a socket in both directions, also for a thread that waits on it."""
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Connection:
    """A blocking client connection. `read()` gives values, `read_frame()` the bytes of one reply.

    `over` is a connected socket to be used in place of a new one.
    """

    def __init__(self, port=None, host="127.0.0.1", timeout=30.0, path=None, over=None):
        if path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        else:
            self.socket = over or socket.create_connection((host, port), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data, self._at = b"", 0  # what has come, and how much of it was read

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    @property
    def address(self):
        """Its own end, as the peer sees it."""
        return "%s:%d" % self.socket.getsockname()[:2]

    def send(self, data):
        self.socket.sendall(data)

    def call(self, *words):
        """Sends one command and returns its reply; errors are returned, not raised."""
        self.send(encode(*words))
        return self.read()

    def pipeline(self, sent):
        """Sends all commands at once and returns all replies."""
        self.send(frames(*sent))
        return [self.read() for _ in sent]

    def call_raw(self, *words):
        """Sends one command and returns the reply's bytes."""
        self.send(encode(*words))
        return self.read_frame()

    def pipeline_raw(self, sent):
        """Sends all commands at once and returns the bytes of each reply."""
        self.send(frames(*sent))
        return [self.read_frame() for _ in sent]

    @property
    def buffer(self):
        """What has come and was not read."""
        return self._data[self._at:]

    def _fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the peer")
        self._data, self._at = self.buffer + data, 0

    def _line(self):
        while (end := self._data.find(b"\r\n", self._at)) < 0:
            self._fill()
        line = self._data[self._at:end]
        self._at = end + 2
        return line

    def read_bytes(self, count):
        """Exactly that many bytes, whatever they are."""
        chunks = [self._data[self._at:self._at + count]]
        have = len(chunks[0])
        self._at += have
        while have < count:
            data = self.socket.recv(min(1 << 20, count - have))
            if not data:
                raise ConnectionError("closed by the peer")
            chunks.append(data)
            have += len(data)
        return b"".join(chunks)

    def read_until(self, text):
        """Everything up to the end of `text`, which must come."""
        while (at := self._data.find(text, self._at)) < 0:
            self._fill()
        return self.read_bytes(at + len(text) - self._at)

    def read_frame(self):
        """The bytes of the next reply."""
        left, out = 1, []
        while left:
            line = self._line()
            out.append(line + b"\r\n")
            kind, count = line[:1], line[1:]
            left -= 1
            if kind in b"$=!" and int(count) >= 0:
                out.append(self.read_bytes(int(count) + 2))
            elif kind in b"*~>":
                left += max(int(count), 0)
            elif kind == b"%":
                left += 2 * int(count)
            elif kind == b"|":
                left += 2 * int(count) + 1
        return b"".join(out)

    def read(self):
        """The next reply as a value."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return Status(rest.decode())
        if kind == b"-":
            return Error(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b",":
            return float(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"_":
            return None
        if kind == b"(":
            return int(rest)
        if kind in b"$=":
            if rest == b"-1":
                return None
            data = self.read_bytes(int(rest) + 2)[:-2]
            return data[4:] if kind == b"=" else data
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"~":
            return Set(self.read() for _ in range(int(rest)))
        if kind == b">":
            return Push(self.read() for _ in range(int(rest)))
        if kind == b"%":
            return Map((self.read(), self.read()) for _ in range(int(rest)))
        if kind == b"|":
            for _ in range(2 * int(rest)):
                self.read()
            return self.read()
        raise ValueError(f"not RESP: {line[:60]!r}")

    def read_rest(self):
        """Everything that comes until the peer closes, gracefully or not."""
        chunks = [self.read_bytes(len(self.buffer))]
        try:
            while data := self.socket.recv(1 << 16):
                chunks.append(data)
        except ConnectionError:
            pass
        return b"".join(chunks)

    def at_end(self):
        """True when the peer has closed and everything was read; waits until one or the other."""
        if self.buffer:
            return False
        try:
            self._fill()
        except ConnectionError:
            return True
        return False

    def is_silent(self, seconds=0.3):
        """Whether nothing arrives for a while."""
        return not self.buffer and not select.select([self.socket], [], [], seconds)[0]

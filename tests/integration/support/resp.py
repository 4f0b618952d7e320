"""A raw RESP connection: sends exact bytes, reads exact frames, parses RESP2 and RESP3."""
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


def encode(*words):
    """One request frame."""
    out = b"*%d\r\n" % len(words)
    for word in words:
        if isinstance(word, str):
            word = word.encode()
        elif not isinstance(word, bytes):
            word = str(word).encode()
        out += b"$%d\r\n%s\r\n" % (len(word), word)
    return out


class Connection:
    """A blocking client connection. `read()` gives values, `read_frame()` the bytes of one reply."""

    def __init__(self, port, host="127.0.0.1", timeout=15.0, path=None):
        if path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        else:
            self.socket = socket.create_connection((host, port), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

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

    def send(self, data):
        self.socket.sendall(data)

    def call(self, *words):
        """Sends one command and returns its reply; errors are returned, not raised."""
        self.send(encode(*words))
        return self.read()

    def pipeline(self, commands):
        """Sends all commands at once and returns all replies."""
        self.send(b"".join(encode(*command) for command in commands))
        return [self.read() for _ in commands]

    def call_raw(self, *words):
        """Sends one command and returns the reply's bytes."""
        self.send(encode(*words))
        return self.read_frame()

    def _fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the peer")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _exactly(self, count):
        chunks, have = [self.buffer[:count]], min(len(self.buffer), count)
        self.buffer = self.buffer[count:]
        while have < count:
            data = self.socket.recv(min(1 << 20, count - have))
            if not data:
                raise ConnectionError("closed by the peer")
            chunks.append(data)
            have += len(data)
        return b"".join(chunks)

    def read_frame(self):
        """The bytes of the next reply."""
        left, out = 1, []
        while left:
            line = self._line()
            out.append(line + b"\r\n")
            kind, count = line[:1], line[1:]
            left -= 1
            if kind in b"$=!" and int(count) >= 0:
                out.append(self._exactly(int(count) + 2))
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
            data = self._exactly(int(rest) + 2)[:-2]
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

    def at_end(self):
        """True when the peer has closed and everything was read."""
        if self.buffer:
            return False
        try:
            data = self.socket.recv(1 << 16)
        except (ConnectionError, OSError):
            return True
        self.buffer += data
        return not data

# SPDX-License-Identifier: Apache-2.0
"""Clients at work in the background."""
import itertools
import threading
import time

from .resp import Error
from .wait import wait_until


class Load:
    """A client that sends one command after another and keeps what went wrong."""

    def __init__(self, proxy, *commands):
        self.proxy, self.commands = proxy, commands
        self.done, self.errors = 0, []
        self.running = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            with self.proxy.connect(timeout=60) as connection:
                for command in itertools.cycle(self.commands):
                    if not self.running:
                        return
                    self._call(connection, command)
        except OSError as error:
            self.errors.append(f"the connection ended: {error}")

    def _call(self, connection, command):
        reply = connection.call(*command)
        if isinstance(reply, Error):
            self.errors.append(str(reply))
        else:
            self.done += 1
        time.sleep(0.001)

    def wait_for_more(self, count=20, timeout=60):
        """Until so many more commands were answered without an error."""
        aim = self.done + count
        wait_until(lambda: self.done >= aim or not self.thread.is_alive(), timeout,
                   what="a client to be served again")

    def stop(self):
        """Ends it; the errors that it got."""
        self.running = False
        self.thread.join()
        return self.errors


class Sender:
    """Sends one stream of requests as fast as the proxy takes it, and reads when told to."""

    def __init__(self, client, data):
        self.client, self.data = client, memoryview(data)
        self.sent = 0
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def _send(self):
        try:
            while self.sent < len(self.data):
                self.sent += self.client.socket.send(self.data[self.sent:self.sent + 65536])
        except OSError:
            pass

    def is_done(self):
        return self.sent == len(self.data)

    def read(self, count):
        """The next bytes of the reply stream."""
        return self.client.read_bytes(count)


def wait_held_up(senders):
    """Until each has sent all, or all that is taken before its replies are read."""
    def held_up():
        before = [sender.sent for sender in senders]
        time.sleep(0.5)
        return all(sender.is_done() or sender.sent == sent
                   for sender, sent in zip(senders, before))

    wait_until(held_up, 120, what="the senders to be held up")


class Background:
    """Threads that run until told to stop; the first thing that went wrong fails the test."""

    def __init__(self):
        self.stopped = threading.Event()
        self.wrong = []
        self.threads = []

    def start(self, work, *arguments):
        """Calls work(*arguments) again and again."""
        self.threads.append(threading.Thread(target=self._run, args=(work, arguments)))
        self.threads[-1].start()

    def _run(self, work, arguments):
        try:
            while not self.stopped.is_set():
                work(*arguments)
        except Exception as trouble:  # whatever it is, the test has to show it
            self.wrong.append(f"{type(trouble).__name__}: {str(trouble)[:500]}")
            self.stopped.set()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def expect(got, wanted, what):
    assert got == wanted, f"{what}: {got!r:.200} instead of {wanted!r:.200}"


def run_at_once(*works):
    """Runs each of these in a thread to its end; the first exception fails the test."""
    wrong = []

    def run(work):
        try:
            work()
        except Exception as trouble:  # whatever it is, the test has to show it
            wrong.append(trouble)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]

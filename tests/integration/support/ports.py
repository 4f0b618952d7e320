# SPDX-License-Identifier: Apache-2.0
"""Ports of this machine that nobody uses."""
import itertools
import random
import socket

# Below the ports that the kernel gives to outgoing connections, with room for the bus ports.
PORTS = range(10000, 22000)
BUS_OFFSET = 10000

_begin = random.SystemRandom().randrange(len(PORTS))
_candidates = itertools.cycle([*PORTS[_begin:], *PORTS[:_begin]])
_taken = []  # one socket for each port that was given


def take(port):
    """Whether the port is free; then no other test takes it while this process lives."""
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0penstock-test-port-{port}")  # gone with the process, without a file
        for each in (port, port + BUS_OFFSET):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", each))
    except OSError:
        lock.close()
        return False
    _taken.append(lock)
    return True


def free_ports(count):
    """Ports whose cluster bus port is free too."""
    return list(itertools.islice((port for port in _candidates if take(port)), count))


def free_port():
    return free_ports(1)[0]


def hold_port(port=0):
    """A socket that keeps a port from everybody else; connections to it are refused."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held

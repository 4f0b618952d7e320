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


def is_free(port):
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def free_ports(count):
    """Ports whose cluster bus port is free too; none is given twice in a while."""
    usable = (port for port in _candidates if is_free(port) and is_free(port + BUS_OFFSET))
    return list(itertools.islice(usable, count))


def free_port():
    return free_ports(1)[0]


def hold_port(port=0):
    """A socket that keeps a port from everybody else; connections to it are refused."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held

# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: real nodes, the proxy, raw connections, relays in between."""
from .cluster import PARTIAL, PATIENT, Cluster, Node
from .proxy import QUIET, Proxy
from .resp import Connection, Error, Map, commands, encode, frames
from .slots import slot_of
from .wait import wait_until

__all__ = ["PARTIAL", "PATIENT", "Cluster", "Node", "QUIET", "Proxy", "Connection", "Error", "Map",
           "commands", "encode", "frames", "slot_of", "wait_until"]

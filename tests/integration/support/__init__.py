"""What the integration tests share: real nodes, the proxy, raw connections, a relay in between."""
from .cluster import Cluster, Node, slot_of
from .proxy import Proxy
from .relay import Relay
from .resp import Connection, Error, Map, Push, Set, Status, encode
from .wait import wait_until

__all__ = ["Cluster", "Node", "slot_of", "Proxy", "Relay", "Connection", "Error", "Map", "Push",
           "Set", "Status", "encode", "wait_until"]

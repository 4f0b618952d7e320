# SPDX-License-Identifier: Apache-2.0
"""What is measured: one cell is one shape of load."""
import dataclasses

KEYS = 100_000  # per size of value


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    title: str
    pipeline: int
    connections: int
    value_bytes: int = 64
    sets: bool = True   # half of the commands are SET; otherwise all are GET
    tool: str = ""      # the load generator; empty: the run's own

    @property
    def key_prefix(self):
        return f"v{self.value_bytes}:"

    @property
    def commands(self):
        return ("set", "get") if self.sets else ("get",)


# One cell is always driven by redis-benchmark: no conclusion should hang on one load generator.
CELLS = {cell.name: cell for cell in (
    Cell("p1c1", "one connection, no pipeline", 1, 1),
    Cell("p1c50", "50 connections, no pipeline", 1, 50),
    Cell("p1c200", "200 connections, no pipeline", 1, 200),
    Cell("p1c400", "400 connections, no pipeline", 1, 400),
    Cell("get-p1c200", "200 connections, no pipeline, GET only", 1, 200, sets=False),
    Cell("p16c200", "200 connections, pipeline 16", 16, 200),
    Cell("p16c1000", "1000 connections, pipeline 16", 16, 1000, tool="redis-benchmark"),
    Cell("p64c1000", "1000 connections, pipeline 64", 64, 1000, tool="redis-benchmark"),
    Cell("p16c50v4k", "50 connections, pipeline 16, 4 KiB values", 16, 50, value_bytes=4096),
)}


@dataclasses.dataclass(frozen=True)
class Mode:
    """Who runs where. None: anywhere."""
    name: str
    title: str
    workers: int
    proxy_cpus: frozenset | None
    other_cpus: frozenset | None  # of servers, load and this program
    load_threads: int


def modes(proxy_cpu, other_cpus, workers):
    """`proxy_cpu` and `other_cpus` are for the pinned mode, `workers` for the free one."""
    pinned = Mode("pinned", f"one worker alone on CPU {proxy_cpu}; servers and load on the others",
                  1, frozenset([proxy_cpu]), frozenset(other_cpus), 1)
    free = Mode("free", f"{workers} workers; nothing pinned from outside", workers, None, None, 2)
    return {"pinned": pinned, "free": free}

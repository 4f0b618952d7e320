# SPDX-License-Identifier: Apache-2.0
"""Heap allocations per command in steady state. They cannot be counted in a run that is timed, so
the null backend counts them: the same data path, clients, pipeline and values, without sockets."""
import functools
import os
import re
import subprocess

COMMANDS = 100_000  # about so many are counted


def null_backend_of(arm, fallback):
    """The one that was built with the arm's program, or what the command line says."""
    beside = os.path.join(os.path.dirname(arm.program), "bench/null_backend")
    return next((path for path in (beside, fallback) if path and os.access(path, os.X_OK)), None)


@functools.cache
def per_command(program, cell):
    """The mean over a cell's commands."""
    found = [one_command(program, cell, command) for command in cell.commands]
    return sum(found) / len(found)


def one_command(program, cell, command):
    rounds = max(10, COMMANDS // (cell.connections * cell.pipeline))
    output = subprocess.run(
        [program, "--command", command, "--clients", str(cell.connections), "--pipeline",
         str(cell.pipeline), "--value", str(cell.value_bytes), "--rounds", str(rounds)],
        check=True, text=True, capture_output=True).stdout
    commands = int(re.search(r"commands (\d+)", output)[1])
    return int(re.search(r"allocations (\d+)", output)[1]) / commands

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs modules of tests/integration, some at a time, a line for each: `run_modules.py [NAME...]`.

NAME is a module without its "_test"; without names all are run. PENSTOCK and PENSTOCK_SET are
passed on. As root, each module has a network of its own, so that no two want the same port. The
output of each is kept in --logs, and shown when it fails.
"""
import argparse
import concurrent.futures
import ctypes
import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests/integration"
LIMIT_SECONDS = 900
LINES_SHOWN = 60
# They take longest, so they begin first.
FIRST = ["cache_faults", "failover", "hostile_node", "addresses", "coherence", "memory",
         "lost_shard", "late_reply"]

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
# Loaded before any fork: what runs between fork and exec only calls it.
LIBC = ctypes.CDLL(None, use_errno=True)


def own_network():
    """Moves this process to a network that has a loopback device and nothing else."""
    if LIBC.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def can_have_own_network():
    """Tried in a child: there is no way back."""
    return subprocess.run([sys.executable, __file__, "--try-network"],
                          capture_output=True).returncode == 0


def module_names():
    names = [path.stem[:-len("_test")] for path in TESTS.glob("*_test.py")]
    return sorted(names, key=lambda name: (name not in FIRST, name))


def run(name, options, isolated):
    """(name, passed, what happened, output)"""
    command = options.prefix.split() + [sys.executable, "-m", "unittest", "-v", f"{name}_test"]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=TESTS, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                               start_new_session=True,
                               preexec_fn=own_network if isolated else None)
    try:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0] + f"\nit did not end within {LIMIT_SECONDS} s"
    (options.logs / f"{name}.txt").write_text(output)
    count = re.search(r"^Ran (\d+) tests?", output, re.M)
    skipped = re.search(r"skipped=(\d+)", output)
    text = (f"{count.group(1) if count else 'no'} tests"
            f"{', ' + skipped.group(1) + ' skipped' if skipped else ''}, "
            f"{time.monotonic() - began:.0f} s")
    return name, process.returncode == 0 and count is not None, text, output


def failures(output):
    """The part of unittest's output that tells of failures, or the end of it."""
    parts = re.split(r"^={70}\n", output, maxsplit=1, flags=re.M)
    lines = parts[-1].splitlines()
    shown = lines[:LINES_SHOWN] if len(parts) > 1 else lines[-LINES_SHOWN:]
    return "".join(f"     {line}\n" for line in shown)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build/integration-logs")
    parser.add_argument("--prefix", default="", help="what starts each module, such as setarch -R")
    parser.add_argument("--try-network", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    if options.try_network:
        own_network()
        return 0
    known = module_names()
    unknown = set(options.names) - set(known)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are: {' '.join(known)}")
    options.logs.mkdir(parents=True, exist_ok=True)
    isolated = can_have_own_network()
    all_passed = True
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run, name, options, isolated) for name in options.names or known]
        for job in concurrent.futures.as_completed(jobs):
            name, passed, text, output = job.result()
            all_passed = all_passed and passed
            print(f"{'ok  ' if passed else 'FAIL'} {name}: {text}", flush=True)
            if not passed:
                print(failures(output), end="", flush=True)
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())

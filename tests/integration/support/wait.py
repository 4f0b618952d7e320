# SPDX-License-Identifier: Apache-2.0
"""Waiting for something to become true, never longer than told."""
import time


def wait_until(condition, timeout=30.0, step=0.05, what="the condition"):
    """Returns the condition's first true value; raises TimeoutError."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come true within {timeout} s")
        time.sleep(step)


def settled(look, pause=0.5):
    """The value that look() has once it does not change any more."""
    value = look()
    while True:
        time.sleep(pause)
        before, value = value, look()
        if value == before:
            return value

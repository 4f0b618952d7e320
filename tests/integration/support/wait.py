"""Waiting for something to become true, never longer than told."""
import time


def wait_until(condition, timeout=15.0, step=0.05, what="the condition"):
    """Returns the condition's first true value; raises TimeoutError."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come true within {timeout} s")
        time.sleep(step)

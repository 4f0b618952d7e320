# SPDX-License-Identifier: Apache-2.0
"""How much memory the proxy takes while something happens."""
import os
import threading
import time

MB = 1 << 20

# What a sanitizer keeps back after a free is not the proxy's: let it keep little.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"


class PeakMemory:
    """In a `with` block: `growth` is the most the proxy had beyond what it had at the beginning."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.before = proxy.rss
        self.growth = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._stop.is_set():
            self._look()
            time.sleep(0.005)

    def _look(self):
        try:
            self.growth = max(self.growth, self.proxy.rss - self.before)
        except (OSError, RuntimeError):  # the proxy has died; the test will see it elsewhere
            pass

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._look()

# SPDX-License-Identifier: Apache-2.0
"""A proxy that did not get to run for a while: the time it lost is not held against the nodes."""
import signal
import time
import unittest

from support import Cluster, Proxy
from support.load import Load

STALL_SECONDS = 1.2  # beyond request_timeout


class Stall(unittest.TestCase):
    def test_a_proxy_that_stood_still_times_nothing_out(self):
        """Under load from elsewhere clients got "Timeout: no answer" a few ms after asking."""
        settings = {"backend.request_timeout": "1s"}
        with Cluster(3) as cluster, Proxy(cluster.seeds, settings) as proxy:
            loads = [Load(proxy, ("SET", f"k{i}", "v"), ("GET", f"k{i}")) for i in range(16)]
            for _ in range(3):
                for load in loads:
                    load.wait_for_more()
                proxy.signal(signal.SIGSTOP)
                time.sleep(STALL_SECONDS)
                proxy.signal(signal.SIGCONT)
            for load in loads:
                load.wait_for_more()
            self.assertEqual([error for load in loads for error in load.stop()], [])
            self.assertEqual(proxy.log_lines("stopped answering"), [])


if __name__ == "__main__":
    unittest.main()

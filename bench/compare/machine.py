# SPDX-License-Identifier: Apache-2.0
"""CPU clocks of processes and of the whole machine, and where processes may run."""
import os
import time

CPUCLOCK_SCHED = 2  # <linux/posix-timers.h>: nanoseconds that were really run
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time of a process: all its threads, those that ended and io_uring's too."""
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def busy_seconds():
    """What all CPUs of this machine did so far; time that the hypervisor took away included."""
    with open("/proc/stat") as stat:
        fields = [int(each) for each in stat.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / TICKS


def pin(pid, cpus):
    """Every thread of a process; None: to all CPUs."""
    cpus = cpus or range(os.cpu_count())
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except ProcessLookupError:
            pass


def wait_until_quiet(limit, level):
    """Until less than `level` CPUs were busy twice in a row; false when that took too long."""
    deadline = time.monotonic() + limit
    quiet = 0
    while quiet < 2:
        if time.monotonic() > deadline:
            return False
        begun, busy = time.monotonic(), busy_seconds()
        time.sleep(0.5)
        used = (busy_seconds() - busy) / (time.monotonic() - begun)
        quiet = quiet + 1 if used < level else 0
    return True


def description():
    with open("/proc/cpuinfo") as cpuinfo:
        models = [line.split(":", 1)[1].strip() for line in cpuinfo if "model name" in line]
    return f"{len(models)} x {models[0] if models else os.uname().machine}, " \
           f"Linux {os.uname().release}"

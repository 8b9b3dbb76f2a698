"""Worker processes: how many may run, and that none outlives its parent, however that one ends."""

from __future__ import annotations

import os
from multiprocessing import active_children, parent_process
from multiprocessing.connection import wait
from threading import Thread

from replaycheck.errors import ExitCode

__all__ = ["cores", "end_with_the_parent", "end_workers"]


def cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_the_parent() -> None:
    """In a worker: without a parent it would wait for work for ever, since it holds the other end of its own pipe."""
    Thread(target=_wait_for_the_parent, daemon=True).start()


def _wait_for_the_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(ExitCode.INTERRUPTED)


def end_workers() -> None:
    """In the parent: end its workers at once. One would otherwise finish its work first, which takes up to a minute."""
    for child in active_children():
        child.terminate()

"""Groups over worker processes. With one worker the work is done here, which is easier to debug and to profile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context

from replaycheck.compare.group import GroupComparison
from replaycheck.errors import EngineEnvironmentError

from .worker import Task, keep_memory, one_thread, replay_groups

BYTES_A_WORKER = 3 * 2**30
"""Measured: a worker of the quick matrix (90 arms) holds up to 2.6 GB."""

GROUPS_ON_A_GPU = 16
"""At 2.6 GB a group 42 GB, which an accelerator of 80 GB holds; more groups a launch cost no more launches."""


def default_workers(tasks: int) -> int:
    """One a core, no more than there is work and memory for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, tasks, _available() // BYTES_A_WORKER))


def _available() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return BYTES_A_WORKER


def replay_all(tasks: Sequence[Task], workers: int) -> Iterator[GroupComparison]:
    """Results in the order in which they are ready. A GPU takes groups together, in this process.

    Raises:
        EngineEnvironmentError: a worker died, most likely for want of memory.
    """
    on_gpu = any(task.kernels.device != "cpu" for task in tasks)
    if on_gpu or workers == 1 or len(tasks) == 1:
        one_thread()
        size = GROUPS_ON_A_GPU if on_gpu else 1
        for first in range(0, len(tasks), size):
            yield from replay_groups(tasks[first : first + size])
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start)
    try:
        for future in as_completed([pool.submit(replay_groups, [task]) for task in tasks]):
            yield from future.result()
    except BrokenProcessPool:
        raise EngineEnvironmentError(
            f"one of {workers} worker processes died, most likely for want of memory; give fewer --workers"
        ) from None
    except BaseException:
        # A worker would otherwise finish its group first, which takes up to a minute.
        for child in active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start() -> None:
    """In a worker: an interrupt is the parent's to handle, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_memory()
    one_thread()

"""Groups over worker processes. With one worker the work is done here, which is easier to debug and to profile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from replaycheck.compare.group import GroupComparison

from .worker import Task, one_thread, replay_group

BYTES_A_WORKER = 3 * 2**30
"""Measured: a worker of the quick matrix (90 arms) holds up to 2.6 GB."""


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
    """Results in the order in which they are ready."""
    if workers == 1 or len(tasks) == 1:
        one_thread()
        yield from map(replay_group, tasks)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=one_thread) as pool:
        futures = [pool.submit(replay_group, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise

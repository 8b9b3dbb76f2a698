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
    """Results in the order in which they are ready.

    Raises:
        EngineEnvironmentError: a worker died, most likely for want of memory.
    """
    if workers == 1 or len(tasks) == 1:
        one_thread()
        yield from map(replay_group, tasks)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start)
    try:
        for future in as_completed([pool.submit(replay_group, task) for task in tasks]):
            yield future.result()
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
    one_thread()

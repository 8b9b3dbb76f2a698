"""Parts over worker processes. With one worker the work is done here, which is easier to debug and to profile.

Jobs are taken as workers get free, so neither the groups that wait nor the parts that are ready lie in memory. A worker that
dies is replaced and its jobs are done again: equal groups give equal bytes, so nothing shows that it happened.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from replaycheck.errors import EngineEnvironmentError
from replaycheck.processes import cores, end_with_the_parent, end_workers
from replaycheck.say import Say

from .worker import Done, Job, Work, keep_memory, one_thread, replay_jobs

BYTES_A_WORKER = 3 * 2**30
"""Measured: a worker of the quick matrix (90 arms) holds up to 2.6 GB."""

GROUPS_ON_A_GPU = 16
"""At 2.6 GB a group 42 GB, which an accelerator of 80 GB holds; more groups a launch cost no more launches."""

AHEAD = 2
"""Jobs a worker that are handed out: one at work, one that it finds at once when it is done."""

LOSSES = 2
"""Times that workers may die with nothing finished in between. A third time it isn't chance: most likely memory."""


def default_workers(jobs: int) -> int:
    """One a core, no more than there is work and memory for."""
    return max(1, min(cores(), jobs, _available() // BYTES_A_WORKER))


def _available() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return BYTES_A_WORKER


def replay_all(work: Work, jobs: Iterable[Job], workers: int, say: Say = lambda line: None) -> Iterator[Done]:
    """Parts in the order in which they are ready. A GPU takes groups together, in this process.

    Raises:
        EngineEnvironmentError: workers died again and again, most likely for want of memory.
    """
    on_gpu = work.kernels.device != "cpu"
    if not on_gpu and workers > 1:
        yield from _in_processes(work, iter(jobs), workers, say)
        return
    one_thread()
    for together in _together(jobs, GROUPS_ON_A_GPU if on_gpu else 1):
        yield from replay_jobs(work, together)


def _together(jobs: Iterable[Job], groups: int) -> Iterator[list[Job]]:
    """Jobs in order, cut as soon as they have so many groups."""
    some: list[Job] = []
    for job in jobs:
        some.append(job)
        if sum(len(each.lines) for each in some) >= groups:
            yield some
            some = []
    if some:
        yield some


def _in_processes(work: Work, jobs: Iterator[Job], workers: int, say: Say) -> Iterator[Done]:
    waiting: deque[Job] = deque()
    losses = 0
    while True:
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start, initargs=(work,))
        running: dict[Future[list[Done]], Job] = {}
        try:
            while _hand_out(pool, waiting, jobs, running, AHEAD * workers):
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    found = future.result()
                    del running[future]
                    losses = 0
                    yield from found
            return
        except BrokenProcessPool:
            losses += 1
            if losses > LOSSES:
                raise EngineEnvironmentError(
                    f"worker processes died {losses} times, most likely for want of memory; give fewer --workers than "
                    f"{workers}, then go on with --resume"
                ) from None
            waiting.extendleft(reversed(running.values()))
            say(f"a worker process died; {len(running)} parts in flight are done again")
        except BaseException:
            end_workers()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _hand_out(
    pool: ProcessPoolExecutor,
    waiting: deque[Job],
    jobs: Iterator[Job],
    running: dict[Future[list[Done]], Job],
    most: int,
) -> bool:
    """Give work until ``most`` jobs run; whether any does. A job that a broken pool refuses stays in ``waiting``."""
    while len(running) < most:
        if not waiting:
            job = next(jobs, None)
            if job is None:
                break
            waiting.append(job)
        future = pool.submit(_replay, waiting[0])
        running[future] = waiting.popleft()
    return bool(running)


_work: Work | None = None
"""Of a worker process: given once, since its arms are larger than a job."""


def _start(work: Work) -> None:
    global _work
    _work = work
    start_worker()


def start_worker() -> None:
    """In a worker: an interrupt is the parent's to handle, which then ends its workers; without a parent nobody would."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_the_parent()
    keep_memory()
    one_thread()


def _replay(job: Job) -> list[Done]:
    assert _work is not None
    return replay_jobs(_work, [job])

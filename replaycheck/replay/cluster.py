"""Parts over the machines of a Ray cluster: a part is a task, and a task whose worker or machine is lost is done again.

Only lines of trace files travel there and bytes of finished parts back, so machines need replaycheck and the model at the
same path, and no common disk. Ray is imported when it is asked for (extra ``[cluster]``).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from replaycheck.errors import EngineEnvironmentError, ReplayCheckError, UsageError
from replaycheck.model.checkpoint import digest
from replaycheck.say import Say
from replaycheck.subjects.choose import LAB

from .pool import AHEAD, BYTES_A_WORKER
from .worker import Done, Job, Work, keep_memory, one_thread, replay_jobs

__all__ = ["replay_on_cluster"]

RETRIES = 3
"""Times that a task is done again after its worker or machine was lost; Ray's own default."""

BYTES_WITHOUT_A_MODEL = 2**29
"""What a task of another subject reserves: python, torch and arrow take 400 MB."""


def replay_on_cluster(
    address: str, work: Work, model_digest: str, jobs: Iterable[Job], say: Say = lambda line: None
) -> Iterator[Done]:
    """Parts in the order in which they are ready.

    Args:
        address: ``ray://HOST:PORT`` or ``HOST:PORT`` of a cluster, ``auto`` for the one that runs here, ``local`` for one
            that is started on this machine and ends with the run.
        model_digest: of the weights; a machine with others is refused.

    Raises:
        EngineEnvironmentError: no Ray, no cluster, or a task that is lost again and again.
    """
    ray = _ray()
    _connect(ray, address)
    try:
        say(f"Ray cluster {address}: {_cpus(ray)} CPUs on {len(ray.nodes())} machines")
        yield from _tasks(ray, work, model_digest, iter(jobs))
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, ReplayCheckError) else error from None
    except ray.exceptions.RayError as error:
        raise EngineEnvironmentError(
            f"the Ray cluster {address} lost a task {RETRIES + 1} times ({type(error).__name__}); see its logs, then go on "
            "with --resume"
        ) from None
    finally:
        ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise EngineEnvironmentError(
            "--cluster needs Ray, which isn't installed: pip install 'replaycheck[cluster]'"
        ) from None
    return ray


def _connect(ray: Any, address: str) -> None:
    if "/" in address.removeprefix("ray://") or not address:
        raise UsageError(f"--cluster {address!r}: give ray://HOST:PORT, HOST:PORT, auto or local")
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
    if address == "local":
        settings |= {"include_dashboard": False}
    try:
        ray.init(address=None if address == "local" else address, **settings)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EngineEnvironmentError(
            f"--cluster {address}: no Ray cluster answers ({str(error).splitlines()[0]}); start one with "
            "`ray start --head`, or give --cluster local"
        ) from None


def _cpus(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _tasks(ray: Any, work: Work, model_digest: str, jobs: Iterator[Job]) -> Iterator[Done]:
    """Hand out as many tasks as the cluster has CPUs for, and take what is ready."""
    memory = BYTES_A_WORKER if work.subject == LAB else BYTES_WITHOUT_A_MODEL
    task = ray.remote(num_cpus=1, memory=memory, max_retries=RETRIES)(_replay)
    shared = ray.put((work, model_digest))
    running: list[Any] = []
    while True:
        most = AHEAD * _cpus(ray)  # machines come and go
        while len(running) < most and (job := next(jobs, None)) is not None:
            running.append(task.remote(shared, job))
        if not running:
            return
        ready, running = ray.wait(running, num_returns=1)
        for each in ready:
            yield from ray.get(each)


def _replay(shared: tuple[Work, str], job: Job) -> list[Done]:
    """On a machine of the cluster."""
    work, model_digest = shared
    _prepare()
    if work.subject == LAB:
        _refuse_other_weights(work.model, model_digest)
    return replay_jobs(work, [job])


@lru_cache(maxsize=1)
def _prepare() -> None:
    keep_memory()
    one_thread()


@lru_cache(maxsize=4)
def _refuse_other_weights(model: Path, wanted: str) -> None:
    found = digest(model) if model.is_dir() else "nothing"
    if found != wanted:
        raise EngineEnvironmentError(
            f"the machine {socket.gethostname()!r} of the cluster has {found} at {str(model)!r} and not the weights "
            f"{wanted}; put the same model there"
        )

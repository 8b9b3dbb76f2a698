"""The parent's end of a side's process: start it, give it jobs, stop it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from replaycheck.children import environment
from replaycheck.errors import EngineEnvironmentError, InternalError, UsageError

from .sides import Job, Measured, Setup

_ERRORS = {int(kind.exit_code): kind for kind in (UsageError, EngineEnvironmentError, InternalError)}


class Worker:
    """A running side. peak: the most bytes that it held so far."""

    def __init__(self, setup: Setup, child: subprocess.Popen[str], log: Any) -> None:
        self.name = setup.side
        self.peak = 0
        self._child, self._log = child, log
        given = asdict(setup) | {"model": str(setup.model)}
        given["kernels_path"] = None if setup.kernels_path is None else str(setup.kernels_path)
        self.facts: dict[str, str] = self._ask(given)["ready"]

    def run(self, job: Job) -> Measured:
        """Do a job.

        Raises:
            ReplayCheckError: what the side refused, or why it died.
        """
        answer = self._ask(asdict(job))
        self.peak = answer.pop("peak")
        return Measured(answer["seconds"], answer["tokens"], answer["kind_seconds"], tuple(answer["logprobs"]))

    def _ask(self, given: object) -> dict[str, Any]:
        assert self._child.stdin and self._child.stdout
        try:
            self._child.stdin.write(json.dumps(given) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        line = self._child.stdout.readline()
        if not line.endswith("\n"):
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise _ERRORS.get(answer["exit_code"], InternalError)(answer["error"])
        return answer

    def _died(self) -> EngineEnvironmentError:
        self._child.wait()
        self._log.seek(0)
        last = (self._log.read().strip().splitlines() or [f"exit code {self._child.returncode}"])[-1]
        return EngineEnvironmentError(f"the process of {self.name} died: {last}")


@contextmanager
def worker(setup: Setup) -> Iterator[Worker]:
    """Start a side; it is gone when the block ends."""
    command = [sys.executable, "-W", "ignore", "-m", "replaycheck.bench.worker"]
    on_cpu = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(setup.threads)}
    variables = environment(**on_cpu if setup.device == "cpu" else {})
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=variables
        )
        try:
            yield Worker(setup, child, log)
        finally:
            child.kill()
            child.communicate()

"""Work in a forked process that may loop, eat memory or leave files: bounded, silent, in a folder of its own."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MEMORY = 2 << 30
"""Bytes that a child may take on top of what it was forked with: five times what the tests need."""
WAIT = 10
"""Seconds by the clock for each second of CPU: on a shared machine a process gets a part of one."""

KILLED = 1


@dataclass
class Child:
    """A running process. ``folder``: where its temporary files go; it is removed with it."""

    pid: int
    folder: Path
    deadline: float

    def poll(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid and time.monotonic() < self.deadline:
            return None
        with suppress(ProcessLookupError):  # what it started ends with it
            os.killpg(self.pid, signal.SIGKILL)
        if not pid:
            _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def note(self) -> str:
        """What it left in its folder, which is removed."""
        path = self.folder / "note"
        text = path.read_text() if path.exists() else ""
        shutil.rmtree(self.folder, ignore_errors=True)
        return text


def fork(work: Callable[[Path], bool], seconds: float) -> Child:
    """Start ``work(folder)`` with so many seconds of CPU; its exit code is 0 if it returns True, else KILLED."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    pid = os.fork()
    if pid:
        return Child(pid, folder, time.monotonic() + WAIT * seconds)
    code = KILLED
    try:
        _confine(folder, seconds)
        code = 0 if work(folder) else KILLED
    finally:
        os._exit(code)


def _confine(folder: Path, seconds: float) -> None:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.environ |= {"TMPDIR": str(folder), "PYTEST_DEBUG_TEMPROOT": str(folder)}
    tempfile.tempdir = None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))

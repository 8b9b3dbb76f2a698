"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from replaycheck.errors import UsageError

__all__ = ["atomic_file", "write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``; what was there survives any failure.

    Raises :class:`UsageError` if the folder is missing or can't be written.
    """
    with atomic_file(path) as handle:
        handle.write(data)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside ``path`` that is renamed to it when the block ends without an exception.

    Raises :class:`UsageError` if the folder is missing or can't be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise UsageError(
            f"{str(path)!r} can't be written ({error.strerror}); give a path in a folder that is there and writable"
        ) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.chmod(_usual_mode())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _usual_mode() -> int:
    """What ``open`` would have given the file; ``mkstemp`` gives its owner alone access."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

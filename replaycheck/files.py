"""Files that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from replaycheck.errors import UsageError

__all__ = ["atomic_file", "made_folder", "new_file", "new_folder", "write_atomically"]


def new_file(path: Path) -> Path:
    """``path`` if ``--out`` may write it: before anything is computed, since what is there is never written over.

    Raises :class:`UsageError` if something is there, or no folder to put it into.
    """
    if path.exists():
        raise UsageError(f"--out {str(path)!r} is there already; name another file, or remove it first")
    if not path.parent.is_dir():
        raise UsageError(f"--out {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")
    return path


def made_folder(path: Path) -> Path:
    """``path``, made with the folders above it if it isn't there. Raises :class:`UsageError` if it can't be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{str(path)!r} can't be made ({error.strerror}); give --out a folder that can") from None
    return path


def new_folder(path: Path) -> Path:
    """``path`` if ``--out`` may fill it: a folder that is empty, or isn't there. Raises :class:`UsageError`."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{str(path)!r} is a file; give --out a folder that is empty or not there")
    if path.exists() and any(path.iterdir()):
        raise UsageError(f"{str(path)!r} isn't empty; give --out a folder that is empty or not there")
    return path


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
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; give the path of a file")
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

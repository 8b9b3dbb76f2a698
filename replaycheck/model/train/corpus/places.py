"""Where the training text is found: unpacked system packages, and archives of Python packages.

Archives are read member by member and never unpacked, so no path in them can reach the file system.
"""

from __future__ import annotations

import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

__all__ = ["INSTALLED", "Places", "archive_texts", "file_texts", "read_bytes"]

# The largest document of the sources is 1.6 MB; a larger member is no text of theirs.
_MAX_FILE_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class Places:
    """Roots of the sources.

    ``root`` is where system packages are installed or unpacked (``/`` for installed ones); ``packages`` holds
    sdists and wheels as `pip download` saves them; ``stdlib`` the Python library.
    """

    root: Path = Path("/")
    packages: Path = Path()
    stdlib: Path = Path(sysconfig.get_path("stdlib"))


#: System packages as installed, Python archives in the working directory.
INSTALLED: Final = Places()


def read_bytes(file: Path) -> bytes:
    """The content of a regular file, or nothing where it is too large."""
    return file.read_bytes() if file.stat().st_size <= _MAX_FILE_BYTES else b""


def file_texts(root: Path, *patterns: str, skip: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(path below ``root``, text) of the files that match a glob pattern and none of ``skip``, sorted by path."""
    found = {file for pattern in patterns for file in root.glob(pattern)}
    for file in sorted(found):
        name = file.relative_to(root).as_posix()
        if file.is_file() and not any(fnmatchcase(name, pattern) for pattern in skip):
            yield name, read_bytes(file).decode("utf-8", "replace")


def archive_texts(packages: Path, archive: str, *patterns: str) -> Iterator[tuple[str, str]]:
    """(member, text) of the members of the newest archive ``packages/archive`` (a glob), sorted by name.

    ``patterns`` are matched against the member's path without its first folder in sdists, whole in wheels.
    """
    found = sorted(packages.glob(archive))
    if not found:
        return
    read = _wheel if found[-1].suffix == ".whl" else _sdist
    for name, content in sorted(read(found[-1], patterns)):
        yield name, content.decode("utf-8", "replace")


def _wheel(file: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.file_size <= _MAX_FILE_BYTES and any(fnmatchcase(info.filename, pattern) for pattern in patterns):
                yield info.filename, archive.read(info)


def _sdist(file: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(file) as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            wanted = member.isfile() and member.size <= _MAX_FILE_BYTES
            if wanted and any(fnmatchcase(name, pattern) for pattern in patterns):
                stream = archive.extractfile(member)
                yield name, stream.read() if stream else b""

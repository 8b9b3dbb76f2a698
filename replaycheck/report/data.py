"""result.json inside the page: gzip, then base64, unpacked by the browser when somebody asks for it.

A page that was mailed or kept as a CI artifact has lost the files beside it; this one takes a tenth of its size along.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Packed", "packed"]


@dataclass(frozen=True)
class Packed:
    """``text`` is None if the block would be over ``most`` characters. ``size``: bytes of the file itself."""

    name: str
    size: int
    text: str | None


def packed(path: Path, most: int) -> Packed:
    """The file ``path`` as text for the page, at most ``most`` characters; the same bytes give the same text."""
    content = path.read_bytes()
    text = base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
    return Packed(path.name, len(content), text if len(text) <= most else None)

"""Jane Austen's novels out of the R package `janeaustenr`, read without R.

An R lazy-load database is a row of zlib streams; in each, a string is the header 0x00040009 (a CHARSXP
marked ASCII), a big-endian length and the bytes. The package keeps one string a line.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

__all__ = ["novels"]

_ZLIB_START: Final = b"\x78\x9c"
_STRING: Final = re.compile(rb"\x00\x04\x00\x09(....)", re.DOTALL)
# The shortest novel has 8,000 lines; other objects of the database have a few.
_LEAST_LINES: Final = 1000


def novels(database: bytes) -> Iterator[str]:
    """The text of each novel in the bytes of ``Rdata.rdb``."""
    at = database.find(_ZLIB_START)
    while at >= 0:
        stream = zlib.decompressobj()
        try:
            lines = list(_strings(stream.decompress(database[at:])))
        except zlib.error:
            at = database.find(_ZLIB_START, at + 1)
            continue
        if len(lines) >= _LEAST_LINES:
            yield "\n".join(lines)
        at = database.find(_ZLIB_START, len(database) - len(stream.unused_data))


def _strings(raw: bytes) -> Iterator[str]:
    at = 0
    while match := _STRING.search(raw, at):
        length = int.from_bytes(match[1], "big")
        at = match.end() + length
        yield raw[match.end() : at].decode("ascii", "replace")

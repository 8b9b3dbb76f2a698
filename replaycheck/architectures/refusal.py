"""When a library says no: by an error that it raises on purpose, by a property, by a warning, or by having no such method.

An error that torch or Python raises somewhere inside is no refusal but a crash.
"""

from __future__ import annotations

import linecache
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .discover import library

__all__ = ["RefusedError", "Warnings", "listening", "offered", "refused_on_purpose", "short"]

#: With these words the library warns that it ignores what it was given, or that results will be wrong.
_WARNS = ("unused in this model", "not supported", "will be ignored", "right-padding was detected")
MOST = 160
"""Letters of a message that are kept."""


class RefusedError(Exception):
    """The operation isn't there, and the text says how that is known."""


def offered(cache: object, operation: str) -> Any:
    """A cache's method.

    Raises:
        RefusedError: it has none of that name.
    """
    method = getattr(cache, operation, None)
    if method is None:
        raise RefusedError(f"its cache, a {type(cache).__name__}, has no {operation}")
    return method


def refused_on_purpose(error: BaseException) -> bool:
    """Whether the innermost line is a ``raise`` in the library's own source."""
    if isinstance(error, RefusedError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    inside = Path(last.filename).is_relative_to(Path(library().__file__).parent)
    return inside and linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise")


def short(error: BaseException) -> str:
    """One line: the kind of error unless it's a refusal of ours, and its first words."""
    lines = str(error).strip().splitlines() or [""]
    text = lines[0] if isinstance(error, RefusedError) else f"{type(error).__name__}: {lines[0]}"
    return text if len(text) <= MOST else text[: MOST - 1] + "…"


class Warnings(logging.Handler):
    """What the library warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    @property
    def against(self) -> str | None:
        """The first warning that the operation isn't meant to be used so."""
        return next((text for text in self.messages if any(words in text for words in _WARNS)), None)


@contextmanager
def listening() -> Iterator[Warnings]:
    """Collect the library's warnings, also those that it gives only once."""
    logs = library().logging
    logger, before, heard = logs.get_logger("transformers"), logs.get_verbosity(), Warnings()
    logger.warning_once.cache_clear()
    logs.set_verbosity_warning()
    logs.disable_default_handler()
    logger.addHandler(heard)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logs.enable_default_handler()
        logs.set_verbosity(before)

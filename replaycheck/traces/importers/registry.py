"""The importers that ship and those that packages announce, by name; and which of them a file is for.

A package announces an importer as an entry point in the group ``replaycheck.importers``; ``pkg.mod:NAME`` names one that
isn't announced.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from itertools import islice
from typing import NamedTuple

from replaycheck.errors import EngineEnvironmentError, UsageError, choices
from replaycheck.names import did_you_mean

from .api import Head, Importer
from .fields import Place
from .source import SourceFile

__all__ = ["AUTO", "BUILT_IN", "GROUP", "OWN", "Found", "detect", "find", "importers"]

AUTO = "auto"
#: Name of our own format.
OWN = "jsonl"
GROUP = "replaycheck.importers"

#: Our importers: the module of this package by the name of the format; each has an ``IMPORTER``.
BUILT_IN: Mapping[str, str] = {
    "weka": "weka",
    "mooncake": "mooncake",
    "bailian": "bailian",
    "aiperf": "aiperf_sessions",
    "dag_jsonl": "aiperf_dag",
    "tracelab": "tracelab",
    "azure": "azure",
    "sglang": "sglang_tokens",
    "vllm": "vllm_multi_turn",
    "openai": "openai_messages",
    "anthropic": "anthropic_messages",
    "sharegpt": "sharegpt",
    "oasst": "oasst",
    "mtbench": "mtbench",
    "claude-code": "claude_code",
    "codex": "codex",
    "swe-agent": "swe_agent",
    "mini-swe-agent": "mini_swe_agent",
    "openhands": "openhands",
    "atif": "atif",
    "otel": "otel",
    "jsonl": "own",
}

# Records that are looked at to recognise a format.
_LOOKED_AT = 20


class Found(NamedTuple):
    """An importer and why it is the one."""

    importer: Importer
    why: str


def importers() -> Mapping[str, Importer]:
    """Every importer by name: ours, then announced ones. Raises :class:`UsageError` for a name that is taken."""
    known = {each.name: each for each in map(_built_in, BUILT_IN)}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        importer = _checked(point.load(), f"entry point {point.name!r}")
        if importer.name in known:
            raise UsageError(f"importer {importer.name!r} of {point.value} is there already; give it another name")
        known[importer.name] = importer
    return known


def find(name: str) -> Importer:
    """The importer called ``name``. Raises :class:`UsageError` if there is none."""
    if name in BUILT_IN:
        return _built_in(name)
    if ":" in name:
        return _imported(name)
    known = importers()
    if name not in known:
        allowed = [AUTO, *known]
        raise UsageError(
            f"format {name!r} is unknown{did_you_mean(name, allowed)}; allowed are {choices(allowed)}, or pkg.mod:IMPORTER"
        )
    return known[name]


def detect(source: SourceFile, known: Iterable[Importer] | None = None) -> Found:
    """The importer that recognises ``source``. None or several are a :class:`UsageError` that lists them."""
    candidates = list(importers().values() if known is None else known)
    head = look(source)
    reasons = [(each, each.recognise(head)) for each in candidates]
    found = [Found(each, why) for each, why in reasons if why is not None]
    if len(found) == 1:
        return found[0]
    names = choices(each.name for each in candidates)
    if not found:
        raise UsageError(f"{source.path}: no format is recognised; name it, one of {names}")
    listed = "; ".join(f"{importer.name!r} ({why})" for importer, why in found)
    raise UsageError(f"{source.path}: {len(found)} formats are possible: {listed}; name one instead of {AUTO!r}")


def look(source: SourceFile) -> Head:
    """The first records, or the names of the columns."""
    if source.is_lines:
        values = [value for _, value in islice(source.lines(), _LOOKED_AT)]
        return Head(records=tuple(value for value in values if isinstance(value, dict)))
    first = next(source.texts(), None)
    if first is None:
        Place(source.path, 1).fail("the file is empty; give a file with at least one record")
    if not first[1].lstrip().startswith(("{", "[")):
        return Head(columns=tuple(name.strip() for name in first[1].split(",")))
    value = source.whole()
    records = value[:_LOOKED_AT] if isinstance(value, list) else [value]
    return Head(records=tuple(each for each in records if isinstance(each, dict)), is_list=isinstance(value, list))


def _built_in(name: str) -> Importer:
    return _checked(importlib.import_module(f"{__package__}.{BUILT_IN[name]}").IMPORTER, name)


def _imported(spec: str) -> Importer:
    module, _, attribute = spec.partition(":")
    try:
        return _checked(getattr(importlib.import_module(module), attribute), spec)
    except ModuleNotFoundError as error:
        raise EngineEnvironmentError(f"importer {spec!r}: no module {error.name!r}; install it") from None
    except (AttributeError, ValueError):
        raise UsageError(f"importer {spec!r}: no such name; give pkg.mod:IMPORTER") from None


def _checked(value: object, name: str) -> Importer:
    if not isinstance(value, Importer):
        raise UsageError(f"importer {name} is a {type(value).__name__}; it must be a replaycheck Importer")
    return value

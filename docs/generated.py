"""Parts of the reference that are written from the code while the site is built, so that they can't go stale.

A page asks for one with ``<!-- generated: NAME -->``; ``PARTS`` has the names.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from inspect import getdoc, getsource
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from replaycheck import public
from replaycheck.cli.main import VERBS
from replaycheck.cli.schema import SCHEMAS
from replaycheck.errors import ExitCode
from replaycheck.gates.metrics import METRICS
from replaycheck.probes.properties import PROPERTIES
from replaycheck.public import PUBLIC
from replaycheck.schema import tables
from replaycheck.schema.frames import KEYS

__all__ = ["PARTS", "filled"]

_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


def filled(page: str) -> str:
    """The text of a page with its generated parts. Raises KeyError for a part that there isn't."""
    return _MARK.sub(lambda found: PARTS[found[1]](), page)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *([_inline(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _inline(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_sentence(documented: object) -> str:
    return _markdown(" ".join((getdoc(documented) or "").split("\n\n")[0].split()))


def _markdown(docstring: str) -> str:
    """Roles and literals of reStructuredText as code."""
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", docstring).replace("``", "`")


# Tables of a run directory


def run_tables() -> str:
    """Each table with its columns and what they mean."""
    return "\n".join(_run_table(name) for name in tables.TABLES)


def _run_table(name: str) -> str:
    meanings = tables.MEANINGS[name]
    rows = [(f"`{field.name}`", _arrow(str(field.type)), meanings[field.name]) for field in tables.TABLES[name]]
    key = ", ".join(f"`{column}`" for column in KEYS[name])
    return f"### {name}\n\nA row is identified by {key}.\n\n" + _table(("column", "type", "meaning"), rows)


def _arrow(kind: str) -> str:
    """``dictionary<values=string, …>`` is how text is stored; a reader sees text."""
    return "string" if kind.startswith("dictionary") else kind.replace("<", "&lt;")


# Records as JSON and TOML


def _records(*roots: type[BaseModel]) -> str:
    return "\n".join(_record(record) for record in _reached(roots))


def _record(record: type[BaseModel]) -> str:
    rows = [
        (f"`{field.alias or name}`", f"`{_kind(field.annotation)}`", _default(field), field.description or "")
        for name, field in record.model_fields.items()
    ]
    about = _about(record)
    return f"### {record.__name__}\n\n{about}\n\n" + _table(("key", "type", "default", "meaning"), rows)


def _about(record: type[BaseModel]) -> str:
    """A record's own sentence; the outermost of a file is described by its module."""
    if record in SCHEMAS.values():
        return _first_sentence(import_module(record.__module__))
    return _first_sentence(record) if "__doc__" in vars(record) and record.__doc__ else ""


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, BaseModel):
        return "its defaults"
    if value in ((), {}):
        return "none"
    return "empty" if value == "" else f"`{json.dumps(value, default=str)}`"


def _reached(roots: Iterable[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """The records, each followed by those that its fields hold, once each."""
    waiting, seen = list(roots), set()
    while waiting:
        record = waiting.pop(0)
        if record in seen:
            continue
        seen.add(record)
        yield record
        waiting = [*_held(record), *waiting]


def _held(record: type[BaseModel]) -> list[type[BaseModel]]:
    return [part for field in record.model_fields.values() for part in _models(field.annotation)]


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [found for part in get_args(kind) for found in _models(part)]


def _kind(kind: Any) -> str:
    """A type as JSON has it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _kind(parts[0])
    if origin is Literal:
        return " or ".join(repr(part) if isinstance(part, str) else str(part) for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if part is type(None) else _kind(part) for part in parts)
    if origin is tuple or origin is list:
        return f"list of {_kind(parts[0])}"
    if origin is dict or origin is Mapping:
        return f"object of {_kind(parts[1])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(repr(str(member.value)) for member in kind)
    plain = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
    return plain.get(getattr(kind, "__name__", str(kind)), getattr(kind, "__name__", str(kind)))


def schema_names() -> str:
    """What ``replaycheck schema NAME`` prints."""
    return _table(("name", "record"), ((f"`{name}`", _about(record)) for name, record in SCHEMAS.items()))


# Exit codes, metrics, probes, names


def exit_codes() -> str:
    """Each code with the line that stands above it in ``errors.py``."""
    comments, above = {}, ""
    for line in getsource(ExitCode).splitlines():
        text = line.strip()
        if text.startswith("#:"):
            above = f"{above} {text[2:].strip()}".strip()
        elif member := re.match(r"([A-Z_]+) = ", text):
            comments[member[1]], above = above, ""
    return _table(("code", "name", "meaning"), ((str(int(code)), code.name, comments[code.name]) for code in ExitCode))


def metric_keys() -> str:
    """What a gate on each metric may say."""
    rows = (
        (
            f"`{name}`",
            metric.reads,
            ", ".join(sorted(floor.value for floor in metric.floors)) or "none",
            "yes" if metric.constant else "no",
            ", ".join(f"`{key}`" for key in sorted(metric.keys)),
            "forced, free" if metric.experiments else "forced",
        )
        for name, metric in METRICS.items()
    )
    return _table(("metric", "reads", "floors", "constant bound", "other keys", "experiments"), rows)


def probe_properties() -> str:
    """The columns of ``probe kernels``."""
    return _table(("property", "group", "question"), ((f"`{each.name}`", each.group, each.meaning) for each in PROPERTIES))


def verbs() -> str:
    """The verbs with their lines of ``replaycheck --help``."""
    return _table(("verb", "does"), ((f"`{name}`", verb.summary) for name, verb in VERBS.items()))


def public_names() -> str:
    """Where to look for what."""
    rows = ((each.use, f"`{each.module}`", ", ".join(f"`{name}`" for name in each.names)) for each in PUBLIC)
    return _table(("to", "module", "names"), rows)


def public_rules() -> str:
    """What a name in the list promises: the docstring of the list, after its first paragraph."""
    return _markdown((getdoc(public) or "").partition("\n\n")[2]) + "\n"


def public_members() -> str:
    """A section for each module of the list, written by autodoc."""
    return "\n".join(
        f"## {each.module}\n\n```{{eval-rst}}\n.. automodule:: {each.module}\n   :members: {', '.join(each.names)}\n```\n"
        for each in PUBLIC
    )


PARTS: Mapping[str, Callable[[], str]] = {
    "run-tables": run_tables,
    "result": lambda: _records(SCHEMAS["result"]),
    "trace": lambda: _records(SCHEMAS["trace"]),
    "suite": lambda: _records(SCHEMAS["suite"]),
    "gate": lambda: _records(SCHEMAS["gate"]),
    "floor": lambda: _records(SCHEMAS["floor"]),
    "schemas": schema_names,
    "exit-codes": exit_codes,
    "metrics": metric_keys,
    "properties": probe_properties,
    "verbs": verbs,
    "public": public_names,
    "rules": public_rules,
    "members": public_members,
}

"""Annotations of a GitHub Actions step: the engineer lands on the line of the gate file whose bound wasn't kept.

They are workflow commands, ``::error file=…,line=…,title=…::message``, a line each. The runner reads them from stdout and
from stderr alike (actions/runner: ScriptHandler gives both streams to the same command manager), so with ``--json`` they
go to stderr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replaycheck.schema.result import GateResult
from replaycheck.text import shorten

from .gate_lines import by_weight, numbers

__all__ = ["annotation_lines"]

MOST = 9
"""GitHub shows 10 annotations of each kind a step and drops the others silently; the tenth says how many they are."""

LONGEST = 1000
"""Characters of a message. GitHub keeps 64 kB; a list of annotations is read at a glance."""

_COMMANDS = {"fail": "error", "vacuous": "warning", "inconclusive": "warning"}


@dataclass(frozen=True)
class _Place:
    file: str
    line: int | None


def annotation_lines(
    gates: Sequence[GateResult], files: Mapping[str, Path], root: Path | None = None, report: str = "report.html"
) -> list[str]:
    """The lines to print: at most nine of ``gates``, the worst first, and one that counts the others.

    ``files``: where a gate file lies, by the name that results call it. ``root``: of the repository; a file outside it (a
    shipped one in an installed package) has no line there, so its gates get a message without a place.
    """
    bad = by_weight(gate for gate in gates if gate.verdict in _COMMANDS)
    lines = [_annotation(gate, _place(gate, files, root)) for gate in bad[:MOST]]
    left = bad[MOST:]
    return [*lines, *([_more(left, report)] if left else [])]


def _more(left: Sequence[GateResult], report: str) -> str:
    names = ", ".join(gate.name for gate in left)
    kind = "error" if any(gate.verdict == "fail" for gate in left) else "warning"
    return _command(kind, {"title": "replaycheck"}, f"{len(left)} more gates in {report}: {names}")


def _annotation(gate: GateResult, place: _Place | None) -> str:
    where = {} if place is None else {"file": place.file}
    if place is not None and place.line is not None:
        where["line"] = str(place.line)
    title = f"replaycheck: gate {gate.file}/{gate.name} {_said(gate)}"
    return _command(_COMMANDS[gate.verdict], {**where, "title": title}, f"{gate.sentence} {numbers(gate)}")


def _said(gate: GateResult) -> str:
    return "fails" if gate.verdict == "fail" else f"is {gate.verdict}"


def _place(gate: GateResult, files: Mapping[str, Path], root: Path | None) -> _Place | None:
    path = files.get(gate.file)
    if path is None or root is None:
        return None
    try:
        inside = path.resolve().relative_to(root.resolve())
    except ValueError:
        return None
    return _Place(inside.as_posix(), gate.line)


def _command(kind: str, properties: Mapping[str, str], message: str) -> str:
    told = ",".join(f"{name}={_property(shorten(value, LONGEST))}" for name, value in properties.items())
    return f"::{kind} {told}::{_data(shorten(message, LONGEST))}"


def _data(text: str) -> str:
    """``text`` as GitHub's toolkit escapes the data of a command (``escapeData``).

    >>> _data("100 %\\n")
    '100 %25%0A'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """``text`` as a property of a command (``escapeProperty``).

    >>> _property("a,b: 5 %")
    'a%2Cb%3A 5 %25'
    """
    return _data(text).replace(":", "%3A").replace(",", "%2C")

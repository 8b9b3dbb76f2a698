"""junit.xml: one suite a workload, one test case a gate, with names that stay the same from run to run.

failure: the gate fails. error: it is inconclusive or vacuous, so nothing was proven, or the run crashed. skipped: it is
waived, or an earlier stage of its file failed, with the reason. One more case says whether anything was compared at all,
which no gate may have looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal
from xml.etree import ElementTree as ET

from replaycheck.errors import ReplayCheckError
from replaycheck.files import write_atomically
from replaycheck.schema.environment import Environment
from replaycheck.schema.result import GateResult, Result
from replaycheck.text import shorten

from .gate_lines import numbers
from .views import environment_rows

__all__ = ["crash_recorded", "junit_xml"]

MOST_BYTES = 9000
"""Of a message. CI servers cut or refuse above 10 kB; the escapes of XML need room."""

_OUTCOMES: dict[str, Literal["failure", "error", "skipped"]] = {
    "fail": "failure",
    "inconclusive": "error",
    "vacuous": "error",
    "waived": "skipped",
    "not-judged": "skipped",
}


@dataclass(frozen=True)
class _Case:
    """``kind``: the verdict, or crash. outcome: None if it passed."""

    group: str
    name: str
    outcome: Literal["failure", "error", "skipped"] | None = None
    kind: str = ""
    message: str = ""
    text: str = ""


def junit_xml(result: Result, environment: Environment) -> str:
    """The XML of ``result``; control characters, which XML 1.0 can't hold, are spelled out."""
    cases = [_evidence(result), *_asked(result), *(_gate(gate) for gate in result.gates)]
    facts = [
        (name, str(getattr(result, name))) for name in ("subject", "model", "model_digest", "recipe", "kernels", "seed")
    ]
    return _xml(result.suite, cases, [*facts, *environment_rows(environment)], environment.seconds)


@contextmanager
def crash_recorded(folder: Path | None, suite: str) -> Iterator[None]:
    """Leave a junit.xml with one error in the run directory ``folder`` if the block ends by an exception of ours.

    A CI that reads the file then shows why there is no verdict. Not where the folder isn't this run's: None, one that has no
    environment.json yet, or one that has a result.
    """
    try:
        yield
    except Exception as error:
        ours = folder is not None and (folder / "environment.json").is_file() and not (folder / "result.json").exists()
        if folder is not None and ours:
            kind = type(error).__name__
            said = str(error) if isinstance(error, ReplayCheckError) else f"internal error: {kind}: {error}"
            xml = _xml(suite, [_Case("run", "finished", "error", "crash", said, said)], [], None)
            write_atomically(folder / "junit.xml", xml.encode("utf-8"))
        raise


def _xml(workload: str, cases: Sequence[_Case], facts: Sequence[tuple[str, str]], seconds: float | None) -> str:
    counts = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
        "skipped": sum(case.outcome == "skipped" for case in cases),
    }
    texts = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", {"name": "replaycheck", **texts})
    time = {} if seconds is None else {"time": f"{seconds:.3f}"}
    suite = ET.SubElement(root, "testsuite", {"name": _text(workload), **texts, **time})
    if facts:
        parent = ET.SubElement(suite, "properties")
        for name, value in facts:
            ET.SubElement(parent, "property", {"name": _text(name), "value": _text(value)})
    for case in cases:
        _add(suite, workload, case)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: ET.Element, workload: str, case: _Case) -> None:
    names = {"classname": _text(f"replaycheck.{workload}.{case.group}"), "name": _text(case.name)}
    element = ET.SubElement(suite, "testcase", names)
    if case.outcome is not None:
        outcome = ET.SubElement(element, case.outcome, {"type": case.kind, "message": _text(case.message)})
        outcome.text = _text(case.text)


def _evidence(result: Result) -> _Case:
    """A run whose gates pass is vacuous all the same if a cell compared nothing, or if no gate judged it."""
    group, name = "run", "something was compared"
    vacuous = [cell for cell in result.cells if cell.vacuous]
    if vacuous:
        first = vacuous[0]
        said = f"{len(vacuous)} of {len(result.cells)} cells prove nothing; {first.name}: {first.why_vacuous}"
        return _Case(group, name, "error", "vacuous", said, "\n".join(f"{c.name}: {c.why_vacuous}" for c in vacuous))
    if not result.gates:
        said = "no gate judged this run"
        return _Case(group, name, "error", "vacuous", said, said)
    return _Case(group, name)


def _asked(result: Result) -> list[_Case]:
    """Whether the state dtype that was asked for is the one in use, if one was asked for."""
    if result.state_dtype is None:
        return []
    said = str(result.state_dtype)
    more = ("error", "inconclusive", said, said) if result.state_dtype.another else ()
    return [_Case("run", "the state dtype is the one asked for", *more)]


def _gate(gate: GateResult) -> _Case:
    # The file's folder and the value would change the name from machine to machine and run to run.
    file = PurePath(gate.file).name.removesuffix(".toml")
    name = f"{gate.name}[{gate.scope}]" if gate.scope else gate.name
    if gate.verdict == "pass":
        return _Case(file, name)
    text = f"{numbers(gate)} At {gate.worst}. Why this bound: {gate.why}"
    message = f"{gate.waiver}: {gate.sentence}" if gate.waiver and gate.verdict == "waived" else gate.sentence
    return _Case(file, name, _OUTCOMES[gate.verdict], gate.verdict, message, text)


def _text(text: str) -> str:
    """One printable line of at most ``MOST_BYTES`` of UTF-8."""
    shown = shorten(text, MOST_BYTES)
    data = shown.encode()
    return shown if len(data) <= MOST_BYTES else data[: MOST_BYTES - 3].decode(errors="ignore") + "…"

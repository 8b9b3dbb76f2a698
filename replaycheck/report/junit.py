"""junit.xml: one suite a run, one test case a gate, with names that stay the same from run to run.

failure: the gate fails. error: it is inconclusive or vacuous, so nothing was proven.
"""

from __future__ import annotations

from pathlib import PurePath
from xml.etree import ElementTree as ET

from replaycheck.schema.environment import Environment
from replaycheck.schema.result import GateResult, Result
from replaycheck.text import shorten

from .text import number
from .views import environment_rows

__all__ = ["junit_xml"]

LONGEST = 8000
"""Characters of a message. CI servers cut or refuse above 10 kB; the escapes of XML need room."""


def junit_xml(result: Result, environment: Environment) -> str:
    """The XML of the gates of ``result``; control characters, which XML 1.0 can't hold, are spelled out."""
    gates = result.gates
    counts = {
        "tests": len(gates),
        "failures": sum(gate.verdict == "fail" for gate in gates),
        "errors": sum(gate.verdict in ("inconclusive", "vacuous") for gate in gates),
        "skipped": 0,
    }
    texts = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", {"name": "replaycheck", **texts})
    seconds = {} if environment.seconds is None else {"time": f"{environment.seconds:.3f}"}
    suite = ET.SubElement(root, "testsuite", {"name": _text(result.suite), **texts, **seconds})
    _properties(suite, result, environment)
    for gate in gates:
        _case(suite, result.suite, gate)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(suite: ET.Element, result: Result, environment: Environment) -> None:
    parent = ET.SubElement(suite, "properties")
    facts = [
        (name, str(getattr(result, name))) for name in ("subject", "model", "model_digest", "recipe", "kernels", "seed")
    ]
    for name, value in facts + environment_rows(environment):
        ET.SubElement(parent, "property", {"name": _text(name), "value": _text(value)})


def _case(suite: ET.Element, workload: str, gate: GateResult) -> None:
    # The file's folder and the value would change the name from machine to machine and run to run.
    file = PurePath(gate.file).name.removesuffix(".toml")
    scope = f"[{gate.scope}]" if gate.scope else ""
    names = {"classname": _text(f"replaycheck.{workload}.{file}"), "name": _text(f"{gate.name}{scope}")}
    case = ET.SubElement(suite, "testcase", names)
    if gate.verdict == "pass":
        return
    outcome = ET.SubElement(case, "failure" if gate.verdict == "fail" else "error", {"type": gate.verdict})
    outcome.set("message", _text(gate.sentence))
    outcome.text = _text(
        f"{gate.metric} = {number(gate.value.value)} (n = {gate.value.n}, {gate.value.method}), "
        f"bound {number(gate.bound)}, at {gate.worst}. Why this bound: {gate.why}"
    )


def _text(text: str) -> str:
    return shorten(text, LONGEST)

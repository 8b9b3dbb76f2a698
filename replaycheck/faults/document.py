"""The tables of docs/faults.md, from the data: ``python -m replaycheck.faults.document`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .clean import CONTROLS
from .coverage import BENIGN, MODES, REPORTS, Covered
from .fault import Fault
from .shipped import FAMILIES

__all__ = ["tables"]


def tables() -> str:
    """Markdown: every fault by family, the clean variants, and what stands for each known fault and report."""
    parts = [*_families(), *_clean()]
    parts += _covered("Fault modes", {f"F{n}": covered for n, covered in MODES.items()})
    parts += _covered("Benign effects", BENIGN)
    parts += _covered("Public reports", REPORTS)
    return "\n".join(parts) + "\n"


def _families() -> Iterator[str]:
    for family, faults in FAMILIES.items():
        yield f"### {family.capitalize()}\n"
        yield "| fault | spoils | imitates | code | expected | claims to catch it |\n|---|---|---|---|---|---|"
        yield from (_line(fault) for fault in faults)
        yield ""


def _line(fault: Fault) -> str:
    looks = fault.expected
    expected = "–"
    if looks:
        expected = f"{looks.onset}; conv {looks.conv}; state {looks.state}; {looks.grid} grid; needs {looks.needs}"
    claims = ", ".join(f"`{claim}`" for claim in fault.claims)
    said = f"{fault.imitates}. Silent: {fault.silent}" if fault.silent else fault.imitates
    return f"| `{fault.name}` | {fault.kind} | {said} | {fault.code} | {expected} | {claims} |"


def _clean() -> Iterator[str]:
    yield "### Clean variants\n"
    yield "| variant | imitates | cell |\n|---|---|---|"
    for control in CONTROLS:
        yield f"| `{control.name}` | {control.imitates} | {control.cell.name} |"
    yield ""


def _covered(title: str, entries: Mapping[str, Covered]) -> list[str]:
    lines = [f"### {title}\n", "| | what | stands for it |\n|---|---|---|"]
    for key, covered in entries.items():
        stands = ", ".join(f"`{name}`" for name in covered.by) or f"not meaningful here: {covered.why_not}"
        lines.append(f"| {key} | {covered.what} | {stands} |")
    return [*lines, ""]


if __name__ == "__main__":
    print(tables(), end="")

"""What ``selftest`` prints: the gates, the matrix, what is silent and why, false alarms, and what escapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaycheck.schema.selftest import AdmittedLine, Confusion, FaultRow, Selftest

__all__ = ["METRICS", "confusion_line", "counts", "first_of", "selftest_text", "shown"]

METRICS: dict[str, str] = {
    "exact/logits-bits": "bits",
    "exact/restored-state": "state",
    "exact/conv-bytes": "conv",
    "exact/provenance": "origin",
    "exact/same-kernel": "kernel",
    "exact/labels": "labels",
    "exact/hits": "hits",
    "exact/double-rounding": "cast",
    "exact/kernel-oracle": "oracle",
    "plan/simulator": "plan",
    "lab/refused": "refused",
}
"""Columns of the matrix: gates of ``exact``, the integer simulator, and runs that the lab refuses. Others are probes."""


def selftest_text(found: Selftest) -> str:
    """The terminal's text; ends with a line feed."""
    parts = [*_admission(found.admission), *_matrix(found.faults), *_silent(found.faults), *_rest(found)]
    return "\n".join([*parts, *_named(found), *_escaped(found), counts(found)]) + "\n"


def counts(found: Selftest) -> str:
    """One line of numbers."""
    verdicts = [row.verdict for row in found.faults]
    controls = len(found.controls)
    seeds = f"{len(found.seeds)} seed{'s' if len(found.seeds) != 1 else ''}"
    admitted = sum(line.caught for line in found.admission)
    gates = f"{admitted} of {len(found.admission)} gates admitted; " if found.admission else ""
    return (
        f"{gates}{len(verdicts)} faults planted with {seeds}: {verdicts.count('caught')} caught, {verdicts.count('silent')} "
        f"silent in logits and seen by a probe, {verdicts.count('escaped')} escaped; "
        f"{len(found.false_alarms)} false alarms in {controls} clean variants and cells"
    )


def _admission(lines: Sequence[AdmittedLine]) -> Iterator[str]:
    for line in lines:
        verdict = "caught " if line.caught else "ESCAPED"
        also = f"; fails, too: {', '.join(line.also)}" if line.also else ""
        yield (
            f"{verdict} {line.fault:16} by {line.file}/{line.gate}: clean {_number(line.clean)}, "
            f"with the fault {_number(line.faulty)}, bound {_number(line.bound)}{also}"
        )


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:g}"


def shown(row: FaultRow, check: str) -> str:
    """A cell of the matrix: x fails and was to, + fails though nobody claims it, ! was to fail and didn't."""
    if check in row.missed_by:
        return "!"
    if check not in row.caught_by:
        return "."
    return "x" if check in row.claims else "+"


def first_of(row: FaultRow) -> str:
    """The first wrong position in the first cell, and how it looks."""
    cell = row.cells[0] if row.cells else None
    if cell is None:
        return "probes only"
    if cell.refused:
        return f"refused: {cell.refused[:80]}"
    return f"{cell.first or 'no logits'}; {cell.signature.onset if cell.signature else ''}"


def _matrix(rows: Sequence[FaultRow]) -> Iterator[str]:
    if not rows:
        return
    width = max(len(row.name) for row in rows)
    yield ""
    yield f"{'':{width}}  {' '.join(METRICS.values())}  probes; first wrong position"
    for row in rows:
        marks = " ".join(f"{shown(row, check):^{len(word)}}" for check, word in METRICS.items())
        probes = [check for check in row.caught_by if check not in METRICS]
        text = ", ".join(probes) or "-"
        yield f"{row.name:{width}}  {marks}  {text}; {first_of(row)}  {row.verdict if row.verdict != 'caught' else row.code}"
    yield "x fails as claimed, + fails unclaimed, ! claims to fail and doesn't, . passes"


def _silent(rows: Sequence[FaultRow]) -> Iterator[str]:
    for row in (row for row in rows if row.verdict == "silent"):
        yield f"silent  {row.name}: {row.why_silent}; seen by {', '.join(row.caught_by)}"


def _rest(found: Selftest) -> Iterator[str]:
    for control in found.controls:
        if control.failed:
            yield f"ALARM   {control.name} ({control.imitates}): {', '.join(control.failed)}"
    for row in found.faults:
        for alarm in row.alarms:
            yield f"ALARM   {row.name}, where it changes nothing: {alarm}"
        for text in row.unlike:
            yield f"unlike  {row.name}: {text}"


def _named(found: Selftest) -> Iterator[str]:
    """The faults that the diagnosis didn't name right, and how often it did, by seed."""
    for named in (found.confusion, found.held_out):
        for row in named.rows if named else ():
            if row.answer not in ("right", "nothing seen"):
                yield f"named   {row.fault}: {row.named} {row.confidence} where {row.code} is meant; {row.answer}"
        if named:
            yield confusion_line(named)


def confusion_line(c: Confusion) -> str:
    """The counts in a sentence."""
    share = f"{100 * c.right / c.shown:.0f} %" if c.shown else "none"
    return (
        f"diagnosis, seed {c.seed}: of {c.shown} cells that show a fault {c.right} named right ({share}), "
        f"{c.unknown} unknown, {c.wrong} wrong and called likely, {c.confidently_wrong} wrong and called certain"
    )


def _escaped(found: Selftest) -> Iterator[str]:
    for row in found.escaped:
        yield f"ESCAPED {row.name}: {row.imitates}; not seen by {', '.join(row.missed_by) or 'anything'}"

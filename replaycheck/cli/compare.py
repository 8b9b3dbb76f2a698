"""``replaycheck compare``: two saved runs, position by position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli.options import FiniteRange, emit_json, example, json_option
from replaycheck.errors import ExitCode, UsageError
from replaycheck.text import aligned, printable

if TYPE_CHECKING:
    from replaycheck.schema.comparison import ArmComparison, BaselineCell, Comparison, NoWorse

__all__ = ["command"]

_PATH = click.Path(path_type=Path)

WORST = 10
"""Cells that don't pass and are listed one by one."""

_CODES = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.FAIL,
    "vacuous": ExitCode.VACUOUS,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


@click.command(
    "compare",
    epilog=example(
        "replaycheck compare reports/before reports/after",
        "replaycheck compare reports/baseline reports/new --no-worse",
    ),
)
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@click.option(
    "--no-worse",
    is_flag=True,
    help="Judge: B's cached arms may not be further from their references than A's were. A must have passed.",
)
@click.option(
    "--margin",
    type=FiniteRange(min=0),
    metavar="NAT",
    help="With --no-worse: what a cell's mean may grow by. [default: a tenth of A's cold-vs-split noise]",
)
@json_option
def command(a: Path, b: Path, no_worse: bool, margin: float | None, as_json: bool) -> int:
    """Compare the saved runs A and B: the arms that both have, at the positions that both scored.

    Differences are B minus A. KL needs the full distribution, which a recording doesn't keep, so it is null. Without
    --no-worse nothing is judged: the exit code is 0, or 5 if the runs share no position. With it: 0 no worse, 1 worse,
    5 nothing was compared, 6 too few traces to say, 2 if A can't be a baseline.
    """
    from replaycheck.replay.across import compare_runs

    if margin is not None and not no_worse:
        raise UsageError("--margin was given without --no-worse, which it belongs to; give both or neither")
    comparison = compare_runs(a, b, no_worse, margin)
    if as_json:
        emit_json(comparison.model_dump(mode="json"))
    else:
        click.echo("\n".join(_lines(comparison)))
    if comparison.no_worse is not None:
        return _CODES[comparison.no_worse.verdict]
    return ExitCode.PASS if any(arm.positions for arm in comparison.arms) else ExitCode.VACUOUS


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "environment: " + ("different in" if comparison.environment else "the same")
    for name, (left, right) in comparison.environment.items():
        yield f"  {name}: {_value(left)} in A, {_value(right)} in B"
    yield ""
    if not any(arm.positions for arm in comparison.arms):
        yield "The runs share no position: nothing was compared."
    yield from _table(comparison.arms)
    for arm in comparison.unmatched:
        yield f"only in one run: {printable(arm)}"
    if comparison.no_worse is not None:
        yield from _judged(comparison.no_worse)


def _judged(found: NoWorse) -> Iterator[str]:
    """The verdict and the worst cells; those that pass are counted."""
    yield ""
    yield f"{found.verdict.upper()}  no worse than A? {printable(found.sentence)}"
    bad = [cell for cell in found.cells if cell.verdict != "pass"]
    for cell in bad[:WORST]:
        yield f"  {cell.verdict} {printable(cell.cell)}: {printable(cell.sentence)}"
        yield f"    margin {cell.margin:.3g}: {cell.margin_why}{_evidence(cell)}"
    if len(bad) > WORST:
        yield f"  and {len(bad) - WORST} more; --json has them all"
    yield f"{len(found.cells) - len(bad)} of {len(found.cells)} cells pass; {len(found.not_judged)} grid cells aren't judged"


def _evidence(cell: BaselineCell) -> str:
    """What was seen, and what it would take to decide."""
    worst = "" if cell.worst_trace is None else f"; worst trace {printable(cell.worst_trace)}"
    needed = "" if cell.traces_needed is None else f"; {cell.traces_needed:,} traces would decide four times in five"
    return f"; {cell.traces:,} traces{worst}{needed}"


def _value(text: str | None) -> str:
    return "absent" if text is None else printable(text)


def _table(arms: tuple[ArmComparison, ...]) -> list[str]:
    """One row an arm; the first divergence is in tokens after the first restore."""
    from replaycheck.report.text import number

    head = ("arm", "positions", "bits differ", "|Δlogp| p50", "p99", "max", "flips", "first bits", "first argmax")
    rows = [
        (
            printable(arm.arm),
            number(arm.positions),
            number(arm.bits_differ),
            *(number(arm.abs_dlogp.get(level)) for level in ("p50", "p99", "max")),
            number(arm.flips),
            *(number(arm.first_divergence[kind]) for kind in ("bits", "argmax")),
        )
        for arm in arms
    ]
    return aligned([head, *rows], right=range(1, len(head))) if rows else []

"""``replaycheck compare``: two saved runs, position by position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli.options import emit_json, example, json_option
from replaycheck.errors import ExitCode
from replaycheck.text import printable

if TYPE_CHECKING:
    from replaycheck.schema.comparison import ArmComparison, Comparison

__all__ = ["command"]

_PATH = click.Path(path_type=Path)


@click.command("compare", epilog=example("replaycheck compare reports/before reports/after"))
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@json_option
def command(a: Path, b: Path, as_json: bool) -> int:
    """Compare the saved runs A and B: the arms that both have, at the positions that both scored.

    Differences are B minus A. KL needs the full distribution, which a recording doesn't keep, so it is null. Nothing is
    judged: the exit code is 0, or 5 if the runs share no position.
    """
    from replaycheck.replay.across import compare_runs

    comparison = compare_runs(a, b)
    if as_json:
        emit_json(comparison.model_dump(mode="json"))
    else:
        click.echo("\n".join(_lines(comparison)))
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
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in ([head, *rows] if rows else [])
    ]

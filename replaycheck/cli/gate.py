"""``replaycheck gate``: judge a saved run again, by other gate files if any are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.cli.options import (
    emit_json,
    example,
    exit_zero_option,
    gates_option,
    github_option,
    inconclusive_option,
    json_option,
)
from replaycheck.text import printable, wrapped

if TYPE_CHECKING:
    from replaycheck.schema.result import GateResult, Summary

__all__ = ["command"]


@click.command(
    "gate", epilog=example("replaycheck gate reports/before", "replaycheck gate reports/before --gates exact")
)
@click.argument("run", type=click.Path(path_type=Path))
@gates_option
@json_option
@github_option
@exit_zero_option
@inconclusive_option
def command(
    run: Path, gates: tuple[str, ...], as_json: bool, github: bool | None, exit_zero: bool, inconclusive: str
) -> int:
    """Judge the saved run in folder RUN by gate files; without --gates by those that judged it first.

    The run isn't replayed and nothing is written. The exit code is that of the verdict.
    """
    from replaycheck.gates.summary import code_under
    from replaycheck.replay.rejudge import rejudge
    from replaycheck.report.github_step import publish

    judged = rejudge(run, gates)
    for warning in judged.warnings:
        click.echo(f"replaycheck: warning: {printable(warning)}", err=True)
    if as_json:
        results = [gate.model_dump(mode="json") for gate in judged.gates]
        emit_json({"gates": results, "summary": judged.summary.model_dump(mode="json")})
    else:
        _show(judged.gates, judged.summary)
    publish(github, judged.gates, judged.files, as_json)
    return code_under(judged.summary.exit_code, judged.summary.inconclusive > 0, inconclusive, exit_zero)


def _show(gates: tuple[GateResult, ...], summary: Summary) -> None:
    for gate in gates:
        click.echo(wrapped(f"{gate.verdict:12}  {printable(gate.file)}: {gate.name}: {printable(gate.sentence)}", 14))
    click.echo(
        f"{summary.verdict}: {summary.passed} of {summary.declared} gates pass, {summary.failed} fail, "
        f"{summary.inconclusive} inconclusive, {summary.vacuous} vacuous, {summary.waived} waived, "
        f"{summary.not_judged} not judged"
    )

"""``run --subject llamacpp --server-options``: a table, and with ``--out`` a folder of environment.json and result.json."""

from __future__ import annotations

from importlib.metadata import version
from math import isfinite
from pathlib import Path

from replaycheck.errors import UsageError, choices
from replaycheck.json_files import write_json
from replaycheck.model.gguf_tiny import names
from replaycheck.names import did_you_mean
from replaycheck.replay.environment import describe, finished
from replaycheck.replay.store import create_run
from replaycheck.say import Say
from replaycheck.schema.server_options import OptionCell, OptionMove, ServerOptionsTable
from replaycheck.subjects.server.llamacpp.launch import require

from .axes import ALL, chosen
from .judge import FACTOR, Judged
from .run import Outcome, sweep

__all__ = ["sweep_options"]


def sweep_options(
    options: tuple[str, ...],
    architectures: tuple[str, ...],
    seed: int,
    out: Path | None,
    say: Say = lambda text: None,
) -> ServerOptionsTable:
    """Sweep axes by name (``sweep``: all of them) over tiny architectures by name (none: all).

    Raises:
        UsageError: an unknown name, or a folder that holds a run. EngineEnvironmentError: xllamacpp isn't installed.
    """
    axes = chosen(() if options == (ALL,) else options)
    for name in architectures:
        if name not in names():
            raise UsageError(
                f"--architecture {name!r}: unknown{did_you_mean(name, names())}; choose {choices(names())}"
            )
    require("xllamacpp")
    server = f"xllamacpp {version('xllamacpp')}"
    inputs = {
        "server": server,
        "options": ", ".join(options),
        "architectures": ", ".join(architectures),
        "seed": str(seed),
    }
    environment = describe(inputs, "cpu")
    run = create_run(environment, out) if out else None
    found = sweep(architectures or tuple(names()), axes, seed, say)
    table = ServerOptionsTable(
        server=server,
        seed=seed,
        factor=FACTOR,
        approximate={axis.name: axis.approximate for axis in axes if axis.approximate},
        cells=tuple(_cell(outcome) for outcome in found),
    )
    if run:
        write_json(run.environment, finished(environment))
        write_json(run.path / "result.json", table)
    return table


def _cell(outcome: Outcome) -> OptionCell:
    return OptionCell(
        architecture=outcome.architecture,
        option=outcome.axis,
        verdict=outcome.verdict.value,
        noise=_finite(outcome.noise),
        repeat=_finite(outcome.repeat),
        moves=tuple(map(_move, outcome.moves)),
        why=outcome.why,
    )


def _move(judged: Judged) -> OptionMove:
    return OptionMove(
        move=judged.move,
        hit=judged.hit,
        difference=_finite(judged.difference),
        positions=judged.positions,
        verdict=judged.verdict.value,
        wrong_text=judged.wrong_text,
        drafted=judged.drafted,
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None

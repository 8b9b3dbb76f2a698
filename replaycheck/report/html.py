"""report.html: one file, offline, readable without scripts. It needs a finished run directory and nothing else.

Everything that comes from traces, models or servers is untrusted: each string is escaped by jinja and has its control,
bidi and zero-width characters spelled out, and the page's policy forbids scripts and network.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from replaycheck.files import write_atomically
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.text import printable

from . import plots
from .attribution import attribution_chart, attribution_rows
from .figure import Chart
from .matrix import EFFECTS, matrix
from .privacy import shows_text
from .parted import COLUMNS, curves, survival_chart
from .saved import Saved, load
from .shown import worst_cells
from .streams import PAIR_COLUMNS, extents, layer_errors, spreads, whole
from .text import number
from .verdict import answer
from .views import audit_table, divergence_table, environment_rows

__all__ = ["render", "templates", "write_report"]


def write_report(path: Path) -> Path:
    """Write report.html into the run directory ``path`` and return its path.

    Raises :class:`replaycheck.errors.UsageError` if ``path`` isn't a finished run.
    """
    saved = load(path)
    page = path / "report.html"
    write_atomically(page, render(saved).encode("utf-8"))
    return page


def render(saved: Saved, show_text: bool = False) -> str:
    """The page as text. ``show_text``: show tokens of imported traces, too."""
    result = saved.result
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            result=result,
            answer=answer(result),
            matrix=matrix(result),
            effects=EFFECTS,
            divergences=divergence_table(
                extents(result, saved.blocks("divergences")),
                result.logprobs.vocabulary,
                shows_text(saved.environment, show_text),
            ),
            charts=_charts(saved),
            attribution=attribution_chart(result),
            attributions=attribution_rows(result),
            gates=sorted(result.gates, key=lambda gate: gate.verdict == "pass"),
            audits=audit_table(result),
            environment=environment_rows(saved.environment),
            command=shlex.join(saved.environment.command),
            run=shlex.quote(str(saved.run.path)),
        )
    )


def _charts(saved: Saved) -> list[Chart]:
    result = saved.result
    present = {arm.pool for arm in result.arms}
    found = whole(spreads(result, saved.blocks("pairs", *PAIR_COLUMNS)))
    charts = [plots.distribution(found, pool) for pool in PoolDtype if pool in present]
    worst = worst_cells(result, Effect.TOTAL)
    charts.append(survival_chart(curves(worst, saved.blocks("divergences", *COLUMNS))))
    restores = saved.blocks("restores", "cell", "dtype", "layer", "rel_error", "one_cast_error")
    charts.append(plots.layer_error(layer_errors(result, restores)))
    return charts


def templates() -> jinja2.Environment:
    """Escapes everything; control characters are spelled out, and an unknown name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("replaycheck.report"),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "figure": _figure}
    return environment


def _figure(value: float | str | None) -> str:
    """A probe's value in full: its point is often in the last digits."""
    return value if isinstance(value, str) else number(value) if value is None else f"{value:.12g}"


def _finalize(value: Any) -> Any:
    """Only what we drew ourselves is markup; every other string is shown as it is, not obeyed."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value)

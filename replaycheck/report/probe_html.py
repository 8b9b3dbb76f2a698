"""probe.html: the table of ``probe kernels`` as one file that works offline and without scripts."""

from __future__ import annotations

from replaycheck.schema.environment import Environment
from replaycheck.schema.probe_table import ProbeTable
from replaycheck.schema.probe_times import ProbeTimes

from .html import templates
from .probe_text import counts, label, small, time_lines, tuning
from .views import environment_rows

__all__ = ["probe_page"]


def probe_page(table: ProbeTable, times: ProbeTimes, environment: Environment) -> str:
    """The page as text; every string of a provider is escaped."""
    return (
        templates()
        .get_template("probes.html.j2")
        .render(
            table=table,
            counts=counts(table),
            groups=list(dict.fromkeys(each.group for each in table.properties)),
            label=label,
            small=small,
            tuning=tuning(table),
            times=time_lines(times),
            tuned=[(row, row.tuned) for row in times.rows if row.tuned],
            environment=environment_rows(environment),
        )
    )

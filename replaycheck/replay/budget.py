"""``run --budget 10m``: how many groups fit, fixed from a calibration before anything is judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from replaycheck.errors import UsageError

from .dry import calibrated
from .groups import Groups
from .settings import Settings
from .store import Run, read_environment

__all__ = ["seconds_of", "within_budget"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """``90s``, ``10m``, ``1.5h``.

    Raises:
        UsageError: it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or float(found[1]) == 0:
        raise UsageError(f"--budget {text!r}: give a time above 0 as 90s, 10m or 1.5h")
    return float(found[1]) * _UNITS[found[2]]


def within_budget(settings: Settings, budget: str, workers: int, resumed: Run | None = None) -> Settings:
    """The settings with as many groups as fit, spread evenly over the suite; a resumed run keeps the number it began with.

    Replay alone is budgeted: the start, the probes and the summary take about as long for one group as for all.

    Raises:
        UsageError: not even one group fits.
    """
    seconds, total = seconds_of(budget), len(settings.groups)
    number = _before(resumed) if resumed else _fitting(*calibrated(settings), seconds * workers)
    if not number:
        raise UsageError(f"--budget {budget}: not even one of the {total} groups fits; give more time")
    if number >= total:
        return settings
    said = f"{number} of {total} groups, spread evenly: --budget fixed their number before anything was judged"
    groups = Groups.of(settings.groups.parse(index) for index in spread(total, number))
    return replace(settings, groups=groups, notes=(*settings.notes, said))


def spread(total: int, number: int) -> list[int]:
    """``number`` of ``total`` places, evenly.

    >>> spread(10, 4)
    [0, 2, 5, 7]
    """
    return [at * total // number for at in range(number)]


def _fitting(rate: float, costs: Sequence[int], seconds: float) -> int:
    """The most groups, evenly spread, whose cost at ``rate`` seconds a token is within ``seconds``."""
    fits = (n for n in range(len(costs), 0, -1) if rate * sum(costs[at] for at in spread(len(costs), n)) <= seconds)
    return next(fits, 0)


def _before(run: Run) -> int:
    """How many groups the run began with, from its inputs."""
    said = read_environment(run).inputs.get("groups", "")
    number = said.partition(" ")[0]
    return int(number) if number.isdigit() else 10**9

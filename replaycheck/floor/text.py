"""A floor as lines of text, for a terminal: a row a measure, then what an F_run of 0 means."""

from __future__ import annotations

from replaycheck.report.text import number, plural
from replaycheck.schema.estimate import Estimate
from replaycheck.schema.floor import FloorFile, Floors, Measure
from replaycheck.text import aligned, printable

__all__ = ["floor_text", "zero_lines"]

_HEAD = (
    "floor", "control", "kernels", "answers", "policy", "pool", "differ", "s", "p99", "p999", "max", "worst trace",
    "window", "flips", "state error",
)  # fmt: skip


def floor_text(found: FloorFile) -> str:
    """A table with one line a measure, and what an F_run of 0 means."""
    place = found.place
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in place.versions.items())
    lines = [
        f"Floors of {place.subject}, model {place.model} ({place.model_digest[:12]}), recipe {place.recipe}, "
        f"kernels {place.kernels}",
        f"on {place.device}, {place.device_name or 'unnamed'}; {versions}",
        f"suite {found.suite}, {found.groups:,} groups, seed {found.seed}",
        "",
        *aligned([_HEAD, *(_row(each) for each in found.floors.measures)]),
        "",
        "s: rms of Δ log p in a trace, mean over traces with its 95 % interval; window: mean |Δ log p| in the 64 tokens",
        "after a restored state; state error: of one cast to the pool dtype, mean and largest; nat.",
        *zero_lines(found.floors),
        *(f"not measured: {each}" for each in found.floors.not_measured),
    ]
    return "\n".join(printable(line) for line in lines) + "\n"


def zero_lines(floors: Floors) -> list[str]:
    """What F_run says: exact-zero mode with its bound, or noise."""
    if floors.deterministic is None:
        return []
    seen = [each for each in floors.measures if each.control.kind == "run" and each.positions]
    positions, differ = sum(each.positions for each in seen), sum(each.bits_differ for each in seen)
    if floors.deterministic:
        bound = max(each.bits_differ_bound for each in seen)
        return [
            f"F_run is 0: {positions:,} positions of {plural(len(seen), 'cold path')} had the same bits twice (of each, at "
            f"most {bound:.2g} of positions differ, 95 %). Exact-zero mode: mismatches are counted, none is allowed."
        ]
    return [
        f"F_run isn't 0: {differ:,} of {positions:,} positions differ between two equal runs; no bitwise gate holds."
    ]


def _row(each: Measure) -> tuple[str, ...]:
    at = each.abs_dlogp
    return (
        f"F_{each.kind}",
        str(each.control),
        f"{each.history}-{each.tail}",
        str(each.answers),
        each.policy,
        str(each.pool),
        f"{each.bits_differ:,} of {each.positions:,}",
        _estimate(each.spread),
        *(f"{at[level]:.3g}" if level in at else "–" for level in ("p99", "p999", "max")),
        number(each.worst_trace_abs_dlogp.value),
        number(each.window_abs_dlogp.value),
        f"{each.flips:,}",
        _state(each),
    )


def _estimate(found: Estimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return number(found.value)
    return f"{found.value:.3g} ({max(0.0, found.low):.2g} to {found.high:.2g})"


def _state(each: Measure) -> str:
    if each.state_rel_error is None:
        return "–"
    return f"{number(each.state_rel_error.value)}, {number(each.state_rel_error_max)}"

"""The statistics of traces as lines for the terminal: what ``trace stats`` prints."""

from __future__ import annotations

from collections.abc import Iterator

from replaycheck.schema.arm import CHUNK
from replaycheck.traces.stats import LEVELS, MEASURES, SHARE_UNIT, TraceStats, quantiles_of

__all__ = ["stats_lines"]

_NAME = max(map(len, MEASURES.values()))


def stats_lines(stats: TraceStats) -> Iterator[str]:
    """What ``trace stats`` prints."""
    yield f"{stats.groups} groups, {stats.requests} requests, {stats.prompt_tokens} prompt tokens"
    if stats.prompt_tokens:
        yield (
            f"an earlier request of the trace has computed {stats.shared / stats.prompt_tokens:.1%} of them "
            "(a cache without limits)"
        )
    yield ""
    yield f"{'':{_NAME}}" + "".join(f"{name:>9}" for name in ("n", *LEVELS))
    yield from (_measure(stats, name) for name in MEASURES)
    yield ""
    yield "what a request does    " + _shares(stats)
    yield f"prompts mod {CHUNK}         " + _residues(stats)
    if stats.events:
        yield "events                 " + ", ".join(f"{kind} {count}" for kind, count in sorted(stats.events.items()))
    yield from _policies(stats)


def _measure(stats: TraceStats, name: str) -> str:
    counts = stats.counts[name]
    found = quantiles_of(counts)
    shown = [f"{found[level] / SHARE_UNIT:.3f}" if name == "previous_share" else str(found[level]) for level in found]
    return f"{MEASURES[name]:{_NAME}}{counts.total():9}" + "".join(f"{value:>9}" for value in shown)


def _shares(stats: TraceStats) -> str:
    return ", ".join(f"{kind} {count} ({count / stats.requests:.1%})" for kind, count in stats.kinds.most_common())


def _residues(stats: TraceStats) -> str:
    p = stats.uniform_p()
    uniform = "too few to say whether they are uniform" if p is None else f"p of uniform {p:.2g}"
    near = f"{CHUNK - 1}, 0 or 1 in {stats.near_grid} ({stats.near_grid / max(stats.requests, 1):.1%}; uniform: 4.7%)"
    return f"{near}; {uniform}"


def _policies(stats: TraceStats) -> Iterator[str]:
    if not stats.planned:
        return
    yield ""
    yield "expected with a cache that holds everything (groups one by one)"
    width = max(map(len, stats.planned))
    yield f"  {'policy':{width}}     hits  requests  prompt tokens computed again"
    for name, count in stats.planned.items():
        yield f"  {name:{width}}{count.hits:9}{count.requests:10}{count.recomputed:11.2%}"
    if stats.unplanned:
        yield f"  without {stats.unplanned} groups whose prompts are too long to plan"

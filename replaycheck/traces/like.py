"""Draw traces with the measured statistics of others: lengths, turns, pull-backs, returns, forks, distances.

A request is drawn whole from the source's (what it continues, what it keeps, what is new, how long its answer is), so that
what belongs together stays together; requests are drawn independently of each other. Lengths are multiplied by the scale.
Texts and answers are written by the generator: no text of the source is used, and no model is needed. Events aren't drawn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.schema.trace import TRACE_SCHEMA, Group, Request
from replaycheck.stats.two_samples import TwoSample, compare_kinds, compare_numbers
from replaycheck.traces.like_trace import draw_trace
from replaycheck.traces.pools import Pools
from replaycheck.traces.read import each_group
from replaycheck.traces.stats import LEVELS, MEASURES, SHARE_UNIT, TraceStats, quantiles_of
from replaycheck.traces.suites.draw import Draw
from replaycheck.traces.suites.voice import Voice
from replaycheck.traces.vocabulary import NAME
from replaycheck.traces.write import write_groups

__all__ = ["Likeness", "draw_groups", "draw_like", "measure"]

#: Measures that are lengths, which are multiplied by the scale.
_LENGTHS = ("prompt", "output", "new")


@dataclass(frozen=True)
class Likeness:
    """What was drawn beside its source, whose lengths are multiplied by the scale."""

    source: TraceStats
    drawn: TraceStats
    scale: float

    def expected(self, name: str) -> Counter[int]:
        """The counts of a measure in the source, scaled if it is a length."""
        counts = self.source.counts[name]
        if name not in _LENGTHS:
            return counts
        scaled: Counter[int] = Counter()
        for value, count in counts.items():
            scaled[round(value * self.scale)] += count
        return scaled

    def tests(self) -> dict[str, TwoSample]:
        """A comparison for each measure, and one for the kinds of requests."""
        found = {name: compare_numbers(self.expected(name), self.drawn.counts[name]) for name in MEASURES}
        return found | {"kinds": compare_kinds(self.source.kinds, self.drawn.kinds)}

    def record(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "scale": self.scale,
            "source": self.source.record(),
            "drawn": self.drawn.record(),
            "tests": {name: asdict(test) for name, test in self.tests().items()},
        }

    def lines(self) -> Iterator[str]:
        """A table: each measure in the source (scaled) and in what was drawn, and how far both are apart."""
        yield f"{self.drawn.groups} groups drawn like {self.source.groups}; lengths of the source times {self.scale:g}"
        yield f"{'':46}{'source p50':>11}{'drawn':>8}{'source p90':>12}{'drawn':>8}{'distance':>10}{'p':>9}"
        for name, test in self.tests().items():
            if name in MEASURES:
                yield self._line(name, test)
        kinds = self.tests()["kinds"]
        yield f"{'what a request does (total variation, χ²)':46}{'':39}{_number(kinds.distance):>10}{_number(kinds.p):>9}"
        for kind in sorted({*self.source.kinds, *self.drawn.kinds}):
            shares = [each.kinds[kind] / max(each.requests, 1) for each in (self.source, self.drawn)]
            yield f"  {kind:44}{shares[0]:11.1%}{shares[1]:8.1%}"
        yield "distance: Kolmogorov-Smirnov. p takes requests as independent; those of a trace aren't, so it judges nothing."

    def _line(self, name: str, test: TwoSample) -> str:
        ours, theirs = quantiles_of(self.expected(name), LEVELS), quantiles_of(self.drawn.counts[name], LEVELS)
        unit = SHARE_UNIT if name == "previous_share" else 1
        cells = [_value(each, level, unit) for level in ("p50", "p90") for each in (ours, theirs)]
        shown = f"{cells[0]:>11}{cells[1]:>8}{cells[2]:>12}{cells[3]:>8}"
        return f"{MEASURES[name]:46}{shown}{_number(test.distance):>10}{_number(test.p):>9}"


def _value(found: dict[str, int], level: str, unit: int) -> str:
    if level not in found:
        return "-"
    return str(found[level]) if unit == 1 else f"{found[level] / unit:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.0e}"


def draw_like(source: Path, out: Path, count: int, scale: float, seed: int) -> Likeness:
    """Measure a trace file, write ``count`` groups like its own, and compare. Memory grows with neither's groups.

    Raises:
        UsageError: the source can't be read, or has no request.
    """
    measured, pools = measure(source, seed)
    drawn = TraceStats(policies=())

    def passing() -> Iterator[Group]:
        for group in draw_groups(pools, count, scale, seed):
            drawn.add(group)
            yield group

    write_groups(out, passing(), distinct=True)
    return Likeness(measured, drawn, scale)


def measure(source: Path, seed: int) -> tuple[TraceStats, Pools]:
    """The statistics of a trace file, and samples of its requests."""
    stats, pools = TraceStats(policies=()), Pools.empty(seed)
    for group in each_group(source):
        pools.add(stats.add(group))
    if not pools.firsts.items:
        raise UsageError(f"{source}: no group has a request; give traces with requests to draw from")
    return stats, pools


def draw_groups(pools: Pools, count: int, scale: float, seed: int) -> Iterator[Group]:
    """Groups named ``like-000001`` and so on. The same seed gives the same first groups whatever the count."""
    for number in range(1, count + 1):
        yield _group(pools, f"like-{number:06d}", scale, seed)


def _group(pools: Pools, name: str, scale: float, seed: int) -> Group:
    draw = Draw(seed, "like", name)
    drawn = [
        draw_trace(name if index == 0 else f"{name}.{index}", pools, draw, Voice(seed, "like", name, str(index)), scale)
        for index in range(draw.pick(pools.traces.items))
    ]
    return Group(
        schema=TRACE_SCHEMA,
        group=name,
        archetype="drawn",
        vocabulary=NAME,
        traces=tuple(trace for trace, _ in drawn),
        requests=tuple(_interleaved([(trace.id, deque(answers)) for trace, answers in drawn], pools.switching, draw)),
    )


def _interleaved(left: list[tuple[str, deque[str]]], switching: float, draw: Draw) -> Iterator[Request]:
    """The requests of all traces; after each, with this probability, the next one is another trace's."""
    current = left[0]
    while unfinished := [each for each in left if each[1]]:
        others = [each for each in unfinished if each is not current]
        if others and (not current[1] or draw.chance(switching)):
            current = draw.pick(others)
        yield Request(trace=current[0], turn=current[1].popleft())

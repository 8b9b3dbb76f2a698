"""Make a suite: its specs, with answers sampled by the float64 oracle; and compare it with the file that ships."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from time import monotonic

from replaycheck import assets
from replaycheck.model.checkpoint import digest
from replaycheck.schema.trace import Group
from replaycheck.traces.specs import Answer, GroupSpec, Say
from replaycheck.traces.suites.catalog import SHIPPED_SEED, SuiteSource
from replaycheck.traces.suites.quick import TEMPERATURE
from replaycheck.traces.synth import GroupBuild, Origin
from replaycheck.traces.write import dump_group, write_groups

from .sample import OracleSampler
from .worker import one_thread

__all__ = ["Difference", "Made", "check_suite", "first_difference", "make_suite", "shipped_file", "write_suite"]

Talk = Callable[[str], None]

#: Tokens of the trees that the oracle makes in a second of one core, prompts read again included (docs/traces.md).
TOKENS_PER_SECOND = 270

#: Seconds between two lines of progress.
_EVERY = 5.0


@dataclass(frozen=True)
class Difference:
    """The first line that differs; the groups that are there, None past a file's end."""

    line: int
    made: str | None
    shipped: str | None

    def __str__(self) -> str:
        made, shipped = self.made or "nothing", self.shipped or "nothing"
        return f"line {self.line}: made is {made}, and the file has {shipped if shipped != made else 'another one'}"


@dataclass(frozen=True)
class Made:
    """What came out. groups: how many were made. difference: from the shipped file, None if there is none of either."""

    groups: int
    shipped: Path | None
    difference: Difference | None


def make_suite(
    source: SuiteSource, size: str, seed: int, model: Path, say: Talk = lambda line: None
) -> Iterator[Group]:
    """The groups of a suite, with progress. On one thread: the oracle's rows are too small to share."""
    one_thread()
    tokens, answers, groups = 0, 0, 0
    for spec in source.make(size, seed):
        groups, tokens, answers = groups + 1, tokens + _tokens(spec), answers + _answers(spec)
    say(f"suite {source.name}, {size}, seed {seed}: {groups} groups, {answers} answers, at most {tokens} tokens")
    say(f"about {tokens / TOKENS_PER_SECOND:.0f} s of one core")
    origin = Origin(digest(model), seed, TEMPERATURE)
    sampler = OracleSampler(model, TEMPERATURE)
    builds = (GroupBuild(spec, origin) for spec in source.make(size, seed))
    yield from sampler.build(builds, _progress(answers, say))


def _progress(answers: int, say: Talk) -> Callable[[int], None]:
    """Says now and then how far it is, as if all answers took as long as those that are done."""
    started = last = monotonic()

    def tell(done: int) -> None:
        nonlocal last
        now = monotonic()
        if now - last >= _EVERY and done:
            last = now
            say(f"{done} of {answers} answers, about {(now - started) / done * (answers - done):.0f} s left")

    return tell


def _answers(spec: GroupSpec) -> int:
    """Answers that are sampled; an empty one isn't."""
    return sum(isinstance(turn, Answer) and turn.limit > 0 for trace in spec.traces for turn in trace.turns)


def _tokens(spec: GroupSpec) -> int:
    """Tokens of all turns if every answer is as long as it may be; copies are left out."""
    turns = [turn for trace in spec.traces for turn in trace.turns]
    said = sum(len(turn.text) + 2 for turn in turns if isinstance(turn, Say))
    return said + sum(turn.limit + 2 for turn in turns if isinstance(turn, Answer))


def shipped_file(source: SuiteSource, size: str, seed: int) -> Path | None:
    """The file that ships and was made with these, if there is one."""
    found = assets.trace_suites().get(source.shipped_as(size))
    return found if seed == SHIPPED_SEED else None


def write_suite(groups: Iterator[Group], path: Path, shipped: Path | None) -> Made:
    """Write groups, and compare them with what ships."""
    count = write_groups(path, groups)
    with path.open(encoding="utf-8") as lines:
        difference = first_difference((line.rstrip("\n") for line in lines), shipped) if shipped else None
    return Made(count, shipped, difference)


def check_suite(groups: Iterator[Group], shipped: Path) -> Made:
    """Compare groups with what ships; stops at the first difference."""
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        for group in groups:
            count += 1
            yield dump_group(group)

    difference = first_difference(lines(), shipped)
    return Made(count, shipped, difference)


def first_difference(made: Iterable[str], path: Path) -> Difference | None:
    """Where lines that were made and a file part, if they do."""
    with path.open(encoding="utf-8") as lines:
        for number, (ours, theirs) in enumerate(zip_longest(made, (line.rstrip("\n") for line in lines)), 1):
            if ours != theirs:
                return Difference(number, _name(ours), _name(theirs))
    return None


def _name(line: str | None) -> str | None:
    return None if line is None else str(json.loads(line)["group"])

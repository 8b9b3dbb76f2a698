"""Suites by name: what they are called, in which sizes they come, and what ships."""

from __future__ import annotations

import pytest

from replaycheck import assets
from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces.read import read_groups
from replaycheck.traces.suites.archetypes.table import ARCHETYPES
from replaycheck.traces.suites.catalog import SHIPPED_SEED, SUITES, suite_source
from replaycheck.traces.synth import Ask, GroupBuild, Origin
from replaycheck.traces.write import dump_group

SHIPPED = [
    ("quick", "small"),
    ("speculation", "small"),
    ("ci", "small"),
    ("archetypes", "small"),
    ("archetypes", "medium"),
    ("boundary", "small"),
]


def test_an_unknown_suite_or_size_names_the_choices() -> None:
    with pytest.raises(UsageError, match=r"--suite 'nope' is unknown; suites that can be made are 'quick', "):
        suite_source("nope")
    with pytest.raises(UsageError, match="--size 'huge' is unknown; sizes are 'small', 'medium' or 'large'"):
        SUITES["archetypes"].make("huge", 0)
    with pytest.raises(UsageError, match="--size 'large': suite 'ci' comes in one size; leave --size out"):
        SUITES["ci"].make("large", 0)


def test_there_are_seventeen_archetypes_and_each_is_a_suite() -> None:
    assert len(ARCHETYPES) == 17
    assert set(ARCHETYPES) < set(SUITES)


@pytest.mark.parametrize(("name", "size"), SHIPPED)
def test_what_ships_is_what_the_specs_give_with_its_answers(name: str, size: str) -> None:
    """The answers of the file are put back into the specs; the texts, positions, drafts and order must come out the same."""
    shipped = read_groups(assets.trace_suite(SUITES[name].shipped_as(size)))
    specs = list(SUITES[name].make(size, SHIPPED_SEED))
    for group, spec in zip(shipped, specs, strict=True):
        contents = {(t.id, turn.id): turn for t in group.traces for turn in t.turns}
        sampled = next(turn.sampled for turn in contents.values() if turn.sampled)
        build = GroupBuild(spec, Origin(sampled.model, SHIPPED_SEED, sampled.temperature))
        while asks := build.asks():
            for ask in asks:
                build.give(ask, _content(group, ask))
        assert dump_group(build.group()) == dump_group(group)


def _content(group: Group, ask: Ask) -> list[int]:
    """What was sampled for this ask: the answer without its first tokens if it was forked."""
    (trace,) = (trace for trace in group.traces if trace.id == ask.trace)
    (turn,) = (turn for turn in trace.turns if turn.id == ask.turn)
    assert turn.sampled is not None
    return list(turn.tokens[1 + turn.sampled.limit - ask.limit : -1])

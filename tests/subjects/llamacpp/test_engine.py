"""The adapter: forced answers and their entries, cold and warm slots, an empty cache for each arm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replaycheck.errors import UsageError
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.engine import LlamaCpp, _wanted
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.learn import learn
from replaycheck.subjects.server.llamacpp.wire import Completion, Wire
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.traces.vocabulary import END

SPLIT = {"ctx-checkpoints": 0, "cache-ram": 0, "parallel": 1}

PROMPT, ANSWER = tuple(range(40, 100)), (65, 66, 67, END)


@pytest.fixture(params=["erased", "replaced"])
def engine(request: pytest.FixtureRequest, serve: Callable[..., LlamaServer]) -> LlamaCpp:
    """On a server that lets slots be emptied, and on one that doesn't and keeps no copy of what they held."""
    options = {} if request.param == "erased" else {"slot-save-path": "", "cache-ram": 0}
    wire = Wire(Client(serve("mamba", options).url), 20)
    told = SubjectOptions(settings=tuple((name, str(value)) for name, value in options.items() if value != ""))
    return LlamaCpp(wire, ServerSettings(), learn(wire, told))


def test_a_new_space_begins_empty_and_cold_uses_nothing(engine: LlamaCpp) -> None:
    warm, cold = Ask(PROMPT, len(ANSWER), forced=ANSWER), Ask(PROMPT, len(ANSWER), cold=True, forced=ANSWER)
    other = Ask(PROMPT[::-1], cold=True, scored=65)
    for space in ("a", "b"):
        engine.begin(space)
        first, off, _, again = engine.ask([warm, cold, other, warm])
        assert (first.cached, off.cached, again.cached) == (0, 0, len(PROMPT) - 4)
        assert (first.expected, off.expected, again.expected) == (0, None, len(PROMPT) - 4)
        assert again.why == "as expected, from a checkpoint"
        assert first.tokens == off.tokens == ANSWER
        for one, two in zip(first.entries, off.entries, strict=True):
            assert one and two and one[0] == pytest.approx(two[0], abs=1e-4)


def test_options_that_nobody_told_show_as_hits_that_come_out_otherwise(serve: Callable[..., LlamaServer]) -> None:
    wires = [Wire(Client(serve("mamba", options).url), 20) for options in ({"ctx-checkpoints": 1}, SPLIT)]
    learnt = learn(wires[0], SubjectOptions())
    assert "ctx-checkpoints" in learnt.not_seen[0]
    engine = LlamaCpp(wires[0], ServerSettings(), learnt, wires[1])
    engine.begin("a")
    short, more = Ask(PROMPT, 3, forced=ANSWER[:3]), Ask(PROMPT + ANSWER[:3] + PROMPT[:20], 1, forced=(65,))
    found = engine.ask([short, more, short])
    assert [each.expected for each in found] == [0, len(PROMPT) + 2, len(PROMPT) - 4]
    assert [each.cached for each in found] == [0, len(PROMPT) + 2, 0] and found[2].why.startswith("missed")
    # Where the last one's state was cut isn't known, so it isn't built again.
    split = engine.ask(
        [replace(ask, cold=True, cuts=each.cuts or ()) for ask, each in zip((short, more, short), found, strict=True)]
    )
    assert [each.entries[0] is not None for each in split] == [True, True, False]
    assert split[1].entries == found[1].entries


def test_what_was_told_is_expected(serve: Callable[..., LlamaServer]) -> None:
    wire = Wire(Client(serve("mamba", {"ctx-checkpoints": 1}).url), 20)
    engine = LlamaCpp(wire, ServerSettings(), learn(wire, SubjectOptions(settings=(("ctx-checkpoints", "1"),))))
    engine.begin("a")
    short, more = Ask(PROMPT, 3, forced=ANSWER[:3]), Ask(PROMPT + ANSWER[:3] + PROMPT[:20], 1, forced=(65,))
    found = engine.ask([short, more, short])
    assert [each.expected for each in found] == [each.cached for each in found] == [0, len(PROMPT) + 2, 0]
    assert found[2].why.startswith("no hit expected")
    with pytest.raises(UsageError, match="ctx-checkpoints=few"):
        learn(wire, SubjectOptions(settings=(("ctx-checkpoints", "few"),)))


def test_a_free_answer_goes_on_behind_an_end(engine: LlamaCpp) -> None:
    (free,) = engine.ask([Ask(PROMPT, 12)])
    assert len(free.tokens) == len(free.entries) == 12 and END not in free.tokens
    with pytest.raises(UsageError, match="no log-probabilities of prompt tokens"):
        engine.whole(PROMPT, 3)


def test_another_end_than_the_wanted_one_is_looked_up_and_ends_what_is_known() -> None:
    entries = ((-1.0, {5: -1.0, 6: -2.0}), (-0.5, {7: -0.5, 8: -3.0}), (-0.1, {9: -0.1}))
    said = Completion((5, 7, 9), entries, 0, 3, 0, False, "eos")
    assert _wanted(said, (5, 8, 9)) == (entries[0], (-3.0, entries[1][1]), None)
    assert _wanted(said, (5, 4)) == (entries[0], (None, entries[1][1]))
    assert _wanted(said, (5, 7, 9, 2)) == (*entries, None)

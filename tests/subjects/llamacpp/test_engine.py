"""The adapter: forced answers and their entries, cold and warm slots, an empty cache for each arm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replaycheck.errors import UsageError
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.engine import LlamaCpp, _wanted
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.wire import Completion, Wire
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.traces.vocabulary import END

PROMPT, ANSWER = tuple(range(40, 100)), (65, 66, 67, END)


@pytest.fixture(params=["erased", "replaced"])
def engine(request: pytest.FixtureRequest, serve: Callable[..., LlamaServer]) -> LlamaCpp:
    """On a server that lets slots be emptied, and on one that doesn't and keeps no copy of what they held."""
    options = {} if request.param == "erased" else {"slot-save-path": "", "cache-ram": 0}
    return LlamaCpp(Wire(Client(serve("mamba", options).url), 20), ServerSettings())


def test_a_new_space_begins_empty_and_cold_uses_nothing(engine: LlamaCpp) -> None:
    warm, cold = Ask(PROMPT, len(ANSWER), forced=ANSWER), Ask(PROMPT, len(ANSWER), cold=True, forced=ANSWER)
    other = Ask(PROMPT[::-1], cold=True, scored=65)
    for space in ("a", "b"):
        engine.begin(space)
        first, off, _, again = engine.ask([warm, cold, other, warm])
        assert (first.cached, off.cached, again.cached) == (0, 0, len(PROMPT) - 4)
        assert first.tokens == off.tokens == ANSWER
        for one, two in zip(first.entries, off.entries, strict=True):
            assert one and two and one[0] == pytest.approx(two[0], abs=1e-4)


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

"""Prefixes are equal by where their tokens come from, up to the very token where a fork parts from its source."""

from __future__ import annotations

from replaycheck.schedule.prefix.origin import Prefixes, labels
from replaycheck.state_probes.groups import group, shared_answers, turn
from replaycheck.traces.tree import request_paths


def test_a_fork_shares_its_source_s_tokens_and_not_one_more() -> None:
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q"], [8, 8], [8, 5])]
    p, q = request_paths(group(turns, ["p", "q"]))
    for offset in range(6):
        prefixes, forks = Prefixes(), {"q": ("p", offset)}
        source, fork = prefixes.of(labels(p, forks)), prefixes.of(labels(q, forks))
        shared = p.prompt + offset
        assert source[: shared + 1] == fork[: shared + 1]
        assert source[shared + 1] != fork[shared + 1]


def test_answers_that_are_no_forks_share_their_prompt_even_if_they_say_the_same() -> None:
    turns = [turn("u", None, "user", 9), *shared_answers("u", ["p", "q"], [8, 8], [8, 8])]
    p, q = (labels(path, {}) for path in request_paths(group(turns, ["p", "q"])))
    assert [a == b for a, b in zip(p, q, strict=True)] == [True] * 13 + [False] * 9


def test_no_tokens_are_prefix_0_and_longer_prefixes_are_all_unlike() -> None:
    prefixes = Prefixes()
    numbers = prefixes.of([("a", 0), ("a", 0), ("b", 1)])
    assert numbers[0] == 0
    assert len(set(numbers)) == 4
    assert prefixes.of([("a", 0), ("a", 0), ("c", 1)])[:3] == numbers[:3]
    assert prefixes.of([("b", 1)])[1] not in numbers

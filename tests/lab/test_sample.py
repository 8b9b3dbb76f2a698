"""The sampler of answers: the float64 oracle, a seed, a limit, END, and no roles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from replaycheck.replay import sample
from replaycheck.replay.sample import OracleSampler
from replaycheck.schema.trace import Request
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.traces.specs import Answer, GroupSpec, Say, TraceSpec
from replaycheck.traces.synth import GroupBuild, Origin
from replaycheck.traces.vocabulary import BOS, END, SIZE, USER, prompt_header, turn_tokens
from replaycheck_kernels.recipe import ORACLE
from replaycheck_kernels.registry import ours

PROMPT = [BOS, *turn_tokens("user", "Why?"), *prompt_header("assistant")]


class Draws:
    """A generator whose next uniform number is given."""

    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.fixture(scope="module")
def sampler(model: Path) -> OracleSampler:
    return OracleSampler(model, temperature=1.0)


def test_a_seed_gives_the_same_answer_and_another_seed_another(sampler: OracleSampler) -> None:
    first = sampler(PROMPT, 12, 0)
    assert sampler(PROMPT, 12, 0) == first
    assert any(sampler(PROMPT, 12, seed) != first for seed in (1, 2))
    assert sampler(PROMPT, 5, 0) == first[:5], "the limit cuts and changes nothing else"


def test_the_limit_is_kept_and_only_text_is_sampled(sampler: OracleSampler) -> None:
    for seed, limit in ((0, 0), (1, 1), (2, 9)):
        answer = sampler(PROMPT, limit, seed)
        assert len(answer) <= limit
        assert all(0 <= token < 128 for token in answer)


def test_end_stops_an_answer_and_is_not_returned(sampler: OracleSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    script = iter([72, 105, END, 33])
    monkeypatch.setattr(sampler, "_draw", lambda logits, draws: next(script))
    assert sampler(PROMPT, 10, 0) == [72, 105]
    assert next(script) == 33


def test_temperature_zero_takes_the_most_likely_text_token_of_the_whole_prompt(model: Path) -> None:
    network, answer = Network(model, ORACLE, ours(ORACLE, "cpu")), OracleSampler(model, temperature=0.0)(PROMPT, 4, 0)
    line = list(PROMPT)
    for token in answer:
        with torch.no_grad():
            logits = network.forward([RowInput(line, 0, "recurrent", network.empty_state())])[0].logits[-1]
        allowed = [*range(128), END]
        assert token == max(allowed, key=lambda i: float(logits[i]))
        line.append(token)
    assert answer


def test_a_draw_inverts_the_distribution_over_text_and_end(sampler: OracleSampler) -> None:
    logits = torch.full((SIZE,), -50.0, dtype=torch.float64)
    logits[USER] = 100.0  # a role is never sampled, however likely
    logits[65], logits[66], logits[END] = np.log([0.2, 0.5, 0.3]).tolist()
    for value, token in ((0.1, 65), (0.3, 66), (0.65, 66), (0.75, END), (1 - 1e-16, END)):
        assert sampler._draw(logits, Draws(value)) == token  # type: ignore[arg-type]
    source = np.random.default_rng(0)
    counts = Counter(sampler._draw(logits, source) for _ in range(3000))
    # Five standard deviations of a binomial share of 3,000 draws.
    assert counts[66] / 3000 == pytest.approx(0.5, abs=5 * (0.25 / 3000) ** 0.5)
    assert set(counts) == {65, 66, END}


def _specs() -> list[GroupSpec]:
    """Two groups: branches, a fork, an answer that must be long, one that is continued, and one that says nothing."""
    turns = (
        Say("u", None, "user", "Why is the sky so far away from the ground?"),
        Answer("a", "u", 9, least=9),
        Answer("b", "u", 7),
        Answer("c", "u", 12, least=8, fork=("a", 5)),
        Say("v", "a", "user", "And then?"),
        Answer("d", "v", 6),
        Answer("e", "v", 0),
    )
    return [GroupSpec(name, "", (TraceSpec("t", turns),), (Request(trace="t", turn="d"),)) for name in ("g", "h")]


def test_answers_sampled_side_by_side_are_those_sampled_alone(
    sampler: OracleSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = Origin("0" * 32, 3, 1.0)
    together = list(sampler.build([GroupBuild(spec, origin) for spec in _specs()]))
    monkeypatch.setattr(sample, "ROWS", 1)
    assert [next(sampler.build([GroupBuild(spec, origin)])) for spec in _specs()] == together
    assert together[0].traces != together[1].traces, "a group's name is part of its seeds"
    for group in together:
        turns = {turn.id: turn for turn in group.traces[0].turns}
        for name, parents in (("b", "u"), ("d", "uav")):
            answer = turns[name]
            prompt = [BOS, *(token for each in parents for token in turns[each].tokens), *prompt_header("assistant")]
            assert answer.sampled is not None
            assert list(answer.tokens[1:-1]) == sampler(prompt, answer.sampled.limit, answer.sampled.seed)
        assert turns["c"].tokens[:6] == turns["a"].tokens[:6]
        assert len(turns["a"].tokens) == 9 + 2
        assert len(turns["c"].tokens) >= 8 + 2
        assert turns["e"].text == ""


def test_end_is_not_sampled_before_it_may_be(sampler: OracleSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that would end at once: as many tokens as must be, then END."""
    seen: list[bool] = []

    def draw(logits: torch.Tensor, draws: object) -> int:
        allowed = bool(torch.isfinite(logits[END]))
        seen.append(allowed)
        return END if allowed else 65

    monkeypatch.setattr(sampler, "_draw", draw)
    spec = GroupSpec("g", "", (TraceSpec("t", (Say("u", None, "user", "?"), Answer("a", "u", 9, least=4))),), ())
    spec = replace(spec, requests=(Request(trace="t", turn="a"),))
    (group,) = sampler.build([GroupBuild(spec, Origin("0" * 32, 0, 1.0))])
    assert group.traces[0].turns[1].text == "AAAA"
    assert seen == [False] * 4 + [True]


def test_a_state_is_computed_once_and_groups_don_t_keep_theirs(sampler: OracleSampler) -> None:
    before = sampler.tokens
    list(sampler.build(GroupBuild(spec, Origin("0" * 32, 3, 1.0)) for spec in _specs()))
    # A group: BOS, 45 of u and a role token; a's 9, b's at most 7, c's 12 with its first 5 again; the 13 of v with END
    # and a role token, d's 6.
    assert sampler.tokens - before <= 2 * (47 + 9 + 7 + 13 + 14 + 6)

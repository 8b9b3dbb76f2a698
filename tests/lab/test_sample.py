"""The sampler of answers: the float64 oracle, a seed, a limit, END, and no roles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from replaycheck.replay.sample import OracleSampler
from replaycheck.subjects.lab.network import Network, RowInput
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

"""Hits: found out, predicted, explained, and the cuts that they made."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.subjects.server.cuts import Cuts
from replaycheck.subjects.server.engine import Ask, Reply
from replaycheck.subjects.server.expect import Expectation, explain
from replaycheck.subjects.server.learn import learn
from tests.subjects.toy_model import CacheFaults, ToyEngine

BLOCKS = VllmPolicy(cache="vllm-align", block=16)


class Caching:
    """Hits at block ends, and nothing else."""

    def __init__(self, block: int, reports: bool = True) -> None:
        self.block, self.reports, self.sent = block, reports, set[tuple[int, ...]]()

    def begin(self, space: str) -> None:
        self.sent.clear()

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        found = []
        for ask in asks:
            hit = (len(ask.tokens) - 1) // self.block * self.block if ask.tokens in self.sent else 0
            self.sent.add(ask.tokens)
            found.append(Reply((1,), (None,), hit if self.reports else None))
        return found


@pytest.mark.parametrize("block", [16, 32, 64, 128, 256, 384, 512, 528, 544, 1024, 1072])
def test_blocks_are_found_out(block: int) -> None:
    assert learn(Caching(block), None, 8192).block == block


def test_short_servers_leave_large_blocks_unknown_and_say_so() -> None:
    found = learn(Caching(384), None, 600)
    assert (found.reports, found.block) == (True, None)
    assert "block=N" in found.not_seen[0]


@pytest.mark.parametrize("given", [None, 64])
def test_servers_that_report_nothing_are_told_what_to_start_with(given: int | None) -> None:
    found = learn(Caching(64, reports=False), given, 8192)
    assert not found.reports
    assert "--enable-prompt-tokens-details" in found.not_seen[0]


def conversation(turns: int, seed: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompts and answers of a session with a branch, lengths at random."""
    draws = random.Random(seed)
    paths: list[tuple[int, ...]] = [(141,)]
    asked = []
    for _ in range(turns):
        path = (*draws.choice(paths), *draws.choices(range(100), k=draws.randint(1, 40)))
        answer = tuple(draws.choices(range(100), k=draws.randint(1, 20)))
        asked.append((path, answer))
        paths.append(path + answer)
    return asked


@pytest.mark.parametrize("seed", range(6))
def test_the_shadow_predicts_every_hit_of_a_block_cache(seed: int) -> None:
    toy, shadow = ToyEngine(16), Expectation(BLOCKS)
    for prompt, _ in conversation(20, seed):
        assert shadow.hit(prompt) == toy.prompt("salt", prompt)[0]
        shadow.sent(prompt, (1,))


def test_a_decoded_answer_is_found_by_the_prompt_that_holds_it() -> None:
    shadow = Expectation(VllmPolicy(cache="vllm-align", block=4, retain="all"))
    shadow.sent((1, 2, 3), (4, 5, 6, 7, 8, 9))
    assert shadow.hit((1, 2, 3, 4, 5, 6, 7, 8, 9, 9)) == 8
    assert shadow.hit((1, 2, 3, 4, 5, 6, 7, 7)) == 4


def test_sglang_hits_exact_ends() -> None:
    shadow = Expectation(SglangPolicy(cache="sglang-no-buffer"))
    shadow.sent((1, 2, 3), (4, 5))
    assert shadow.hit((1, 2, 3, 4, 9)) == 4
    assert shadow.hit((1, 2, 3)) == 0  # one token must be computed, and there is no state at 2


@pytest.mark.parametrize(
    ("policy", "expected", "actual", "words"),
    [
        (BLOCKS, 32, 32, "as expected"),
        (BLOCKS, 0, 0, "no hit expected: nothing before it"),
        (BLOCKS, 32, 0, "missed"),
        (BLOCKS, 32, 16, "short"),
        (BLOCKS, 16, 32, "longer"),
        (BLOCKS, 16, None, "not reported"),
        (None, None, 16, "not predicted"),
    ],
)
def test_each_outcome_has_its_words(policy: Policy | None, expected: int, actual: int | None, words: str) -> None:
    assert words in explain(policy, 40, expected, actual)


def test_a_prompt_within_a_block_can_not_hit() -> None:
    assert "no longer than a block of 16" in explain(BLOCKS, 16, 0, 0)


def test_cuts_are_the_whole_chain_of_the_restored_state() -> None:
    prompt = tuple(range(100))
    cuts = Cuts()
    cuts.saw(0, prompt[:40], 0)
    cuts.saw(1, prompt[:60], 32)
    cuts.saw(2, prompt[:90], 48)  # that state was built by request 1, from 32 on
    cuts.saw(3, prompt[:95], 32)
    assert [cuts.of(number, length) for number, length in ((0, 40), (1, 60), (2, 90), (3, 95))] == [
        (),
        (32,),
        (32, 48),
        (32,),
    ]


def test_a_never_hitting_cache_is_missed_not_expected() -> None:
    toy = ToyEngine(16, CacheFaults(never=True))
    prompt = tuple(range(40))
    toy.prompt("s", prompt)
    assert explain(BLOCKS, 40, 32, toy.prompt("s", prompt)[0]).startswith("missed")

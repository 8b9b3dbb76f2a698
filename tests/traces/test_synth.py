"""The quick suite and what it is built with, on a fake sampler."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replaycheck.errors import InternalError
from replaycheck.schema.trace import Group
from replaycheck.traces.checks import check_group
from replaycheck.traces.suites.quick import TEMPERATURE, quick_specs
from replaycheck.traces.synth import Answer, GroupSpec, Say, TraceSpec, fitted
from replaycheck.traces.tree import TokenPath, request_paths
from tests.sampling import Sample, Sampler, build_group

MODEL = "0123456789abcdef"
# The sizes that the first suite was given, so that a laptop replays it in minutes.
MAX_TOKENS, MAX_PROMPT_TOKENS = 4_500, 14_000


def longest(tokens: list[int], limit: int, seed: int) -> list[int]:
    return [97 + seed % 26] * limit


def shortest(tokens: list[int], limit: int, seed: int) -> list[int]:
    return []


def quick(sample: Sample, seed: int = 0, temperature: float = TEMPERATURE) -> list[Group]:
    sampler = Sampler(sample, MODEL, seed, temperature)
    return [build_group(spec, sampler) for spec in quick_specs()]


def paths_of(groups: list[Group], name: str) -> dict[str, TokenPath]:
    (group,) = (group for group in groups if group.group == name)
    return {path.turn: path for path in request_paths(group)}


@pytest.mark.parametrize("sample", [longest, shortest])
def test_quick_is_valid_and_small_for_any_length_of_answers(sample: Sample) -> None:
    groups = quick(sample)
    assert len(groups) == 8
    assert [problem for group in groups for problem in check_group(group)] == []
    turns = [turn for group in groups for trace in group.traces for turn in trace.turns]
    assert sum(len(turn.tokens) for turn in turns) <= MAX_TOKENS
    assert sum(path.prompt for group in groups for path in request_paths(group)) <= MAX_PROMPT_TOKENS


@pytest.mark.parametrize("sample", [longest, shortest])
def test_edges_end_where_they_say(sample: Sample) -> None:
    groups = quick(sample)
    near, far = paths_of(groups, "edges_64"), paths_of(groups, "edges_128")
    assert [near[turn].prompt for turn in ("xa1", "ya1", "za1")] == [63, 64, 65]
    assert [near[turn].prompt for turn in ("xa2", "ya2", "za2")] == [127, 128, 129]
    assert [near[turn].prompt for turn in ("xa3", "ya3", "za3")] == [191, 192, 193]
    assert [far[turn].prompt for turn in ("xa1", "ya1", "za1")] == [127, 128, 129]
    assert [far[turn].prompt for turn in ("xa2", "ya2", "za2")] == [193, 192, 191]


@pytest.mark.parametrize("sample", [longest, shortest])
def test_long_tails_span_several_chunks(sample: Sample) -> None:
    paths = paths_of(quick(sample), "long_tail")
    assert min(paths["a2"].prompt - paths["a1"].end, paths["a3"].prompt - paths["a2"].end) >= 130
    document = paths_of(quick(sample), "long_document_qa")
    assert min(document["a2"].prompt - document["a1"].end, document["a3"].prompt - document["a2"].end) > 64


def test_a_prompt_is_asked_again_one_token_short_of_what_is_stored() -> None:
    groups = quick(longest)
    (group,) = (group for group in groups if group.group == "one_token_and_full_hit")
    turns = [request.turn for request in group.requests]
    again = paths_of(groups, group.group)["a4"]
    assert turns.count("a4") == 2
    assert again.end - again.prompt == 1


def test_first_round_questions_are_whole_sentences() -> None:
    (group,) = (g for g in quick(longest) if g.group == "edges_64")
    firsts = [turn.text for turn in group.traces[0].turns if turn.parent == "s"]
    assert all(text.endswith("?") for text in firsts)


def test_user_siblings_start_with_different_characters() -> None:
    for group in quick(longest):
        starts = [(turn.parent, turn.text[0]) for turn in group.traces[0].turns if turn.role == "user"]
        assert len(set(starts)) == len(starts)


def test_the_same_seed_gives_the_same_suite_and_another_seed_another(fake_sample: Sample) -> None:
    assert quick(fake_sample) == quick(fake_sample)
    assert quick(fake_sample) != quick(fake_sample, seed=1)


def test_answers_record_how_they_were_sampled(fake_sample: Sample) -> None:
    groups = quick(fake_sample, seed=7, temperature=0.5)
    answers = [turn for group in groups for turn in group.traces[0].turns if turn.role == "assistant"]
    recorded = [turn.sampled for turn in answers if turn.sampled is not None]
    assert len(recorded) == len(answers)
    assert {(each.model, each.temperature) for each in recorded} == {(MODEL, 0.5)}
    assert len({each.seed for each in recorded}) == len(recorded)


def test_the_sampler_sees_the_prompt_up_to_the_role_token(fake_sample: Sample) -> None:
    seen: list[tuple[int, ...]] = []

    def spy(tokens: list[int], limit: int, seed: int) -> list[int]:
        seen.append(tuple(tokens))
        return fake_sample(tokens, limit, seed)

    paths = [path for group in quick(spy) for path in request_paths(group)]
    prompts = {path.tokens[: path.prompt] for path in paths if len(path.answer) > 1}
    assert prompts <= set(seen)


@pytest.mark.parametrize(
    ("text", "padding", "length", "expected"),
    [
        ("stay", "x", 4, "stay"),
        ("a longer text", "x", 5, "a lon"),
        ("ab cd", "x", 3, "ab."),
        ("go", "on", 9, "go on on."),
        ("hm", "", 8, "hm hm hm"),
    ],
)
def test_fitted_text_has_the_length_asked_for(text: str, padding: str, length: int, expected: str) -> None:
    made = fitted(text, padding, length)
    assert len(made) == length
    assert made == expected


def _spec(end: int, limit: int = 4) -> GroupSpec:
    turns = (Say("u", None, "user", "hello there", end), Answer("a", "u", limit))
    return GroupSpec("g", "", (TraceSpec("t", turns),), ())


def _sampler(sample: Callable[[list[int], int, int], list[int]]) -> Sampler:
    return Sampler(sample, MODEL, seed=0, temperature=1.0)


def test_a_target_that_lies_before_the_text_is_our_bug() -> None:
    with pytest.raises(InternalError, match=r"'u' can't end its prompt at 4: 1 tokens lie before it"):
        build_group(_spec(end=4), _sampler(longest))


@pytest.mark.parametrize("content", [[97] * 5, [134], [-1]], ids=["too long", "special token", "negative"])
def test_a_sampler_that_breaks_its_contract_is_our_bug(content: list[int]) -> None:
    with pytest.raises(InternalError, match=r"the sampler gave \d tokens for answer 'a'"):
        build_group(_spec(end=20), _sampler(lambda tokens, limit, seed: content))

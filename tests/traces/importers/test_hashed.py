"""Formats without words: each one's rule for the partial block, its scope of ids, its sessions and its order."""

from __future__ import annotations

import copy

import pytest

from replaycheck.schema.trace import Group, Rewind
from replaycheck.traces.tree import TokenPath, request_paths
from tests.traces.importers import formats as made
from tests.traces.importers.conftest import Import
from tests.traces.importers.formats import bailian_row, mooncake_row, round_, weka, weka_request


def shared(a: TokenPath, b: TokenPath) -> int:
    """Tokens that two paths begin with."""
    pairs = zip(a.tokens, b.tokens, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(a.end, b.end))


def rewinds(group: Group) -> list[tuple[str, str]]:
    return [(e.turn, e.to) for t in group.traces for e in t.events if isinstance(e, Rewind)]


def test_weka_has_no_id_for_the_partial_block_and_its_tail_is_the_turns_own(do: Import) -> None:
    (group,) = do("weka", weka(weka_request(0, 150, [1, 2]), weka_request(1, 150, [1, 2])))
    a, b = request_paths(group)
    assert (a.prompt, b.prompt) == (150, 150)
    assert shared(a, b) < 150 - 2 and shared(a, b) >= 128


def test_weka_a_tail_can_be_taken_from_the_next_prompt(do: Import) -> None:
    session = weka(weka_request(0, 150, [1, 2]), weka_request(1, 200, [1, 2, 3]))
    (group,) = do("weka", session, tails="next")
    a, b = request_paths(group)
    assert a.nodes[-2].turn in [node.turn for node in b.nodes]
    assert shared(a, b) == 150
    assert rewinds(group) == []


def test_weka_ids_of_two_files_are_never_joined(do: Import) -> None:
    one, other = weka(weka_request(0, 130, [1, 2])), weka(weka_request(0, 130, [1, 2], out=6))
    groups = do("weka", one, other)
    assert groups[0].traces[0].turns[0].text != groups[1].traces[0].turns[0].text
    for each in (one, other):
        each["hash_id_scope"] = "global"
    groups = do("weka", one, other)
    a, b = (request_paths(group)[0] for group in groups)
    assert a.tokens[2:120] == b.tokens[2:120]


def test_weka_the_same_file_gives_the_same_group(do: Import) -> None:
    session = weka(weka_request(0, 150, [1, 2]))
    assert do("weka", session) == do("weka", copy.deepcopy(session))


def test_weka_a_model_switch_shares_no_state(do: Import) -> None:
    requests = [weka_request(t, 130, [1, 2], model=model) for t, model in enumerate(("m1", "m2", "m1"))]
    (group,) = do("weka", weka(*requests))
    assert [request.trace for request in group.requests] == [f"source0-0001-main-{m}" for m in ("m1", "m2", "m1")]
    assert do.noted["model switch: the other model's requests are a trace of their own"] == 2


def test_weka_an_answer_of_no_tokens_is_an_empty_turn(do: Import) -> None:
    (group,) = do("weka", weka(weka_request(0, 130, [1, 2], out=0)))
    assert [turn.text for turn in group.traces[0].turns if turn.role == "assistant"] == [""]
    assert any("0 tokens" in note for note in do.noted)


def test_weka_only_the_last_block_changes_or_the_prompt_is_pulled_back_or_an_old_one_returns(do: Import) -> None:
    prompts = [[1, 2, 3], [1, 2, 4], [1, 5], [1, 2, 3, 6]]
    requests = [weka_request(t, 64 * len(ids) + 10, ids) for t, ids in enumerate(prompts)]
    (group,) = do("weka", weka(*requests))
    paths = request_paths(group)
    assert [shared(paths[i], paths[j]) // 64 for i, j in ((0, 1), (1, 2), (0, 3))] == [2, 1, 3]
    # Each but the first goes back behind the prompt before it.
    assert len(rewinds(group)) == 3


def test_weka_a_prompt_that_keeps_all_blocks_is_no_rewind(do: Import) -> None:
    (group,) = do("weka", weka(weka_request(0, 150, [1, 2]), weka_request(1, 210, [1, 2, 3])))
    assert rewinds(group) == []


def test_weka_a_compaction_to_nothing_shared_is_noted(do: Import) -> None:
    (group,) = do("weka", weka(weka_request(0, 150, [1, 2]), weka_request(1, 150, [7, 8])))
    assert rewinds(group) == []
    assert any("starts anew" in note for note in do.noted)


@pytest.mark.parametrize("start", [0.0, 10.0], ids=["times from the agent's start", "times from the session's start"])
def test_weka_sub_agents_are_traces_of_their_own_in_time_order_and_the_same_name_space(
    do: Import, start: float
) -> None:
    inner = [weka_request(start + t, 130, [1, 2]) for t in (1, 3)]
    agent = {"type": "subagent", "t": 10.0, "agent_id": "x", "requests": inner}
    (group,) = do("weka", weka(weka_request(0, 130, [1, 2]), agent, weka_request(12, 130, [1, 2])))
    assert [request.trace.rpartition("-main")[2] for request in group.requests] == [
        "-m1",
        "-agent1-m1",
        "-m1",
        "-agent1-m1",
    ]
    first, child = (request_paths(group)[i] for i in (0, 1))
    assert first.tokens[2:120] == child.tokens[2:120]


def test_weka_one_session_a_line(do: Import) -> None:
    lines = [weka(weka_request(0, 130, [1, 2]), id=name) for name in "ab"]
    groups = do("auto", lines)
    assert [group.group for group in groups] == ["source0-0001", "source0-0002"]
    assert groups[0].traces[0].turns[0].text != groups[1].traces[0].turns[0].text


def test_mooncake_has_an_id_for_the_partial_block_and_ids_of_all_rows_are_the_same(do: Import) -> None:
    rows = [
        mooncake_row(600, [0, 1]),
        mooncake_row(600, [0, 1], 5),
        mooncake_row(700, [0, 2], 9),
        mooncake_row(9, [3], 12),
    ]
    (group,) = do("mooncake", rows)
    a, b, c, d = request_paths(group)
    assert (a.prompt, b.prompt, c.prompt, d.prompt) == (600, 600, 700, 9)
    assert shared(a, b) >= 600
    assert 512 <= shared(a, c) < 520
    assert (a.trace, d.trace) == (c.trace, "source0-0001-tree-2")


def test_mooncake_groups_are_windows_of_the_file(do: Import) -> None:
    groups = do("mooncake", [mooncake_row(9, [n], n) for n in range(5)], group_size=2)
    assert [len(group.requests) for group in groups] == [2, 2, 1]


def test_bailian_has_blocks_of_16_and_follows_the_parent_chat(do: Import) -> None:
    rows = [
        bailian_row(1, -1, 40, [1, 2, 3]),
        bailian_row(2, 1, 60, [1, 2, 4, 5], 1.0),
        bailian_row(3, 2, 20, [1, 9], 2.0),
    ]
    (group,) = do("bailian", rows)
    assert [path.prompt for path in request_paths(group)] == [40, 60, 20]
    # The last block may change because of padding; only the third goes back.
    assert len(rewinds(group)) == 1


def test_bailian_a_parent_of_another_group_is_noted(do: Import) -> None:
    do("bailian", [bailian_row(1, -1, 40, [1, 2, 3]), bailian_row(2, 1, 60, [1, 2, 4, 5], 1.0)], group_size=1)
    assert do.noted["request goes on one that isn't in its group"] == 1


def test_aiperf_rows_after_the_first_hold_what_is_new(do: Import) -> None:
    rows = [
        {"session_id": "s", "input_length": 600, "output_length": 10, "hash_ids": [1, 2]},
        {"session_id": "s", "input_length": 100, "output_length": 5, "hash_ids": [3]},
        {"session_id": "r", "input_length": 700, "output_length": 5, "hash_ids": [1, 4]},
    ]
    (group,) = do("aiperf", rows)
    a, b, c = request_paths(group)
    assert (a.prompt, b.prompt, c.prompt) == (600, 600 + 10 + 100, 700)
    assert (len(a.answer), len(b.answer)) == (10, 5)
    assert b.tokens[: a.end] == a.tokens
    assert 512 <= shared(a, c) < 520


def test_aiperf_words_and_lengths(do: Import) -> None:
    rows = [{"session_id": "s", "text_input": "Hi.", "output_length": 3}, {"session_id": "s", "input_length": 20}]
    (group,) = do("aiperf", rows)
    assert [turn.role for turn in group.traces[0].turns] == ["user", "assistant"] * 2
    assert request_paths(group)[1].prompt == 1 + 5 + 1 + 3 + 20


def test_aiperf_messages_are_new_ones_unless_the_row_holds_the_history(do: Import) -> None:
    hi, answer, more = (made.message(*each) for each in (("user", "Hi."), ("assistant", "Hello."), ("user", "More.")))
    delta = [{"session_id": "s", "messages": [each], "output_length": 3} for each in (hi, more)]
    (group,) = do("aiperf", delta)
    assert [turn.role for turn in group.traces[0].turns] == ["user", "assistant", "user", "assistant"]
    whole = [
        {"session_id": "s", "payload": {"messages": [hi]}},
        {"session_id": "s", "payload": {"messages": [hi, answer, more]}},
    ]
    (group,) = do("aiperf", whole)
    assert [turn.parent for turn in group.traces[0].turns] == [None, "u1", "u1", "a2", "u2"]


def test_aiperf_a_line_can_be_a_session(do: Import) -> None:
    lines = [{"session_id": name, "turns": [{"text": "Hi."}, {"texts": ["And", "so?"]}]} for name in "ab"]
    (group,) = do("auto", lines)
    assert len(group.requests) == 4
    assert [turn.text for turn in group.traces[1].turns if turn.role == "user"] == ["Hi.", "And\nso?"]


def test_tracelab_a_prompt_begins_with_what_the_cache_gave(do: Import) -> None:
    rounds = [round_(0, 100, 40), round_(1, 150, 98), round_(2, 200, 30), round_(3, 260, 200)]
    (group,) = do("tracelab", rounds)
    a, b, c, d = request_paths(group)
    # Up to the three tokens that begin and end a turn.
    assert [shared(x, y) for x, y in ((a, b), (b, c), (c, d))] == [pytest.approx(n, abs=3) for n in (98, 30, 200)]
    # A miss of the cache reads as a prompt that goes back.
    assert len(rewinds(group)) == 1


def test_azure_rows_share_nothing(do: Import) -> None:
    rows = (
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.9799600,48,10",
        "2024-05-10 00:00:00+00:00,48,1",
    )
    (group,) = do("auto", "\r\n".join(rows))
    assert [path.prompt for path in request_paths(group)] == [48, 48]
    assert len(group.traces) == 2


def test_sglang_token_ids_keep_what_prompts_share(do: Import) -> None:
    rows = [
        {"input_tokens": [5, 6, 7, 8, 9], "output_tokens": [1, 2], "ts": 1},
        {"input_tokens": [5, 6, 7, 8, 9, 1, 2, 3, 4, 3], "num_output_tokens": 4, "ts": 2},
        {"input_tokens": [5, 6, 7, 8, 9, 1, 3, 3, 4, 3], "num_output_tokens": 4, "ts": 3},
    ]
    (group,) = do("sglang", rows)
    paths = request_paths(group)
    assert [path.prompt for path in paths] == [6, 10, 10]
    assert [len(path.answer) for path in paths] == [2, 4, 4]
    assert do.noted["answer's ids are in a later prompt"] == 1
    assert do.noted["answer's ids aren't in the prompt that goes on"] == 1


def test_vllm_specs_are_drawn_and_no_path_is_followed(do: Import) -> None:
    from tests.traces.importers.formats import generator

    (group,) = do("vllm", generator())
    assert do.dropped == {"text file that the spec names; words were made": 1}
    assert [len(t.text) for t in group.traces[0].turns] == [20, 12, 2, 12, 2, 5, 2, 5, 2]
    assert [request.turn for request in group.requests] == ["a1", "a2", "a3", "a4"]
    assert do("vllm", generator()) == [group]


@pytest.mark.parametrize("kind", ["uniform", "poisson", "zipf", "lognormal"])
def test_vllm_distributions_stay_in_their_bounds(do: Import, kind: str) -> None:
    from tests.traces.importers.formats import generator

    spec = generator()
    spec["prompt_input"]["num_tokens"] = {
        "distribution": kind, "min": 3, "max": 9, "alpha": 4.0, "average": 6,
    }  # fmt: skip
    (group,) = do("vllm", spec)
    assert all(len(turn.text) <= 9 for turn in group.traces[0].turns if turn.id in ("u3", "u4"))

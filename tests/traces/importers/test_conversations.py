"""Formats with words: what is one answer, what is a fork, what comes back in later prompts, what is left out."""

from __future__ import annotations

import pytest

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Branch, Rewind
from replaycheck.traces.importers.oasst import MAX_DEPTH
from tests.traces.importers import formats as made
from tests.traces.importers.conftest import Import, asked, parents, texts
from tests.traces.importers.formats import message


def test_openai_parts_calls_and_empty_contents(do: Import) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"b": 2, "a": 1}'}}
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]
    messages = [message("developer", "Be brief."), message("user", parts), message("assistant", None, tool_calls=[call]),
                message("tool", "3", tool_call_id="c"), message("assistant", "Three."), message("user", "")]  # fmt: skip
    (group,) = do("openai", [{"messages": messages, "tools": [{"name": "add"}]}])
    assert texts(group) == {
        "s1": 'Be brief.\n[{"name":"add"}]', "u1": "Look", "a1": '{"arguments":{"a":1,"b":2},"name":"add"}',
        "t1": "3", "a2": "Three.",
    }  # fmt: skip
    assert asked(group) == ["a1", "a2"]
    assert do.dropped == {"content part without words: image_url": 1, "empty message that leads to no answer": 1}


def test_an_answer_to_the_system_turn_alone_is_one(do: Import) -> None:
    (group,) = do("openai", [{"messages": [message("system", "Start."), message("assistant", "Hi.")]}])
    assert parents(group) == {"s1": None, "a1": "s1"}


def test_a_conversation_that_begins_with_an_answer_or_has_none(do: Import) -> None:
    lines = [{"messages": [message("user", "Anyone?")]}, {"messages": [message("assistant", "Hi."), message("user", "Yes?"),
             message("assistant", "Good.")]}]  # fmt: skip
    (group,) = do("openai", lines)
    assert texts(group) == {"u1": "Yes?", "a1": "Good."}
    assert do.dropped["assistant message before any prompt"] == 1
    assert do.dropped["conversation without an answer"] == 1


def test_reasoning_is_in_the_answer_and_leaves_the_prompt_when_the_user_speaks(do: Import) -> None:
    messages = [message("user", "Add."), message("assistant", "call", reasoning_content="Hm."), message("tool", "3"),
                message("assistant", "Three."), message("user", "Sure?"), message("assistant", "Yes.")]  # fmt: skip
    (group,) = do("openai", [{"messages": messages}])
    assert list(texts(group).values()) == ["Add.", "Hm.\ncall", "3", "Three.", "call", "3", "Three.", "Sure?", "Yes."]
    assert parents(group)["a3"] == "u1"
    assert asked(group) == ["a1", "a2", "a5"]
    # The next prompt doesn't begin with the one before and its answer: the client went back to the first question.
    assert [event for event in group.traces[0].events if isinstance(event, Rewind)] == [
        Rewind(kind="rewind", turn="a2", to="u1")
    ]


def test_anthropic_tool_results_stand_in_the_users_message(do: Import) -> None:
    messages = [message("user", "List."), made.answer("x", made.text("Ok."), made.tool_use("c1")),
                {"role": "user", "content": [*made.tool_result("c1", "a.py")["content"], made.text("Quick!")]},
                message("assistant", "Done.")]  # fmt: skip
    (group,) = do("anthropic", [{"system": [made.text("Be kind.")], "messages": messages}])
    assert list(texts(group).values()) == [
        "Be kind.", "List.", 'Ok.\n{"arguments":{"path":"."},"name":"ls"}', "a.py", "Quick!", "Done.",
    ]  # fmt: skip


def test_claude_records_of_one_message_are_one_answer_and_parallel_calls_are_no_fork(do: Import) -> None:
    (group,) = do("claude-code", made.claude_session())
    assert texts(group)["a1"].startswith("Looking.\n{") and texts(group)["a1"].count('"ls"') == 2
    assert parents(group) == {"u1": None, "a1": "u1", "t1": "a1", "t2": "t1", "a2": "t2", "u2": "a2", "a3": "u2",
                              "u3": "a2", "a4": "u3"}  # fmt: skip
    assert asked(group) == ["a1", "a2", "a3", "a4"]
    assert group.traces[0].events == (Branch(kind="branch", turn="a2"), Rewind(kind="rewind", turn="a3", to="a2"))


def test_claude_sidechains_are_traces_of_their_own_in_time_order(do: Import) -> None:
    side = {"isSidechain": True}
    records = [*made.claude_session(), made.record("s1", None, "user", message("user", "Search."), 3, **side),
               made.record("s2", "s1", "assistant", made.answer("S", made.text("Found.")), 5, **side)]  # fmt: skip
    (group,) = do("claude-code", records)
    assert [request.trace[-10:] for request in group.requests][:3] == ["ssion-1-m1", "agent-1-m1", "ssion-1-m1"]
    assert do.noted["sub-agent became a trace of its own"] == 1


def test_claude_a_compaction_starts_the_prompt_anew_and_another_model_a_trace(do: Import) -> None:
    records = made.claude_session()[:-2]
    records += [made.record("u9", None, "user", message("user", "Summary."), 20, isCompactSummary=True),
                made.record("r9", "u9", "assistant", made.answer("E", made.text("Go on."), model="m2"), 21)]  # fmt: skip
    (group,) = do("claude-code", records)
    assert [trace.id[-2:] for trace in group.traces] == ["m1", "m2"]
    assert texts(group, 1) == {"u1": "Summary.", "a1": "Go on."}
    assert sum(count for note, count in do.noted.items() if "starts anew" in note or "model switch" in note) == 2


def test_claude_answers_of_no_model_and_unknown_parents(do: Import) -> None:
    records = made.claude_session()
    records[3] = made.record("r1", "x1", "assistant", made.answer("A", made.text("Error."), model="<synthetic>"), 2)
    for each in records[4:6]:
        each["message"]["model"] = "<synthetic>"
    records.append(made.record("u7", "gone", "user", message("user", "Hello?"), 30))
    do("claude-code", records)
    assert do.dropped["answer that no model gave"] == 1
    assert do.noted["record whose parent isn't above it in the file; it starts a conversation"] == 1


def test_codex_items_in_a_row_are_one_answer_and_a_compaction_starts_anew(do: Import) -> None:
    (group,) = do("codex", made.codex())
    assert list(texts(group).values()) == [
        "Be exact.", "Fix it.", 'Think.\n{"arguments":"{\\"cmd\\": \\"ls\\"}","name":"shell"}', "a.py", "Fixed.",
        "Summary.", "More.", "Did more.",
    ]  # fmt: skip
    assert asked(group) == ["a1", "a2", "a3"]


def test_swe_agent_history_and_demonstrations(do: Import) -> None:
    (group,) = do("swe-agent", made.swe_agent())
    assert texts(group) == {"s1": "Rules.", "a1": "demo", "u1": "Issue.", "a2": "ls"}
    assert asked(group) == ["a2"]
    assert do.dropped["empty message that leads to no answer"] == 1


def test_swe_agent_steps_with_their_prompts_are_preferred(do: Import) -> None:
    first = [message("system", "Rules."), message("user", "Issue.")]
    cut = [*first, message("assistant", "ls"), message("user", "(old output left out)")]
    full = [*first, message("assistant", "ls"), message("user", "a.py")]
    steps = [{"query": first, "response": "ls"}, {"query": full, "response": "cat"}, {"query": cut, "response": "edit"}]
    (group,) = do("swe-agent", made.swe_agent(steps))
    assert asked(group) == ["a1", "a2", "a3"]
    assert parents(group)["u2"] == parents(group)["u3"] == "a1"


def test_mini_swe_agent_ends_with_an_empty_user_turn(do: Import) -> None:
    body = (
        '[{"role": "user", "content": "Go."}, {"role": "assistant", "content": "ls"}, {"role": "user", "content": ""}]'
    )
    (group,) = do("auto", body)
    assert texts(group) == {"u1": "Go.", "a1": "ls"}
    assert do.dropped == {"empty message that leads to no answer": 1}


def test_openhands_actions_of_one_response_are_one_answer_and_empty_results_stay(do: Import) -> None:
    (group,) = do("openhands", [made.openhands()])
    assert list(texts(group).values()) == [
        "Tools.", "Read.", '{"arguments":{"path":"a"},"name":"read"}\n{"arguments":{"path":"b"},"name":"read"}', "A", "",
        "Read both.",
    ]  # fmt: skip
    assert do.dropped == {"event that the model doesn't see: recall": 1}


def test_oasst_forks_below_prompts_and_answers(do: Import) -> None:
    (group,) = do("oasst", [made.oasst()])
    assert parents(group) == {"u1": None, "a1": "u1", "u2": "a1", "a2": "u2", "u3": "a1", "a3": "u3", "a4": "u1"}
    assert [event.turn for event in group.traces[0].events if isinstance(event, Branch)] == ["u1", "a1"]


def test_oasst_deleted_messages_deep_trees_and_double_ids(do: Import) -> None:
    tree = made.oasst()
    tree["prompt"]["replies"][1]["deleted"] = True
    (group,) = do("oasst", [tree])
    assert len(group.requests) == 3
    assert do.dropped == {"deleted message and what follows it": 1}
    deep = made.tree_message("m0", "assistant", "x")
    for number in range(1, MAX_DEPTH + 2):
        deep = made.tree_message(f"m{number}", "prompter" if number % 2 else "assistant", "x", deep)
    with pytest.raises(UsageError, match=r":1: prompt\.replies.*more than 200 messages below each other"):
        do("oasst", [{"message_tree_id": "t", "prompt": deep}])
    tree["prompt"]["replies"][1] = tree["prompt"]["replies"][0]
    with pytest.raises(UsageError, match=r"replies\[1\]\.message_id: 'a' is there twice"):
        do("oasst", [tree])


def share(name: str, *turns: tuple[str, str]) -> dict[str, object]:
    return {"id": name, "conversations": [{"from": speaker, "value": value} for speaker, value in turns]}


def test_sharegpt_parts_are_joined_and_a_repeated_speaker_is_dropped(do: Import) -> None:
    records = [share("abc_0", ("human", "Hi."), ("gpt", "Hello.")), share("abc_1", ("gpt", "Hello."), ("human", "And?"),
               ("gpt", "So.")), share("abc_3", ("human", "Other."), ("gpt", "Yes."))]  # fmt: skip
    groups = do("sharegpt", records)
    assert [list(texts(group).values()) for group in groups] == [["Hi.", "Hello.", "And?", "So."], ["Other.", "Yes."]]
    assert do.dropped == {"repeated speaker where two parts of a conversation join": 1}


def test_sharegpt_calls_observations_and_tools(do: Import) -> None:
    record = share("x", ("human", "2+2"), ("function_call", "add"), ("observation", "4"), ("gpt", "Four."))
    (group,) = do("sharegpt", [{**record, "system": "Count.", "tools": '[{"name": "add"}]'}])
    assert [turn.role for turn in group.traces[0].turns] == ["system", "user", "assistant", "tool", "assistant"]
    assert texts(group)["s1"] == 'Count.\n[{"name": "add"}]'


def test_mtbench_joins_questions_and_answers_and_makes_what_is_missing(do: Import) -> None:
    questions = [{"question_id": n, "turns": ["One?", "Two?"]} for n in (1, 2)]
    answers = [{"question_id": n, "choices": [{"index": 0, "turns": ["Uno.", "Dos."]}]} for n in (2, 3)]
    first, second = do("auto", questions, answers)
    assert texts(second)["a2"] == "Dos."
    assert len(texts(first)["a1"]) == 127
    assert do.dropped == {"answer whose question isn't in the files": 1}


def test_atif_steps_sub_agents_and_what_becomes_of_its_token_ids(do: Import) -> None:
    record = made.atif()
    record["subagent_trajectories"] = [{"steps": record["steps"][:2] + record["steps"][5:]}]
    record["steps"][4]["observation"] = {"results": [{"subagent_trajectory_ref": [{"path": "/etc/passwd"}]}]}
    (group,) = do("atif", record)
    assert texts(group)["a1"] == 'Hm.\nLook.\n{"arguments":{"p":"."},"name":"ls"}'
    assert len(group.traces) == 2
    assert do.noted["answer's ids come back changed in the next prompt"] == 1
    assert do.dropped["reference to a trajectory in another file; it isn't opened"] == 1


def test_atif_copied_context_isnt_asked_for(do: Import) -> None:
    record = made.atif()
    record["steps"][2]["is_copied_context"] = True
    (group,) = do("atif", record)
    assert len(group.requests) == 2


def test_otel_prompts_that_hold_the_answer_go_on_from_it_in_time_order(do: Import) -> None:
    (group,) = do("otel", made.otel()[::-1])
    assert [texts(group)[turn] for turn in asked(group)] == ["Hello.", "Hello again."]
    assert len(group.traces[0].turns) == 4


def test_otel_otlp_attributes_and_messages_in_strings(do: Import) -> None:
    import json

    def attribute(key: str, value: object) -> dict[str, object]:
        return {"key": key, "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)}}

    found = [[attribute(key, value) for key, value in each["attributes"].items()] for each in made.otel()]
    spans: list[dict[str, object]] = [{"startTimeUnixNano": "5", "attributes": each} for each in found]
    spans.append({"name": "GET /", "attributes": []})
    (group,) = do("auto", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert len(group.requests) == 2
    assert do.dropped == {"span without messages": 1}


def test_dag_forks_go_on_from_the_answer_and_spawns_start_fresh(do: Import) -> None:
    (group,) = do("dag_jsonl", made.dag())
    assert [trace.id for trace in group.traces] == ["source0-0001-root", "source0-0001-fresh"]
    assert parents(group)["u3"] == parents(group)["u4"] == "a2"
    assert all(len(turn.text) == 5 for turn in group.traces[0].turns if turn.role == "assistant")
    # Side by side: the fresh session's request comes before the root's second turn's forks.
    assert [(request.trace[-5:], request.turn) for request in group.requests] == [
        ("-root", "a1"), ("fresh", "a1"), ("-root", "a2"), ("-root", "a3"), ("-root", "a4"), ("-root", "a5"),
    ]  # fmt: skip


def test_dag_circles_and_unknown_sessions_are_refused(do: Import) -> None:
    lines = made.dag()
    lines[1]["turns"][0]["spawns"] = ["left"]
    with pytest.raises(UsageError, match=r":2: turns\[0\]: session 'left' starts itself"):
        do("dag_jsonl", lines)
    lines[1]["turns"][0]["spawns"] = ["nobody"]
    with pytest.raises(UsageError, match=r":2: turns\[0\]: session 'nobody' isn't in the file"):
        do("dag_jsonl", lines)

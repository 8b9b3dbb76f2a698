"""One small file of each format, as plain values; hand-made, each with something that a reader gets wrong easily."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]


def weka_request(t: float, length: int, ids: list[int], out: int = 5, **more: Any) -> JSON:
    return {"t": t, "type": "n", "model": "m1", "in": length, "out": out, "hash_ids": ids, "stop": "", **more}


def weka(*requests: JSON, **more: Any) -> JSON:
    return {"id": "w", "models": ["m1"], "block_size": 64, "hash_id_scope": "local", "requests": list(requests), **more}


def mooncake_row(length: int, ids: list[int], timestamp: int = 0, out: int = 4) -> JSON:
    return {"timestamp": timestamp, "input_length": length, "output_length": out, "hash_ids": ids}


def bailian_row(chat: int, parent: int, length: int, ids: list[int], timestamp: float = 0.0) -> JSON:
    return {"chat_id": chat, "parent_chat_id": parent, "timestamp": timestamp, "input_length": length,
            "output_length": 3, "type": "text", "turn": 1, "hash_ids": ids}  # fmt: skip


def round_(index: int, total: int, prefix: int, out: int = 9, **more: Any) -> JSON:
    return {"provider": "p", "session_id": "s", "round_index": index, "model": "m", "input_tokens_total": total,
            "prefix_tokens": prefix, "newly_append_tokens": total - prefix, "output_tokens": out, **more}  # fmt: skip


def message(role: str, content: Any, **more: Any) -> JSON:
    return {"role": role, "content": content, **more}


def record(uuid: str, parent: str | None, kind: str, body: JSON, second: int, **more: Any) -> JSON:
    """A record of a Claude Code log."""
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": False, "sessionId": "s1",
            "timestamp": f"2026-01-01T00:00:{second:02d}Z", "message": body, **more}  # fmt: skip


def answer(id_: str, *blocks: JSON, model: str = "m1") -> JSON:
    return {"role": "assistant", "id": id_, "model": model, "content": list(blocks)}


def text(words: str) -> JSON:
    return {"type": "text", "text": words}


def tool_use(id_: str, name: str = "ls") -> JSON:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"path": "."}}


def tool_result(id_: str, words: str) -> JSON:
    return message("user", [{"type": "tool_result", "tool_use_id": id_, "content": words}])


def claude_session() -> list[JSON]:
    """An answer in three records with two parallel calls, whose results hang below different records; then an edit."""
    return [
        {"type": "mode", "mode": "normal", "sessionId": "s1"},
        record("u1", None, "user", message("user", "List both."), 1),
        {"type": "attachment", "uuid": "x1", "parentUuid": "u1", "isSidechain": False},
        record("r1", "x1", "assistant", answer("A", text("Looking.")), 2),
        record("r2", "r1", "assistant", answer("A", tool_use("c1")), 3),
        record("r3", "r2", "assistant", answer("A", tool_use("c2")), 4),
        record("t1", "r2", "user", tool_result("c1", "one"), 5),
        record("t2", "r3", "user", tool_result("c2", "two"), 6),
        record("r4", "t2", "assistant", answer("B", text("Done.")), 7),
        record("u2", "r4", "user", message("user", "Thanks."), 8),
        record("r5", "u2", "assistant", answer("C", text("Welcome.")), 9),
        record("u3", "r4", "user", message("user", "Again."), 10),
        record("r6", "u3", "assistant", answer("D", text("Sure.")), 11),
    ]


def tree_message(id_: str, role: str, words: str, *replies: JSON, **more: Any) -> JSON:
    return {"message_id": id_, "role": role, "text": words, "replies": list(replies), **more}


def oasst() -> JSON:
    """A prompt with two answers, one of which has two follow-ups."""
    why = tree_message("c", "prompter", "Why?", tree_message("d", "assistant", "So."))
    how = tree_message("e", "prompter", "How?", tree_message("f", "assistant", "Thus."))
    first = tree_message("a", "assistant", "One.", why, how)
    second = tree_message("b", "assistant", "Two.")
    return {"message_tree_id": "t", "tree_state": "x", "prompt": tree_message("p", "prompter", "Count.", first, second)}


def codex_item(**payload: Any) -> JSON:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}


def codex() -> list[JSON]:
    return [
        {
            "timestamp": "2026-01-01T00:00:00Z",
            "type": "session_meta",
            "payload": {"id": "x", "instructions": "Be exact."},
        },
        {"timestamp": "2026-01-01T00:00:00Z", "type": "turn_context", "payload": {"model": "g"}},
        codex_item(type="message", role="user", content=[{"type": "input_text", "text": "Fix it."}]),
        codex_item(type="reasoning", summary=[{"type": "summary_text", "text": "Think."}]),
        codex_item(type="function_call", name="shell", arguments='{"cmd": "ls"}', call_id="c"),
        codex_item(type="function_call_output", call_id="c", output="a.py"),
        codex_item(type="message", role="assistant", content=[{"type": "output_text", "text": "Fixed."}]),
        {"timestamp": "2026-01-01T00:00:09Z", "type": "compacted", "payload": {"message": "Summary."}},
        codex_item(type="message", role="user", content=[{"type": "input_text", "text": "More."}]),
        codex_item(type="message", role="assistant", content=[{"type": "output_text", "text": "Did more."}]),
    ]


def swe_agent(steps: list[JSON] | None = None) -> JSON:
    history = [message("system", "Rules.", agent="primary"), message("assistant", "demo", agent="primary", is_demo=True),
               message("user", "Issue.", agent="primary"), message("assistant", "ls", agent="primary"),
               message("user", "", agent="primary")]  # fmt: skip
    return {"environment": "e", "trajectory": steps or [], "history": history, "info": {}}


def openhands() -> JSON:
    def made(number: int, response: str, path: str) -> JSON:
        event = {"id": number, "source": "agent", "action": "read", "args": {"path": path, "thought": ""}}
        return event | {"tool_call_metadata": {"model_response": {"id": response}}}

    history = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "Tools."}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Read."}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "x"}},
        made(3, "r1", "a"),
        made(4, "r1", "b"),
        {"id": 5, "source": "agent", "observation": "read", "content": "A", "extras": {}},
        {"id": 6, "source": "agent", "observation": "read", "content": "", "extras": {}},
        {"id": 7, "source": "agent", "action": "message", "args": {"content": "Read both."}},
    ]
    return {"instance_id": "i", "instruction": "x", "metadata": {}, "history": history}


def atif() -> JSON:
    def step(number: int, source: str, words: str, **more: Any) -> JSON:
        return {"step_id": number, "source": source, "message": words, **more}

    call = {"tool_call_id": "c", "function_name": "ls", "arguments": {"p": "."}}
    result = {"results": [{"source_call_id": "c", "content": "x.py"}]}
    ids = {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.1]}
    later = {"prompt_token_ids": [1, 2, 9, 4], "completion_token_ids": [5]}
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [
            step(1, "system", "Rules."),
            step(2, "user", "Do."),
            step(3, "agent", "Look.", reasoning_content="Hm.", tool_calls=[call], observation=result, metrics=ids),
            step(4, "agent", "Done.", metrics=later),
            step(5, "user", "And?"),
            step(6, "agent", "Nothing."),
        ],
    }


def parts(role: str, *found: JSON) -> JSON:
    return {"role": role, "parts": list(found)}


def words(content: str) -> JSON:
    return {"type": "text", "content": content}


def span(prompt: list[JSON], output: list[JSON], start: int) -> JSON:
    return {"traceId": "t", "startTimeUnixNano": str(start * 10**9),
            "attributes": {"gen_ai.conversation.id": "c", "gen_ai.input.messages": prompt,
                           "gen_ai.output.messages": output}}  # fmt: skip


def otel() -> list[JSON]:
    hi, hello = parts("user", words("Hi.")), parts("assistant", words("Hello."))
    again = parts("user", words("Again."))
    return [span([hi], [hello], 1), span([hi, hello, again], [parts("assistant", words("Hello again."))], 2)]


def dag() -> list[JSON]:
    def turn(content: str, **more: Any) -> JSON:
        return {"messages": [message("user", content)], "max_tokens": 6, **more}

    return [
        {"session_id": "root", "turns": [turn("Plan.", spawns=["fresh"]), turn("Go on.", forks=["left", "right"])]},
        {"session_id": "left", "turns": [turn("Left.")]},
        {"session_id": "right", "turns": [turn("Right."), turn("Further.")]},
        {"session_id": "fresh", "turns": [turn("Alone.")]},
    ]


def generator() -> JSON:
    def fixed(value: int) -> JSON:
        return {"distribution": "constant", "value": value}

    prompt = {"num_turns": fixed(4), "num_tokens": fixed(5)}
    prompt |= {"common_prefix_num_tokens": fixed(20), "prefix_num_tokens": fixed(7)}
    return {"filetype": "generate_conversations", "num_conversations": 2, "text_files": ["/etc/passwd"],
            "prompt_input": prompt, "prompt_output": {"num_tokens": fixed(3)}}  # fmt: skip


#: A file of each format that `auto` must recognise, by the importer's name.
FILES: dict[str, object] = {
    "weka": weka(weka_request(0, 130, [1, 2])),
    "mooncake": [mooncake_row(600, [0, 1])],
    "bailian": [bailian_row(1, -1, 20, [1, 2])],
    "aiperf": [{"session_id": "s", "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}],
    "dag_jsonl": dag(),
    "tracelab": [round_(0, 100, 0)],
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n",
    "sglang": [{"input_tokens": [5, 6, 7], "num_output_tokens": 2, "ts": 0.5}],
    "vllm": generator(),
    "openai": [{"messages": [message("user", "Hi."), message("assistant", "Hello.")]}],
    "anthropic": [{"system": "Be kind.", "messages": [message("user", "Hi."), message("assistant", [text("Hello.")])]}],
    "sharegpt": [{"conversations": [{"from": "human", "value": "Hi."}, {"from": "gpt", "value": "Hello."}]}],
    "oasst": [oasst()],
    "mtbench": [{"question_id": 1, "category": "x", "turns": ["One?", "Two?"]}],
    "claude-code": claude_session(),
    "codex": codex(),
    "swe-agent": swe_agent(),
    "mini-swe-agent": "[" + '{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "ls"}' + "]",
    "openhands": [openhands()],
    "atif": atif(),
    "otel": otel(),
}

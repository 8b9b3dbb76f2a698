"""What OpenAI's and Anthropic's messages hold besides plain text, written as text: parts, tool calls, tool results.

Calls are written as one line of JSON, keys sorted. Pictures, sounds and files have no text; they are left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from replaycheck.schema.trace import Role

from .fields import Fields
from .log import Log
from .threads import Message

__all__ = ["call_text", "iso_time", "openai_message", "openai_messages", "part_texts", "role_of", "system_with_tools"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}

#: Kinds of a content part whose words are in the given key.
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


def openai_messages(record: Fields, name: str, log: Log) -> list[Message]:
    """The messages of a list in OpenAI's form."""
    return [openai_message(each, log) for each in record.objects(name)]


def openai_message(message: Fields, log: Log, model: str = "", time: float | None = None) -> Message:
    """One message: its parts, then its tool calls."""
    role = role_of(message)
    texts = list(part_texts(message, "content", log))
    texts += [_function(call) for call in message.objects("tool_calls", [])]
    if "function_call" in message:
        texts.append(_named(message.object("function_call")))
    name = "reasoning_content" if "reasoning_content" in message else "reasoning"
    reasoning = message.text(name, "") if isinstance(message.get(name), str) else ""
    return Message(role, "\n".join(texts), reasoning, model, time)


def role_of(message: Fields, name: str = "role") -> Role:
    """The role of a message, by the names that formats use for it. A record with another one is refused."""
    role = message.text(name)
    if role not in _ROLES:
        message.fail(name, f"{role[:40]!r} is unknown; allowed: {', '.join(map(repr, _ROLES))}")
    return _ROLES[role]


def part_texts(message: Fields, name: str, log: Log) -> Iterable[str]:
    """The words of a content: a string, null, or a list of parts."""
    content = message.get(name)
    if content is None:
        return
    if isinstance(content, str):
        if content:
            yield message.text(name)
        return
    for part in message.objects(name):
        kind = part.text("type", "text")
        if kind in _TEXTS:
            yield part.text(_TEXTS[kind], "")
        else:
            log.drop(f"content part without words: {kind[:40]}")


def system_with_tools(messages: list[Message], tools: Any, log: Log) -> list[Message]:
    """The messages with the definitions of tools at the end of the system turn, where chat templates put them."""
    if not tools or tools == "[]":
        return messages
    text = tools if isinstance(tools, str) else _compact(tools)
    log.note("definitions of tools were put into the system turn")
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].text}\n{text}"), *messages[1:]]
    return [Message("system", text), *messages]


def call_text(name: str, arguments: object) -> str:
    """A tool call as one line.

    >>> call_text("add", {"b": 2, "a": 1})
    '{"arguments":{"a":1,"b":2},"name":"add"}'
    """
    return _compact({"name": name, "arguments": arguments})


def iso_time(record: Fields, name: str) -> float | None:
    """Seconds of a time in ISO 8601, or None where there is none."""
    if name not in record:
        return None
    text = record.text(name)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        record.fail(name, f"{text[:40]!r} is no time; allowed: ISO 8601, as 2026-01-31T12:00:00Z")


def _function(call: Fields) -> str:
    return _named(call.object("function")) if "function" in call else _named(call)


def _named(call: Fields) -> str:
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = call.text("arguments")
    return call_text(call.text("name", ""), arguments)


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

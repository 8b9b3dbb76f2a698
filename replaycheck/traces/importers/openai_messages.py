"""OpenAI messages: a conversation a line (fine-tuning files, chat logs), or a list of them as vLLM's benchmark takes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .api import Context, Head, Importer
from .content import openai_messages, system_with_tools
from .draft import DraftGroup
from .fields import Fields
from .source import SourceFile
from .threads import Thread

__all__ = ["IMPORTER"]

#: Kinds of content that only Anthropic's messages have.
ANTHROPIC_KINDS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})

#: Keys of other formats whose objects have messages, too.
_OTHERS = ("trajectory_format", "session_id", "info", "steps", "history")


def has_anthropic_parts(record: Mapping[str, Any]) -> bool:
    """A top-level system, or a content part of a kind that OpenAI's messages don't have."""
    if record.get("system") is not None:
        return True
    messages = record.get("messages")
    parts = [
        part
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
    ]
    return any(isinstance(part, dict) and part.get("type") in ANTHROPIC_KINDS for part in parts)


def _recognise(head: Head) -> str | None:
    if not head.all_have("messages") or any(head.first(name) for name in _OTHERS):
        return None
    return None if any(map(has_anthropic_parts, head.records)) else "every record has 'messages' in OpenAI's form"


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for number, record in enumerate(source.records(), 1):
            yield _group(source, record, record.name("id", f"conversation-{number}"), context)


def _group(source: SourceFile, record: Fields, name: str, context: Context) -> DraftGroup:
    group = DraftGroup(source, name)
    messages = openai_messages(record, "messages", context.log)
    thread = Thread(group, name, context.log)
    thread.say(system_with_tools(messages, record.get("tools"), context.log))
    thread.close()
    return group


IMPORTER = Importer("openai", "OpenAI messages: fine-tuning and chat files, JSON lines or a list", _recognise, _read)

"""Anthropic messages: ``system`` beside the messages, tool results inside the user's. One conversation a line, or a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .api import Context, Head, Importer
from .content import call_text, part_texts, role_of, system_with_tools
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .openai_messages import has_anthropic_parts
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER", "anthropic_messages", "blocks_of"]


def _recognise(head: Head) -> str | None:
    if not head.all_have("messages") or head.first("session_id") or not any(map(has_anthropic_parts, head.records)):
        return None
    return "records have 'messages' with 'system' beside them or parts of Anthropic's kinds"


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for number, record in enumerate(source.records(), 1):
            yield _group(source, record, record.name("id", f"conversation-{number}"), context.log)


def _group(source: SourceFile, record: Fields, name: str, log: Log) -> DraftGroup:
    group = DraftGroup(source, name)
    messages = [Message("system", text) for text in _system(record, log)]
    for each in record.objects("messages"):
        messages += anthropic_messages(each, log)
    thread = Thread(group, name, log)
    thread.say(system_with_tools(messages, record.get("tools"), log))
    thread.close()
    return group


def _system(record: Fields, log: Log) -> list[str]:
    texts = list(part_texts(record, "system", log))
    return ["\n".join(texts)] if texts else []


def anthropic_messages(message: Fields, log: Log) -> list[Message]:
    """The turns of one message: tool results are a turn of their own, before what the user says."""
    role = role_of(message)
    if role == "assistant":
        return [blocks_of(message, log)]
    results = [block for block in _blocks(message) if block.get("type") == "tool_result"]
    found = []
    if results:
        found.append(Message("tool", "\n".join(text for block in results for text in _result_texts(block, log))))
    texts = [text for block in _blocks(message) for text in _block_text(block, log)]
    if texts or not results:
        found.append(Message(role, "\n".join(texts) if _blocks(message) else message.text("content", "")))
    return found


def blocks_of(message: Fields, log: Log) -> Message:
    """An answer: thinking, words and calls of its blocks."""
    if not _blocks(message):
        return Message("assistant", message.text("content", "") if isinstance(message.get("content"), str) else "")
    thinking = [block.text("thinking", "") for block in _blocks(message) if block.get("type") == "thinking"]
    log.drop("thinking whose words aren't in the source", sum(not text for text in thinking))
    texts = [text for block in _blocks(message) for text in _block_text(block, log)]
    return replace(Message("assistant", "\n".join(texts)), reasoning="\n".join(filter(None, thinking)))


def _blocks(message: Fields) -> list[Fields]:
    return list(message.objects("content")) if isinstance(message.get("content"), list) else []


def _block_text(block: Fields, log: Log) -> Iterator[str]:
    kind = block.text("type")
    if kind == "text":
        yield block.text("text", "")
    elif kind == "tool_use":
        yield call_text(block.text("name", ""), block.get("input"))
    elif kind not in ("thinking", "tool_result"):
        log.drop(f"content part without words: {kind[:40]}")


def _result_texts(block: Fields, log: Log) -> Iterator[str]:
    yield from part_texts(block, "content", log)


IMPORTER = Importer("anthropic", "Anthropic messages, JSON lines or a list", _recognise, _read)

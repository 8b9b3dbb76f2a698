"""OpenTelemetry GenAI spans: a call a span, with the whole prompt and the answer as attributes.

Spans come one a line with ``attributes`` as an object, or in OTLP's JSON, where attributes are a list and nested below
``resourceSpans``. Spans of one conversation share its id; what their prompts share is found by comparing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from .api import Context, Head, Importer
from .content import call_text, iso_time, role_of
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]

_INPUT, _OUTPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
_CONVERSATION = "gen_ai.conversation.id"
_VALUES = ("stringValue", "intValue", "doubleValue", "boolValue")


def _recognise(head: Head) -> str | None:
    if head.first("resourceSpans"):
        return "an object has 'resourceSpans' (OTLP)"
    spans = [record["attributes"] for record in head.records if isinstance(record.get("attributes"), dict | list)]
    good = any(any(name.startswith("gen_ai.") for name in _plain(each)) for each in spans)
    return "records have 'attributes' named gen_ai.*" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        spans = _calls(source, context.log)
        number = 0
        while window := list(islice(spans, context.options.group_size)):
            number += 1
            yield _group(source, number, window, context.log)


def _group(source: SourceFile, number: int, window: Sequence[tuple[Fields, Fields]], log: Log) -> DraftGroup:
    group = DraftGroup(source, f"window-{number}")
    threads: dict[str, Thread] = {}
    for index, (span, attributes) in enumerate(window):
        name = attributes.name(_CONVERSATION, "") or span.name("traceId", f"call-{index}")
        thread = threads.setdefault(name, Thread(group, name, log))
        prompt = _system(attributes) + _messages(attributes, _INPUT, log)
        answers = [each for each in _messages(attributes, _OUTPUT, log) if each.role == "assistant"]
        if not answers:
            log.drop("call without an answer")
            continue
        model = attributes.text("gen_ai.response.model", attributes.text("gen_ai.request.model", ""))
        for answer in answers:
            thread.call(prompt, Message("assistant", answer.text, answer.reasoning, model, _time(span)))
    for thread in threads.values():
        thread.close()
    return group


def _calls(source: SourceFile, log: Log) -> Iterator[tuple[Fields, Fields]]:
    """Each span that holds messages, with its attributes."""
    for record in source.records():
        for span in _spans(record):
            attributes = Fields(_plain(span.get("attributes")), span.place.inside("attributes"))
            if _INPUT in attributes:
                yield span, attributes
            else:
                log.drop("span without messages")


def _spans(record: Fields) -> Iterator[Fields]:
    if "resourceSpans" not in record:
        yield record
        return
    for resource in record.objects("resourceSpans"):
        for scope in resource.objects("scopeSpans", []):
            yield from scope.objects("spans", [])


def _plain(attributes: Any) -> dict[str, Any]:
    """Attributes by name, whichever way they are written."""
    if isinstance(attributes, dict):
        return attributes
    pairs = attributes if isinstance(attributes, list) else []
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict)}


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return next((value[name] for name in _VALUES if name in value), value)


def _list(attributes: Fields, name: str) -> Fields:
    """The attribute as an object with one list; it may be JSON in a string."""
    value = attributes.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            attributes.fail(name, "isn't JSON; allowed: a list of messages, or that as JSON in a string")
    return Fields({name: value}, attributes.place)


def _messages(attributes: Fields, name: str, log: Log) -> list[Message]:
    return [_message(each, log) for each in _list(attributes, name).objects(name, [])]


def _system(attributes: Fields) -> list[Message]:
    parts = list(_list(attributes, _SYSTEM).objects(_SYSTEM, []))
    text = "\n".join(part.text("content", "") for part in parts if part.text("type", "text") == "text")
    return [Message("system", text)] if parts else []


def _message(message: Fields, log: Log) -> Message:
    texts, reasoning, role = [], [], role_of(message)
    for part in message.objects("parts", []):
        kind = part.text("type", "text")
        if kind == "text":
            texts.append(part.text("content", ""))
        elif kind == "reasoning":
            reasoning.append(part.text("content", ""))
        elif kind == "tool_call":
            texts.append(call_text(part.text("name", ""), part.get("arguments")))
        elif kind == "tool_call_response":
            found = part.get("response") if "response" in part else part.get("result")
            texts.append(found if isinstance(found, str) else json.dumps(found, sort_keys=True))
        else:
            log.drop(f"content part without words: {kind[:40]}")
    return Message(role, "\n".join(texts), "\n".join(reasoning))


def _time(span: Fields) -> float | None:
    for name in ("startTimeUnixNano", "start_time_unix_nano"):
        if name in span:
            text = span.name(name)
            # Seconds in fp64 keep 0.2 µs of a time of this century.
            return int(text) / 1e9 if text.isdigit() and len(text) < 25 else span.fail(name, "isn't a count of ns")
    return iso_time(span, "start_time") if isinstance(span.get("start_time"), str) else None


IMPORTER = Importer("otel", "OpenTelemetry GenAI spans, JSON lines or OTLP JSON", _recognise, _read)

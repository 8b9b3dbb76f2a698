"""OpenHands runs (``output.jsonl``): a run a line, a history of actions and observations.

Actions of the agent are its answers, those of one response of the model being one answer; observations are tool results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from .api import Context, Head, Importer
from .content import call_text, iso_time
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]

#: Events that the model never sees.
_UNSEEN = frozenset({"recall", "change_agent_state", "agent_state_changed", "null", "condensation"})


def _recognise(head: Head) -> str | None:
    record = head.first("instance_id", "history")
    good = head.all_have("history") and record is not None and "trajectory" not in record
    return "every record has 'history', and one has 'instance_id'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for number, record in enumerate(source.records(), 1):
            name = record.name("instance_id", f"run-{number}")
            group = DraftGroup(source, name)
            thread = Thread(group, name, context.log)
            thread.say(_messages(record, context.log))
            thread.close()
            yield group


def _messages(record: Fields, log: Log) -> list[Message]:
    """Actions that came in one response are one answer."""
    events = list(_events(record, log))
    messages = []
    for (response, number), part in groupby(enumerate(events), key=lambda item: _response(item[1], item[0])):
        members = [event for _, event in part]
        if response:
            texts = [text for event in members for text in _action_texts(event)]
            messages.append(Message("assistant", "\n".join(texts), time=iso_time(members[0], "timestamp")))
        else:
            assert number >= 0 and len(members) == 1
            messages.append(_heard(members[0]))
    return messages


def _events(record: Fields, log: Log) -> Iterator[Fields]:
    """The events that the model sees. Older runs have pairs of an action and an observation."""
    for index, item in enumerate(record.array("history")):
        place = record.place.inside(f"history[{index}]")
        for each in item if isinstance(item, list) else [item]:
            event = Fields.of(each, place)
            kind = event.text("action", "") or event.text("observation", "")
            if kind in _UNSEEN or not kind:
                log.drop(f"event that the model doesn't see: {kind[:40] or 'no action, no observation'}")
            else:
                yield event


def _response(event: Fields, number: int) -> tuple[str, int]:
    """What keeps actions of one response together: the response's id, else each is one of its own."""
    if event.text("source", "") != "agent" or "action" not in event or event.text("action") == "system":
        return "", number
    if "tool_call_metadata" in event and "model_response" in event.object("tool_call_metadata"):
        made = event.object("tool_call_metadata").object("model_response").name("id", "")
        if made:
            return made, -1
    return f"action {number}", number


def _action_texts(event: Fields) -> Iterator[str]:
    action = event.text("action")
    arguments = dict(event.object("args").values) if "args" in event else {}
    spoken = arguments.pop("thought", "") or arguments.pop("content", "")
    if isinstance(spoken, str) and spoken:
        yield spoken
    if action != "message":
        yield call_text(action, arguments)


def _heard(event: Fields) -> Message:
    """What isn't from the model: the user's messages, the system prompt, observations."""
    if "observation" in event and "action" not in event:
        return Message("tool", event.text("content", ""))
    arguments = event.object("args") if "args" in event else event
    role: str = "system" if event.text("action", "") == "system" else "user"
    return Message("system" if role == "system" else "user", arguments.text("content", ""))


IMPORTER = Importer("openhands", "OpenHands runs (output.jsonl)", _recognise, _read)

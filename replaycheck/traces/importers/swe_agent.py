"""SWE-agent trajectories: one object a file. Steps with the messages they sent give real prompts, else the history.

A history is one list for all agents of a run; each agent is a trace of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .api import Context, Head, Importer
from .content import openai_message, openai_messages
from .draft import DraftGroup
from .fields import Fields
from .log import Log
from .source import SourceFile
from .threads import Message, Thread

__all__ = ["IMPORTER"]


def _recognise(head: Head) -> str | None:
    record = head.first("trajectory", "history")
    good = record is not None and isinstance(record["trajectory"], list) and isinstance(record["history"], list)
    return "an object has the lists 'trajectory' and 'history'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for record in source.records():
            group = DraftGroup(source, source.path.stem)
            sent = [step for step in record.objects("trajectory") if "query" in step or "messages" in step]
            if sent:
                _from_steps(group, sent, context.log)
            else:
                _from_history(group, record, context.log)
            yield group


def _from_steps(group: DraftGroup, steps: Sequence[Fields], log: Log) -> None:
    """Each step: the prompt that was sent and what came back."""
    thread = Thread(group, "agent", log)
    for step in steps:
        prompt = openai_messages(step, "query" if "query" in step else "messages", log)
        thread.call(prompt, Message("assistant", step.text("response", "")))
    thread.close()


def _from_history(group: DraftGroup, record: Fields, log: Log) -> None:
    threads: dict[str, Thread] = {}
    last: dict[str, int | None] = {}
    for each in record.objects("history"):
        agent = each.text("agent", "primary")
        thread = threads.setdefault(agent, Thread(group, agent, log))
        # Demonstrations are part of the prompt; the model didn't write them.
        last[agent] = thread.add(last.get(agent), openai_message(each, log), ask=not each.get("is_demo"))
    for thread in threads.values():
        thread.close()


IMPORTER = Importer("swe-agent", "SWE-agent trajectories (.traj)", _recognise, _read)

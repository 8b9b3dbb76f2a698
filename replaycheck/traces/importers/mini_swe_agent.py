"""mini-swe-agent trajectories: a list of messages (older), or an object with ``info``, ``messages``, ``trajectory_format``.

The last message is often an empty user turn that nothing answers; it is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .api import Context, Head, Importer
from .content import openai_message
from .draft import DraftGroup
from .fields import Fields, Place
from .source import SourceFile
from .threads import Thread

__all__ = ["IMPORTER"]


def _recognise(head: Head) -> str | None:
    if head.is_list and head.all_have("role", "content"):
        return "the file is one list of messages with 'role' and 'content'"
    record = head.first("messages", "info")
    good = record is not None and isinstance(record["info"], dict) and "steps" not in record
    return "an object has 'messages' and 'info'" if good else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    for source in sources:
        for name, messages in _conversations(source):
            group = DraftGroup(source, name)
            thread = Thread(group, "agent", context.log)
            thread.say([openai_message(each, context.log) for each in messages])
            thread.close()
            yield group


def _conversations(source: SourceFile) -> Iterator[tuple[str, Sequence[Fields]]]:
    if source.is_lines:
        for number, record in enumerate(source.records(), 1):
            yield f"{source.path.stem}-{number}", list(record.objects("messages"))
        return
    value, place = source.whole(), Place(source.path, 1)
    if isinstance(value, list):
        yield source.path.stem, [Fields.of(each, place.inside(f"[{index}]")) for index, each in enumerate(value)]
    else:
        yield source.path.stem, list(Fields.of(value, place).objects("messages"))


IMPORTER = Importer("mini-swe-agent", "mini-swe-agent trajectories (.traj.json)", _recognise, _read)

"""A third party's trace format: questions and answers, one pair a line, as {"q": "Why?", "a": "So."}.

A package announces it with: [project.entry-points."replaycheck.importers"] and pairs = "importer:PAIRS"
"""

from collections.abc import Iterator, Sequence

from replaycheck.traces.importers import Context, DraftGroup, Head, Importer, Message, SourceFile, Thread


def recognise(head: Head) -> str | None:
    """Why a file is of this format, or None; `auto` asks every importer and wants one answer."""
    return "every record has 'q' and 'a'" if head.all_have("q", "a") else None


def read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    """A group a line. ``record.text`` names file, line and field if there is no text."""
    for source in sources:
        for number, record in enumerate(source.records(), 1):
            group = DraftGroup(source, f"pair-{number}")
            thread = Thread(group, "pair", context.log)
            thread.say([Message("user", record.text("q")), Message("assistant", record.text("a"))])
            thread.close()  # counts what nothing was asked about
            yield group


PAIRS = Importer("pairs", "Questions and answers, JSON lines", recognise, read)

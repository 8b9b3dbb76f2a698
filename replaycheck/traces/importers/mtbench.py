"""MT-Bench: questions of two turns, and answers in files of their own; give both files and they are joined.

A turn whose answer isn't in any file gets a made one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .api import Context, Head, Importer
from .draft import DraftGroup
from .fields import Fields
from .source import SourceFile
from .words import literal, made

__all__ = ["IMPORTER"]

#: Tokens of an answer that nobody gave. The median of real answers is 134 (ShareGPT) to 504 (OASST) bytes.
_MADE = 128


def _recognise(head: Head) -> str | None:
    if head.all_have("question_id", "turns"):
        return "every record has 'question_id' and 'turns'"
    return "every record has 'question_id' and 'choices'" if head.all_have("question_id", "choices") else None


def _read(sources: Sequence[SourceFile], context: Context) -> Iterator[DraftGroup]:
    answers: dict[str, list[str]] = {}
    for source in sources:
        for record in source.records():
            if "choices" in record:
                _keep(answers, record)
    used: set[str] = set()
    for source in sources:
        for record in source.records():
            if "choices" not in record:
                used.add(record.name("question_id"))
                yield _group(source, record, answers, context)
    context.log.drop("answer whose question isn't in the files", len(answers.keys() - used))


def _keep(answers: dict[str, list[str]], record: Fields) -> None:
    for choice in record.objects("choices"):
        name = record.name("question_id")
        if name in answers:
            record.fail(
                "question_id", f"{name[:40]!r} has an answer already; give the answers of one model, one choice each"
            )
        answers[name] = _strings(choice, "turns")


def _group(source: SourceFile, record: Fields, answers: dict[str, list[str]], context: Context) -> DraftGroup:
    name, log = record.name("question_id"), context.log
    group = DraftGroup(source, name)
    trace = group.trace(f"question-{name}")
    known = answers.get(name) or _strings(record, "reference", optional=True)
    parent: int | None = None
    for number, question in enumerate(_strings(record, "turns")):
        parent = trace.say(parent, "user", literal(question, log), question)
        if number < len(known):
            parent = trace.say(parent, "assistant", literal(known[number], log), known[number])
        else:
            log.note(f"answer isn't in the files and was made, {_MADE} tokens long")
            parent = trace.add(parent, "assistant", made(_MADE - 1, source.sha256, name, number))
        group.ask(trace, parent)
    return group


def _strings(record: Fields, name: str, optional: bool = False) -> list[str]:
    values = record.array(name, [] if optional else None)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            record.fail(f"{name}[{index}]", "isn't a string; allowed: strings")
    return [value.encode("utf-8", "replace").decode("utf-8") for value in values]


IMPORTER = Importer("mtbench", "MT-Bench questions, with answer files where given", _recognise, _read)

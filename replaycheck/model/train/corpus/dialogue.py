"""Conversations for the chat template, out of plays, doctests and question-and-answer lists.

A conversation is a list of (role, text) turns. Speakers of a play alternate as user and assistant. A doctest
becomes an agent's loop: the user's words, code by the assistant, its output by the tool, and so on.
"""

from __future__ import annotations

import doctest
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Turn", "doctest_sessions", "play_scenes", "question_lists"]


class Turn(NamedTuple):
    """One turn; ``role`` is system, user, assistant or tool."""

    role: str
    text: str


_SPEAKER: Final = re.compile(r"[A-Z][A-Za-z' -]{1,24}\.")
_HEADING: Final = re.compile(r"(?:ACT|SCENE|Scene|Act)\b")
_TURNS_IN_A_SCENE: Final = 16
# Prose around an example is cut to what fits a question or a closing remark.
_LONGEST_REMARK: Final = 600


def play_scenes(title: str, text: str) -> Iterator[list[Turn]]:
    """Scenes of a play whose speakers stand on lines of their own, in pieces of at most 16 speeches."""
    heading, speeches = title, list[str]()
    for paragraph in re.split(r"\n[ \t]*\n+", text):
        first, _, rest = paragraph.strip().partition("\n")
        if _HEADING.match(first) or len(speeches) == _TURNS_IN_A_SCENE:
            yield from _scene(title, heading, speeches)
            speeches = []
        if _HEADING.match(first):
            heading = first
        elif _SPEAKER.fullmatch(first.strip()) and rest.strip():
            speeches.append(rest)
        elif speeches and not first.startswith("["):
            speeches[-1] += "\n\n" + paragraph.strip("\n")
    yield from _scene(title, heading, speeches)


def _scene(title: str, heading: str, speeches: list[str]) -> Iterator[list[Turn]]:
    if len(speeches) < 2:
        return
    roles = ("user", "assistant")
    turns = [Turn(roles[index % 2], speech) for index, speech in enumerate(speeches)]
    yield [Turn("system", f"A scene from {title}. {heading}"), *turns]


def doctest_sessions(title: str, text: str) -> Iterator[list[Turn]]:
    """Interactive sessions in a documentation file or a module; none where doctest can't parse it."""
    try:
        parts = doctest.DocTestParser().parse(text, title)
    except ValueError:
        return
    remark, session = "", list[doctest.Example]()
    for part in [*parts, "\n"]:
        if isinstance(part, doctest.Example):
            session.append(part)
        elif part.strip() or part is parts[-1]:
            yield from _session(title, remark, session, part)
            remark, session = part, []


def _session(title: str, before: str, examples: list[doctest.Example], after: str) -> Iterator[list[Turn]]:
    question = _paragraph(before, -1)
    if not examples or not question:
        return
    turns = [Turn("system", f"You work in a Python session. Topic: {title}"), Turn("user", question)]
    code = ""
    for example in examples:
        code += example.source
        # In a module the closing quotes of a docstring stand right behind the last output.
        if output := example.want.partition('"""')[0].strip():
            turns += [Turn("assistant", code.rstrip("\n")), Turn("tool", output)]
            code = ""
    closing = code.rstrip("\n") or _paragraph(after, 0)
    if len(turns) > 2 and closing:
        turns.append(Turn("assistant", closing))
    if len(turns) > 2:
        yield turns


def _paragraph(text: str, index: int) -> str:
    """The first (0) or last (−1) paragraph, dedented and cut at a word."""
    paragraphs = [part for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    if not paragraphs:
        return ""
    whole = textwrap.dedent(paragraphs[index]).strip()
    return whole if len(whole) <= _LONGEST_REMARK else whole[:_LONGEST_REMARK].rpartition(" ")[0]


def question_lists(text: str) -> Iterator[list[Turn]]:
    """Conversations of a chatterbot YAML file: lists of lists of strings, user and assistant in turn."""
    roles = ("user", "assistant")
    for lines in _conversations(text):
        yield [Turn(roles[index % 2], line) for index, line in enumerate(lines)]


def _conversations(text: str) -> Iterator[list[str]]:
    """The part of YAML that these files use: items ``- - a`` and ``  - b``, quoted strings, block scalars."""
    current, item = list[str](), list[str]()
    for line in [*text.partition("conversations:")[2].splitlines(), "- - "]:
        if line.startswith(("- - ", "  - ")):
            if item:
                current.append(_scalar(item))
            if line.startswith("- ") and current:
                yield current
                current = []
            item = [line[4:]]
        elif item:
            item.append(line)


def _scalar(lines: list[str]) -> str:
    first, rest = lines[0].strip(), textwrap.dedent("\n".join(lines[1:])).rstrip()
    if first in ("|", "|-", ">", ">-"):
        return rest
    joined = " ".join([first, *rest.split("\n")]).strip()
    if joined.startswith('"') and joined.endswith('"') and len(joined) > 1:
        return _double_quoted(joined)
    if joined.startswith("'") and joined.endswith("'") and len(joined) > 1:
        return joined[1:-1].replace("''", "'")
    return joined


def _double_quoted(text: str) -> str:
    """JSON's escapes are YAML's, as far as these files go."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]

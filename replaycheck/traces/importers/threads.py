"""Conversations in words: messages with parents become turns, one trace for each model that was asked.

An answer is decoded with its reasoning. Later prompts hold the reasoning until the user speaks again, and not after that,
as chat templates and APIs have it; such a prompt doesn't begin with the earlier one and its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from replaycheck.schema.trace import Role

from .draft import DraftGroup, DraftTrace
from .log import Log
from .words import Words, literal

__all__ = ["Message", "Thread"]


@dataclass(frozen=True)
class Message:
    """One message as the source has it; ``model`` answered at ``time``, in seconds."""

    role: Role
    text: str
    reasoning: str = ""
    model: str = ""
    time: float | None = None


@dataclass
class Thread:
    """The messages of one session, each after its parent."""

    group: DraftGroup
    name: str
    log: Log
    messages: list[tuple[int | None, Message]] = field(default_factory=list)
    #: by trace, message and whether the user has spoken since: the turn
    _turns: dict[tuple[str, int, bool], int] = field(default_factory=dict)
    _used: set[int] = field(default_factory=set)
    _model: str = ""

    def add(self, parent: int | None, message: Message, ask: bool = True) -> int | None:
        """Add a message and ask for it if it is an answer. Returns its number; the parent's if it can't be used."""
        if message.role == "assistant" and parent is None:
            self.log.drop("assistant message before any prompt")
            return None
        self.messages.append((parent, message))
        number = len(self.messages) - 1
        if message.role == "assistant" and ask:
            self._ask(number, message)
        return number

    def say(self, messages: Iterable[Message]) -> None:
        """Add messages in a row, from the start of a path, and ask for each answer."""
        parent = None
        for message in messages:
            parent = self.add(parent, message)

    def call(self, prompt: Iterable[Message], answer: Message) -> None:
        """One request: a whole prompt and its answer. What it shares with earlier prompts is found by comparing."""
        parent = None
        for message in prompt:
            parent = self.add(parent, message, ask=False)
        self.add(parent, answer)

    def close(self) -> None:
        """Count what nothing was asked about."""
        unused = [message for number, (_, message) in enumerate(self.messages) if number not in self._used]
        self.log.drop("empty message that leads to no answer", sum(not message.text for message in unused))
        self.log.drop("message that leads to no answer", sum(bool(message.text) for message in unused))

    def _ask(self, number: int, message: Message) -> None:
        if message.model and self._model and message.model != self._model:
            self.log.note("model switch: the other model's requests are a trace of their own")
        self._model = message.model or self._model
        trace = self.group.trace(f"{self.name} {message.model}".strip())
        self.group.ask(trace, self._turn(trace, number), message.time)

    def _turn(self, trace: DraftTrace, number: int) -> int:
        """The turn of a message as the last one of a prompt, or as its answer."""
        waiting = [(number, False)]
        while waiting:
            each, closed = waiting[-1]
            parent, message = self.messages[each]
            above = None if parent is None else (parent, closed or message.role == "user")
            if above is not None and (trace.name, *above) not in self._turns:
                waiting.append(above)
                continue
            waiting.pop()
            self._used.add(each)
            before = None if above is None else self._turns[(trace.name, *above)]
            self._turns[trace.name, each, closed] = self._said(trace, before, message, closed)
        return self._turns[trace.name, number, False]

    def _said(self, trace: DraftTrace, before: int | None, message: Message, closed: bool) -> int:
        text = message.text if closed else _joined(message)
        if closed and message.reasoning:
            self.log.note("reasoning is in the answer and not in the prompts after the user's next message")
        return trace.say(before, message.role, self._words(text), text)

    def _words(self, text: str) -> Words:
        return literal(text, self.log)


def _joined(message: Message) -> str:
    return "\n".join(part for part in (message.reasoning, message.text) if part) if message.reasoning else message.text

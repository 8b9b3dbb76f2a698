"""Prompts as messages for ``/v1/chat/completions``, so that the server's own template gives the very ids that are meant.

A prompt of the traces' vocabulary is taken apart at its role tokens; any other is one message of its whole text, which a
template that only concatenates hands on. Whether the ids are exact is asked of the server before each new prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaycheck.subjects.server.http import Client, ServerFault
from replaycheck.traces.vocabulary import ASSISTANT, BOS, END, ROLE_TOKENS, SIZE, USER, decode

__all__ = ["CONCATENATES", "Chat", "Messages", "by_roles"]

CONCATENATES = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""The template for ``--chat-template`` under which a prompt of any ids that tokenize back is one message."""

Message = dict[str, str]

_ROLES = {token: role for role, token in ROLE_TOKENS.items()}


@dataclass(frozen=True)
class Messages:
    """users: positions at which the server sees users' messages begin, where it makes checkpoints."""

    messages: tuple[Message, ...]
    users: tuple[int, ...] = ()


def by_roles(prompt: Sequence[int]) -> Messages | None:
    """Of a prompt that is a whole conversation up to the assistant's turn; None of another."""
    if len(prompt) < 3 or prompt[0] != BOS or tuple(prompt[-2:]) != (END, ASSISTANT) or max(prompt) >= SIZE:
        return None
    found = list(_turns(prompt[1:-1]))
    if any(each is None for each in found):
        return None
    users = tuple(at for at, token in enumerate(prompt) if token == USER)
    return Messages(tuple(each for each in found if each), users)


def _turns(tokens: Sequence[int]) -> Iterator[Message | None]:
    start = 0
    for at, token in enumerate(tokens):
        if token == END:
            role = _ROLES.get(tokens[start])
            text = tokens[start + 1 : at]
            known = role is not None and not _ROLES.keys() & set(text)
            yield {"role": str(role), "content": decode(text)} if known else None
            start = at + 1


class Chat:
    """Messages for prompts, checked once each.

    Args:
        client: of the server whose template and tokenizer are asked.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[int, ...], Messages] = {}

    def messages(self, prompt: Sequence[int]) -> Messages:
        """Raises :class:`ServerFault` if none become these ids."""
        ids = tuple(prompt)
        if ids not in self._known:
            self._known[ids] = self._found(ids)
        return self._known[ids]

    def _found(self, prompt: tuple[int, ...]) -> Messages:
        roles = by_roles(prompt)
        if roles and self._ids(roles) == prompt:
            return roles
        text = self._client.post("/detokenize", {"tokens": list(prompt)}, idempotent=True)["content"]
        whole = Messages(({"role": "user", "content": str(text)},))
        if self._ids(whole) == prompt:
            return whole
        raise ServerFault(
            f"{self._client.url}: no messages become a prompt of {len(prompt)} tokens under its chat template; start it "
            f'with --chat-template "{CONCATENATES}", or take --subject-option route=native'
        )

    def _ids(self, messages: Messages) -> tuple[int, ...]:
        said = self._client.post("/apply-template", {"messages": list(messages.messages)}, idempotent=True)
        body = {"content": said["prompt"], "parse_special": True, "add_special": True}
        return tuple(self._client.post("/tokenize", body, idempotent=True)["tokens"])

"""Paths of a free run: an arm's own answers where the forced run has the trace's.

Plans say where a token lies and never which one it is, so the schedules are those of the forced run. A token is known by the
number of the prefix that it ends (:mod:`replaycheck.schedule.prefix.origin`), which an answer shares with those forked from
it, with a request for the same turn, and with the history of each later turn. What was said first stays: a turn asked
for again is fed with its first answer, as a client's transcript has it, so that stored states hold what their names say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from torch import Tensor

from replaycheck.compare.logits import top1
from replaycheck.errors import InternalError
from replaycheck.schedule.steps import RequestPlan, Row

__all__ = ["OwnAnswers"]

UNSAID = -1
"""In place of a token that nobody has said yet; a row that would run one is a fault of the plan."""


class OwnAnswers:
    """What an arm has said so far. Every schedule that runs has its own: no state or token goes from one arm to another."""

    def __init__(self, requests: Sequence[RequestPlan]) -> None:
        self._requests = requests
        self._said: dict[int, int] = {}  # by the prefix's number
        self._paths: dict[int, list[int]] = {}  # by request, from its first row on

    def seen_of(self, row: Row) -> tuple[int, ...]:
        """The tokens that reach a row's state. Raises :class:`InternalError` if one of them isn't said yet."""
        path = self._path(row.request)
        seen = replace(self._requests[row.request], tokens=tuple(path[: row.b])).seen_of(row)
        if UNSAID in seen:
            raise InternalError(f"tokens {row.a} to {row.b} of request {row.request} are run before they are said")
        return seen

    def take(self, row: Row, logits: Tensor) -> None:
        """The scored logits [n, vocabulary] of a row's last tokens: each says its best token, the lowest id of equal ones.

        A row of NaN says token 0, so that a broken arm goes on and is compared.
        """
        if not len(logits):
            return
        best = np.maximum(top1(logits.float().cpu().numpy()), 0).tolist()
        first = row.b + 1 - len(best)
        for request in (row.request, *row.shared):
            numbers = self._requests[request].numbers
            for position, token in enumerate(best, first):
                kept = self._said.setdefault(numbers[position + 1], token)
                if request in self._paths:
                    self._paths[request][position] = kept

    def answer(self, request: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """The tokens of an answer that is over."""
        plan = self._requests[request]
        return np.array(self._path(request)[plan.prompt : plan.end], np.int32)

    def history(self, request: int) -> bytes:
        """A digest of the tokens before an answer: equal ones, equal prompts."""
        prompt = np.array(self._path(request)[: self._requests[request].prompt], np.int32)
        return blake2b(prompt.tobytes(), digest_size=16).digest()

    def _path(self, request: int) -> list[int]:
        """The path of a request that begins now: its prompt as far as answers of it were given, else as in the trace."""
        if request not in self._paths:
            plan = self._requests[request]
            known = [self._said.get(number) for number in plan.numbers[1:]]
            for position in range(plan.prompt):
                if known[position] is None:
                    # An answer that a later turn's request needs before its own was asked for stays the trace's.
                    known[position] = self._said.setdefault(plan.numbers[position + 1], plan.tokens[position])
            self._paths[request] = [UNSAID if token is None else token for token in known]
        return self._paths[request]

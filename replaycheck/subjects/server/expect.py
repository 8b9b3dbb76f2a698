"""Which hits an engine's cache is expected to have, and why one that came out otherwise did.

The caches of :mod:`replaycheck.schedule.prefix` plan the lab's warm arms; here they shadow a server: each request that is
sent goes through the same find, cut and store, so block, page, chunk and interval are counted in one place.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import Job, Piece
from replaycheck.schedule.prefix.origin import Prefixes
from replaycheck.schedule.steps import Part
from replaycheck.schema.policy import Policy

__all__ = ["Expectation", "explain"]

NO_LIMIT = 1 << 40


class Expectation:
    """The shadow of one cache space. Requests are told in the order in which they are sent, one at a time."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cache = prefix_cache(policy)
        self._prefixes = Prefixes()
        self._sent = 0

    def hit(self, tokens: Sequence[int]) -> int:
        """Tokens of this prompt that should be restored if it were sent now."""
        found = self._cache.find(self._job(tokens, ()))
        return found.position if found else 0

    def hits(self, prompts: Sequence[Sequence[int]]) -> list[int | None]:
        """The same of prompts that are sent at once. None where it depends on which of them the engine takes first: another
        one could leave more than is there now, or push out what is."""
        now = [self.hit(tokens) for tokens in prompts]
        if len(prompts) > 1 and self._policy.capacity is not None:
            return [None] * len(prompts)
        unit = _unit(self._policy)
        return [
            None if any(_gain(tokens, other, unit) > hit for at, other in enumerate(prompts) if at != mine) else hit
            for mine, (tokens, hit) in enumerate(zip(prompts, now, strict=True))
        ]

    def sent(self, tokens: Sequence[int], answer: Sequence[int]) -> None:
        """A request is over; what it left behind can be hit from here on. The last token of an answer is never an input."""
        job = self._job(tokens, answer)
        self._sent += 1
        found = self._cache.admit(job)
        job.position = found.position if found else 0
        self._prefill(job)
        while job.position < job.computed_end:
            self._step(job, Piece(job.position, job.position + 1, Part.ANSWER))
        self._cache.finish(job)
        self._cache.release(job)

    def _job(self, tokens: Sequence[int], answer: Sequence[int]) -> Job:
        numbers = self._prefixes.of([("token", token) for token in (*tokens, *answer)])
        return Job(self._sent, numbers, len(tokens), len(tokens) + len(answer), goal=len(tokens))

    def _prefill(self, job: Job) -> None:
        while job.position < job.goal:
            end = self._cache.cut(job, self._policy.budget or NO_LIMIT)
            self._step(job, Piece(job.position, end, Part.TAIL))

    def _step(self, job: Job, piece: Piece) -> None:
        takes = self._cache.takes(job, piece)
        job.position = piece.b
        self._cache.keep(job, piece, takes)


def explain(policy: Policy | None, prompt: int, expected: int | None, actual: int | None) -> str:
    """Why a hit is as long as it is, in a few words that many hits share.

    Args:
        prompt: tokens of the prompt. expected: by :class:`Expectation`; None without a policy. actual: None if not reported.
    """
    if actual is None:
        return "not reported by the server"
    if expected is None:
        return "hit, not predicted" if actual else "no hit, not predicted"
    if actual == expected:
        return "as expected" if actual else _why_none(policy, prompt)
    if not actual:
        return "missed: evicted, not stored, or caching is off"
    if actual < expected:
        return "short: a longer state was expected, and evicted or not stored"
    return "longer than expected: more is stored than the policy says"


def _gain(tokens: Sequence[int], other: Sequence[int], unit: int) -> int:
    """Tokens that a prompt could hit at most of what another one leaves behind; one token is always computed."""
    length = min(len(tokens) - 1, len(other))
    same = next((at for at in range(length) if tokens[at] != other[at]), length)
    return same // unit * unit


def _unit(policy: Policy | None) -> int:
    """Tokens of a block or page, at whose ends alone states are found."""
    return getattr(policy, "block", None) or getattr(policy, "page", None) or 1


def _why_none(policy: Policy | None, prompt: int) -> str:
    unit = _unit(policy)
    if prompt <= unit:
        return f"no hit expected: the prompt is no longer than a block of {unit}"
    return "no hit expected: nothing before it has this prefix up to a block's end"

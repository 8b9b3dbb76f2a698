"""Made-up speculation: for an answer and a pattern of accepted counts, drafts that are right so long and then wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from replaycheck.schema.trace import Speculation


def draft(
    turn: str, answer: Sequence[int], counts: Iterable[tuple[int, int]], vocabulary: int, seed: int
) -> tuple[Speculation, ...]:
    """Events that cover the answer window by window, until the counts or the answer end.

    Args:
        turn: id of the answer's turn. counts: (drafts, accepted) of each window; (0, 0) is a step without drafts.
        vocabulary: number of token ids; at least 2, since a wrong draft needs another token.
    """
    random, events, at = Random(seed), list[Speculation](), 0
    for drafts, wanted in counts:
        accepted = min(wanted, len(answer) - 2 - at)
        if accepted < 0:
            break
        if drafts:
            tokens = tuple(_draft(answer, at + 1 + i, i < accepted, vocabulary, random) for i in range(drafts))
            events.append(Speculation(kind="speculation", turn=turn, offset=at, drafts=tokens, accepted=accepted))
        at += 1 + accepted
    return tuple(events)


def _draft(answer: Sequence[int], position: int, right: bool, vocabulary: int, random: Random) -> int:
    """The answer's token, or any other; past the answer's end, any."""
    truth = answer[position] if position < len(answer) else -1
    if right:
        return truth
    token = random.randrange(vocabulary - 1) if truth >= 0 else random.randrange(vocabulary)
    return token + 1 if 0 <= truth <= token else token

"""The split arm: a second server plays what the first one computed, cut where it was cut, with the state carried live.

A server without checkpoints runs a prompt in one piece and goes on in place when the next prompt extends its slot's text. So
a prompt is sent beginning by beginning, each as long as a cut of warm's history is far; nothing is stored or restored.
Tokens that warm decoded one by one are decoded here too, as a forced answer. Measured: same bits as warm's at every position
of every recurrent tiny model, in place and from checkpoints, with flash attention and quantized keys and values too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaycheck.subjects.server.http import ServerFault

from .wire import Completion, Wire, force

__all__ = ["ADVICE", "Piece", "pieces", "replay"]

ADVICE = "the same server started with --ctx-checkpoints 0 --cache-ram 0 --parallel 1"


@dataclass(frozen=True)
class Piece:
    """A beginning of the prompt that is sent. start, end: tokens before and with it; decoded: that follow one by one."""

    start: int
    end: int
    decoded: int = 0


def pieces(cuts: Sequence[int], length: int) -> Iterator[Piece]:
    """What to send before the prompt itself.

    >>> list(pieces((4, 5, 6, 20), 24))
    [Piece(start=0, end=4, decoded=2), Piece(start=6, end=20, decoded=0)]
    """
    start = at = 0
    while at < len(cuts):
        last = at
        while last + 1 < len(cuts) and cuts[last + 1] == cuts[last] + 1 < length:
            last += 1
        yield Piece(start, cuts[at], cuts[last] - cuts[at])
        start, at = cuts[last], last + 1


def replay(
    wire: Wire, prompt: tuple[int, ...], answer: tuple[int, ...], cuts: Sequence[int], ends: frozenset[int]
) -> Completion:
    """The forced ``answer`` behind ``prompt``, computed with these cuts.

    Args:
        ends: ids that end a generation, which can't be decoded in the middle of a forced answer.

    Raises:
        ServerFault: the server doesn't go on in place, or restores something.
    """
    start = 0
    for piece in pieces(cuts, len(prompt)):
        decoded = prompt[piece.end : piece.end + piece.decoded]
        grammar = force(decoded, ends) if decoded else None
        if decoded and (grammar is None or decoded[-1] in ends):
            # One by one as prompts, which are batches of one token as well.
            _send(wire, prompt[: piece.end], 1, None, start)
            for end in range(piece.end + 1, piece.end + piece.decoded + 1):
                _send(wire, prompt[:end], 1, None, end - 1)
        else:
            _send(wire, prompt[: piece.end], len(decoded) + 1, grammar, start)
        start = piece.end + piece.decoded
    return _send(wire, prompt, len(answer), force(answer, ends), start)


def _send(wire: Wire, prompt: tuple[int, ...], new: int, grammar: str | None, start: int) -> Completion:
    said = wire.complete(prompt, new, cache=start > 0, slot=0, grammar=grammar)
    if said.cached != start:
        raise ServerFault(
            f"{wire.client.url}: a prompt that goes on behind {start} tokens was answered from {said.cached} cached ones, "
            f"so this server can't be the split arm; give split-url {ADVICE}, used by nobody else"
        )
    return said

"""What a cached answer's difference means: measured against the server's own noise, which no cache is involved in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .play import Logprobs, Said, Tokens, difference
from .reference import Asked, Reference

__all__ = ["FACTOR", "Judged", "Verdict", "explained", "judge", "worst", "wrong_texts"]

FACTOR = 4.0
"""Of the largest difference between two uncached ways to compute the same answers. Both are maxima over the same positions;
measured, over every architecture and axis without a fault, the cached one was at most 1.6 of the other."""


class Verdict(StrEnum):
    """In the order from good to bad, but for the last three, which say why there is no comparison."""

    EXACT = "exact"
    NOISE = "noise"
    APPROXIMATE = "approximate"
    FAULT = "fault"
    NO_HIT = "no hit"
    CRASHED = "crashed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Judged:
    """One move.

    Attributes:
        hit: tokens from the cache. difference: largest, nat; NaN if nothing was compared. positions: that were.
        drafted: tokens that speculation drafted. Accepted ones are answered without a number and not compared.
        wrong_text: what other text the answer is the right one to, within the noise; "": none that was tried.
    """

    move: str
    hit: int
    difference: float
    positions: int
    verdict: Verdict
    wrong_text: str = ""
    drafted: int = 0


def judge(said: Said, reference: Reference, approximate: bool = False) -> Judged:
    """``approximate``: by its documentation the server doesn't promise more here."""
    size, positions = difference(said.logprobs, reference.cold[said.move.prompt, said.move.answer])
    if not said.hit or not positions:
        verdict = Verdict.NO_HIT
    elif size == 0:
        verdict = Verdict.EXACT
    elif size <= FACTOR * reference.noise:
        verdict = Verdict.NOISE
    else:
        verdict = Verdict.APPROXIMATE if approximate else Verdict.FAULT
    return Judged(said.move.name, said.hit or 0, size, positions, verdict, drafted=said.drafted or 0)


def wrong_texts(said: Said) -> dict[str, Tokens]:
    """Prompts that a server which judges stored states by their position alone would answer instead."""
    move = said.move
    if move.unedited is None or not said.hit:
        return {}
    found = {"the text before tokens were dropped": move.unedited}
    if said.hit < len(move.unedited):
        mixed = move.unedited[: said.hit] + move.prompt[said.hit :]
        found[f"the first {said.hit} tokens of the text before, then this prompt"] = mixed
    return {name: text for name, text in found.items() if text != move.prompt}


def explained(judged: Judged, said: Said, texts: Mapping[Asked, Logprobs], noise: float) -> Judged:
    """With the text whose right answer this is. That is no approximation, whatever was documented, but a fault."""
    for name, text in wrong_texts(said).items():
        if difference(said.logprobs, texts[text, said.move.answer])[0] <= FACTOR * noise:
            return replace(judged, verdict=Verdict.FAULT, wrong_text=name)
    return judged


def worst(moves: Sequence[Judged]) -> Verdict:
    """Of all moves with a hit."""
    seen = {move.verdict for move in moves}
    for verdict in (Verdict.FAULT, Verdict.APPROXIMATE, Verdict.NOISE, Verdict.EXACT):
        if verdict in seen:
            return verdict
    return Verdict.NO_HIT

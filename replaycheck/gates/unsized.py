"""Tokens that are compared without log-probabilities: what equal texts show, and when other texts are more than chance.

Equal tokens show that no difference was large enough to change the choice, which says little of a state: so they never
pass. Another token may be a near tie that fell the other way, by other cuts or by running twice: so it never fails by
itself. Where cuts are the same in both arms, running twice is all that is left, and that was measured: cold twice. Each turn
is compared up to its first difference. If restoring changed nothing, the k turns in which warm parted from cold and the j in
which cold parted from itself are k + j draws, and each is warm's with the share of tokens that were compared there: of 5
such turns, with as many tokens compared either way, all 5 are warm's with a chance of 1 in 32. (The conditional test of two
Poisson rates: Przyborowski and Wilenski, Biometrika 31, 1940.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scipy.stats import binomtest

from replaycheck.schema.arm import Effect
from replaycheck.schema.floor import Measure
from replaycheck.schema.result import CellResult
from replaycheck.stats.intervals import CONFIDENCE

from .bounds import Bound, told
from .measured import Measured, counted
from .scoped import fewest_traces

__all__ = ["by_token_alone", "most_by_chance", "unsized_words"]

ALIKE = (Effect.EXACT, Effect.STATE)
"""Cells whose arms are cut alike."""

EQUAL = (
    "equal tokens are weak evidence: a difference shows only where it changes the most likely token; let the server say "
    "log-probabilities"
)
NO_NOISE = "no arm was run cold twice, so a near tie can't be excluded; give --subject-option cold-url=URL"


def by_token_alone(cells: Sequence[CellResult], noise: Measure | None, mixed: str) -> Measured:
    """Inconclusive, or a failure where warm parts more often than running twice explains.

    Args:
        cells: that compared tokens and no log-probability. noise: of cold twice, if it was measured.
        mixed: why a difference of cells whose cuts differ decides nothing.
    """
    events = {cell.name: cell.unsized_flips for cell in cells}
    n, any_differs = sum(cell.unsized for cell in cells), any(events.values())
    verb = "differ, by how much isn't known" if any_differs else "differ"
    found = counted(events, n, "tokens", verb, fewest_traces(cells))
    if not any_differs:
        return replace(found, bound=Bound(None, EQUAL), decided="inconclusive")
    if any(cell.effect not in ALIKE and cell.unsized_flips for cell in cells):
        return replace(found, bound=Bound(None, mixed), decided="inconclusive")
    if noise is None:
        return replace(found, bound=Bound(None, NO_NOISE), decided="inconclusive")
    most, value = most_by_chance(noise.flips, n / (n + noise.positions)), sum(events.values())
    derivation = (
        f"cold twice: {noise.flips:,} of {noise.positions:,} tokens differ ({told(noise)}); if restoring changes nothing, "
        f"more than {most} are less likely than {1 - CONFIDENCE:.0%}"
    )
    return replace(found, bound=Bound(most, derivation), decided="fail" if value > most else "inconclusive")


def most_by_chance(flips: int, share: float) -> int:
    """The most differences that chance explains at 95 %, beside ``flips`` of the control. share: of the tokens, over both.

    >>> most_by_chance(0, 0.5), most_by_chance(3, 0.5)
    (4, 9)
    """
    most = 0
    while binomtest(most + 1, most + 1 + flips, share, alternative="greater").pvalue >= 1 - CONFIDENCE:
        most += 1
    return most


def unsized_words(cells: Sequence[CellResult]) -> str:
    """What was compared where no log-probability was; "" if some were, or nothing was compared at all."""
    tokens = sum(cell.unsized for cell in cells)
    if not tokens or any(cell.positions > cell.missing for cell in cells):
        return ""
    return f"{tokens:,} tokens were compared by themselves, without log-probabilities"

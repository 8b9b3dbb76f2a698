"""Why a hit of llama.cpp's server is as long as it is, in a few words that many hits share."""

from __future__ import annotations

from .shadow import Taken

__all__ = ["explain"]


def explain(taken: Taken, actual: int | None) -> str:
    """actual: tokens from the cache, as the server says; None: it says nothing."""
    if actual is None:
        return "not reported by the server"
    if actual == taken.hit:
        if not actual:
            return "no hit expected: no checkpoint lies within what the slot's text shares with the prompt"
        other = "" if taken.read is None else ", and its state has read another text (finding 22)"
        return f"as expected, {taken.how}{other}"
    if not actual:
        return (
            "missed: its options are others than expected (ctx-checkpoints, cache-ram), or another client used the slot"
        )
    if actual < taken.hit:
        return (
            "short: a later checkpoint was expected, so its options are others (ctx-checkpoints, checkpoint-min-step)"
        )
    return "longer than expected: text of an earlier run in its host cache, or other options (ubatch-size, ctx-checkpoints)"

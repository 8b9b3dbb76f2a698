"""The operations of the sweep, by the names that its table and ``--only`` use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import batch, continuation, generating, padding
from .bench import Bench, Compared

__all__ = ["OPERATIONS", "Operation"]


@dataclass(frozen=True)
class Operation:
    """One column. group: the part of the table that shows it. builds_on: operations whose fault would show here, too."""

    name: str
    group: str
    run: Callable[[Bench], Iterator[Compared]]
    meaning: str
    builds_on: tuple[str, ...] = ()


ALONE = ("token-by-token",)
ROWS = (*ALONE, "together")
BOTH = ("token-by-token", "pieces")
PADDED = (*BOTH, "together", "left")
OPERATIONS = (
    Operation(
        "pieces", "continue", continuation.pieces, "a conversation in pieces of several tokens, at 16 sets of cuts"
    ),
    Operation(
        "token-by-token", "continue", continuation.token_by_token, "one token at a time, from the first and behind 70"
    ),
    Operation(
        "fork", "continue", continuation.fork, "two deep copies of a cache go on apart, then the original", ALONE
    ),
    Operation(
        "interleaved", "continue", continuation.interleaved, "three conversations in turn, each with its cache", ALONE
    ),
    Operation("reset", "continue", continuation.reset, "reset, then another conversation in the same cache", ALONE),
    Operation(
        "static-cache",
        "continue",
        continuation.static_cache,
        "StaticCache, in one piece, in pieces, token by token",
        BOTH,
    ),
    Operation("crop", "take back", continuation.crop, "crop(-5) behind five wrong tokens", ALONE),
    Operation(
        "rollback", "take back", continuation.rollback, "activate_past_recording(), five wrong tokens, crop(-5)", ALONE
    ),
    Operation("together", "batch", batch.together, "three rows of equal lengths, then token by token", ALONE),
    Operation("reorder", "batch", batch.reorder, "reorder_cache, as beam search does", ROWS),
    Operation("select", "batch", batch.select, "batch_select_indices: rows change places, one is left", ROWS),
    Operation("repeat", "batch", batch.repeat, "batch_repeat_interleave: each row twice", ROWS),
    Operation("left", "padding", padding.padding_left, "before the first turn's tokens, then token by token", ROWS),
    Operation("right", "padding", padding.padding_right, "behind the first turn's tokens"),
    Operation(
        "left-later", "padding", padding.padding_left_later, "before the second turn's tokens, then one by one", PADDED
    ),
    Operation("right-later", "padding", padding.padding_right_later, "behind the second turn's tokens", ("pieces",)),
    Operation(
        "behind-right",
        "padding",
        padding.padding_right_continued,
        "going on token by token behind padding on the right",
        (*ROWS, "left"),
    ),
    Operation("full-ids", "generate", generating.generate_full_ids, "three turns, all tokens and the cache", BOTH),
    Operation("new-ids", "generate", generating.generate_new_ids, "three turns, new tokens and the cache", BOTH),
    Operation(
        "beams", "generate", generating.generate_beams, "beam search: its scores against the uncached ones", ROWS
    ),
    Operation(
        "prefill-pieces", "generate", generating.generate_in_pieces, "prefill_chunk_size, alone and padded", PADDED
    ),
)

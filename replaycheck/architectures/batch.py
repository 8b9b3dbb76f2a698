"""Operations on the rows of a batch: reorder, select, repeat. Each row must go on as it does by itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .bench import ALONE, CUT, Bench, Compared
from .refusal import offered

__all__ = ["reorder", "repeat", "select", "together"]


def together(bench: Bench) -> Iterator[Compared]:
    """Three conversations of equal lengths side by side: their beginning, then token by token."""
    starts = torch.cat([bench.conversation(number)[:, :CUT] for number in range(3)])
    answer = bench.begin(starts)
    for row, logits in enumerate(answer.logits):
        yield bench.compare(f"beginning of row {row}", starts[row : row + 1], logits, 0)
    yield from _continued(bench, "row", starts, answer.cache)


def reorder(bench: Bench) -> Iterator[Compared]:
    """``reorder_cache``, as beam search does: rows change places, one is dropped and one doubled."""
    yield from _rearranged(bench, "reorder_cache", (2, 0, 0))


def select(bench: Bench) -> Iterator[Compared]:
    """``batch_select_indices``: rows change places, then one is left."""
    yield from _rearranged(bench, "batch_select_indices", (2, 0, 1))
    yield from _rearranged(bench, "batch_select_indices", (1,))


def repeat(bench: Bench) -> Iterator[Compared]:
    """``batch_repeat_interleave``: each row twice, and the copies go on with other tokens."""
    starts = torch.cat([bench.conversation(number)[:, :CUT] for number in range(2)])
    cache = bench.begin(starts).cache
    offered(cache, "batch_repeat_interleave")(2)
    yield from _continued(bench, "copy", starts.repeat_interleave(2, 0), cache)


def _rearranged(bench: Bench, operation: str, order: tuple[int, ...]) -> Iterator[Compared]:
    starts = torch.cat([bench.conversation(number)[:, :CUT] for number in range(3)])
    cache = bench.begin(starts).cache
    offered(cache, operation)(torch.tensor(order))
    yield from _continued(bench, f"rows {', '.join(map(str, order))}: row", starts[list(order)], cache)


def _continued(bench: Bench, where: str, starts: torch.Tensor, cache: object) -> Iterator[Compared]:
    """Each row goes on with tokens of its own, one at a time."""
    tails = torch.cat([bench.conversation(10 + row)[:, CUT:] for row in range(len(starts))])
    tokens, logits = torch.cat([starts, tails], 1), []
    for at in range(CUT, CUT + ALONE):
        answer = bench.model(tokens[:, at : at + 1], cache)
        logits.append(answer.logits)
        cache = answer.cache
    for row, mine in enumerate(torch.cat(logits, 1)):
        yield bench.compare(f"{where} {row}", tokens[row : row + 1], mine, CUT)

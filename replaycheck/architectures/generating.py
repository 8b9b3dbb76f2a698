"""The library's ``generate`` over several turns, with what it keeps between them.

Steps are compared by their logits, each with the uncached forward of the very tokens that were generated, so a near tie
that falls otherwise is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .bench import Bench, Compared

__all__ = ["generate_beams", "generate_full_ids", "generate_in_pieces", "generate_new_ids"]

PROMPT, TURN, NEW = 70, 11, 4
"""Tokens of the first prompt and of a later turn, and how many are generated in each."""
BEAMS = 3
PIECE, LEFT = 16, (0, 5, 37)
"""Pieces of a padded prompt, and its rows' padding: none, part of a piece, more than two pieces."""


def generate_full_ids(bench: Bench) -> Iterator[Compared]:
    """Three turns; each call gets the whole conversation and the cache of the call before."""
    yield from _turns(bench, full=True)


def generate_new_ids(bench: Bench) -> Iterator[Compared]:
    """The same, but each call gets only the tokens that aren't in the cache, and a mask over all."""
    yield from _turns(bench, full=False)


def generate_in_pieces(bench: Bench) -> Iterator[Compared]:
    """One call that computes its prompt in pieces (``prefill_chunk_size``); then a batch whose padding fills pieces."""
    for size in (32, 23):
        output = _generate(bench, bench.conversation(0)[:, :PROMPT], prefill_chunk_size=size)
        yield _steps(bench, f"pieces of {size}", output.sequences, output.logits)
    prompts = [bench.conversation(number)[:, : PROMPT - left] for number, left in enumerate(LEFT)]
    ids = torch.cat([F.pad(prompt, (left, 0)) for prompt, left in zip(prompts, LEFT, strict=True)])
    output = _generate(bench, ids, attention_mask=(ids != 0).long(), prefill_chunk_size=PIECE)
    for row, left in enumerate(LEFT):
        logits = [step[row : row + 1] for step in output.logits]
        where = f"pieces of {PIECE}, row with {left} padding tokens on the left"
        yield _steps(bench, where, output.sequences[row : row + 1, left:], logits)


def generate_beams(bench: Bench) -> Iterator[Compared]:
    """Beam search, one call: the score of each beam, held against the uncached score of its tokens."""
    prompt = bench.conversation(0)[:, :PROMPT]
    output = _generate(
        bench, prompt, num_beams=BEAMS, num_return_sequences=BEAMS, length_penalty=0.0, output_scores=True
    )
    scores = torch.stack([_score(bench, sequence[None]) for sequence in output.sequences])
    yield Compared("sum of log-probabilities, by beam", 0, output.sequences_scores.double()[:, None], scores[:, None])


def _turns(bench: Bench, full: bool) -> Iterator[Compared]:
    ids, cache = bench.conversation(0)[:, :PROMPT], None
    for turn in (1, 2, 3):
        given = ids if full or cache is None else ids[:, -TURN - 1 :]
        output = _generate(bench, given, cache, attention_mask=torch.ones_like(ids))
        whole = torch.cat([ids, output.sequences[:, -NEW:]], 1)
        yield _steps(bench, f"turn {turn}", whole, output.logits)
        ids, cache = torch.cat([whole, bench.conversation(turn)[:, :TURN]], 1), output.past_key_values


def _generate(bench: Bench, ids: Tensor, cache: Any = None, **settings: Any) -> Any:
    """Greedy, or by beams; logits as computed."""
    model = bench.model
    given: dict[str, Any] = {} if cache is None else {model.cache_name: cache}
    given.setdefault("attention_mask", settings.pop("attention_mask", torch.ones_like(ids)))
    return model.module.generate(
        ids,
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        do_sample=False,
        use_cache=True,
        return_dict_in_generate=True,
        output_logits=True,
        **given,
        **settings,
    )


def _steps(bench: Bench, where: str, whole: Tensor, logits: Sequence[Tensor]) -> Compared:
    """Generated positions; ``whole`` [1, T] is the conversation with them."""
    return bench.compare(where, whole, torch.cat(list(logits)), whole.shape[1] - NEW - 1)


def _score(bench: Bench, sequence: Tensor) -> Tensor:
    """Sum of the generated tokens' uncached log-probabilities."""
    rows = bench.expected(sequence)[-NEW - 1 : -1]
    return rows.gather(1, sequence[0, -NEW:, None]).sum()

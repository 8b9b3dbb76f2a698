"""Reading a corpus and drawing batches from it; which tokens are held out is decided here.

Every 50th block of 16,384 tokens is held out. A batch is a pure function of (seed, step), so that a resumed
run sees what the uninterrupted one would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from replaycheck.errors import UsageError
from replaycheck.model.fields import Fields, read_json_object
from replaycheck.model.train.corpus import MANIFEST_FILE, TOKENS_FILE
from replaycheck.model.train.settings import Stage
from replaycheck.traces import vocabulary

__all__ = ["BLOCK", "HELD_OUT_EVERY", "Corpus", "load_corpus"]

BLOCK: Final = 16_384
HELD_OUT_EVERY: Final = 50
# The middle of each fifty, so that a corpus of half a megabyte has a held-out block already.
_HELD_OUT_AT: Final = 25
# A prime step between seeds keeps (seed, step) pairs apart for runs shorter than a million steps.
_SEED_STRIDE: Final = 1_000_003
_MAX_TOKENS: Final = 1 << 30


@dataclass(frozen=True)
class Corpus:
    """Tokens on a device and the training stretches in them.

    ``tokens`` is uint8 [N]; ``starts``, ``ends`` are int64 [S] bounds of stretches without held-out blocks;
    ``weights`` float64 [S] says how often a token of the stretch is drawn; ``openings`` int64 [D] are the
    positions of training tokens that open a document or conversation, ``opening_weights`` [D] theirs.
    """

    tokens: Tensor
    starts: Tensor
    ends: Tensor
    weights: Tensor
    openings: Tensor
    opening_weights: Tensor
    held_out: tuple[int, ...]

    def batch(self, stage: Stage, seed: int, step: int, aligned_share: float) -> tuple[Tensor, Tensor]:
        """Inputs and targets, int64 [batch, length] each, of one step."""
        generator = torch.Generator().manual_seed(seed * _SEED_STRIDE + step)
        aligned = round(stage.batch * aligned_share)
        begins = torch.cat(
            [
                self._anywhere(stage.batch - aligned, stage.length, generator),
                self._at_openings(aligned, stage.length, generator),
            ]
        ).to(self.tokens.device)
        window = torch.arange(stage.length + 1, device=self.tokens.device)
        sample = self.tokens[begins.unsqueeze(1) + window].long()
        return sample[:, :-1], sample[:, 1:]

    def _anywhere(self, count: int, length: int, generator: torch.Generator) -> Tensor:
        room = (self.ends - self.starts - length).clamp_min(0).double()
        if not bool((room > 0).any()):
            raise UsageError(f"the corpus has no stretch of {length + 1} tokens; prepare a larger one")
        chosen = torch.multinomial(room * self.weights, count, replacement=True, generator=generator)
        offset = torch.rand(count, generator=generator, dtype=torch.float64) * room[chosen]
        return self.starts[chosen] + offset.long()

    def _at_openings(self, count: int, length: int, generator: torch.Generator) -> Tensor:
        stretch = torch.searchsorted(self.starts, self.openings, right=True) - 1
        fits = self.openings + length < self.ends[stretch]
        if count == 0 or not bool(fits.any()):
            return self._anywhere(count, length, generator) if count else torch.empty(0, dtype=torch.int64)
        chosen = torch.multinomial(self.opening_weights * fits, count, replacement=True, generator=generator)
        return self.openings[chosen]


def load_corpus(folder: Path, device: str) -> Corpus:
    """The corpus that `prepare_corpus` wrote. Raises :class:`UsageError` where its two files disagree."""
    manifest = read_json_object(folder / MANIFEST_FILE)
    manifest.choice("vocabulary", (vocabulary.NAME,))
    count = manifest.integer("tokens", minimum=BLOCK, maximum=_MAX_TOKENS)
    sections = _sections(manifest, count)
    tokens = _read_tokens(folder / TOKENS_FILE, count)
    held_out = tuple(range(_HELD_OUT_AT * BLOCK, count - BLOCK + 1, HELD_OUT_EVERY * BLOCK))
    stretches = [piece for section in sections for piece in _pieces(*section, held_out)]
    starts, ends, weights = (torch.tensor(column) for column in zip(*stretches, strict=True))
    openings = ((tokens == vocabulary.BOS) | (tokens == vocabulary.DOC)).nonzero().flatten()
    stretch = torch.searchsorted(starts, openings, right=True) - 1
    inside = (stretch >= 0) & (openings < ends[stretch])
    weights = weights.double()
    return Corpus(
        tokens.to(device), starts, ends, weights, openings[inside], weights[stretch[inside]], held_out
    )  # fmt: skip


def _read_tokens(file: Path, count: int) -> Tensor:
    if not file.is_file() or file.stat().st_size != count:
        raise UsageError(f"{file}: is missing or does not have the {count} bytes its manifest names; prepare it again")
    tokens = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8)
    if int(tokens.max()) >= vocabulary.SIZE:
        raise UsageError(
            f"{file}: holds token {int(tokens.max())}, but {vocabulary.NAME!r} ends at {vocabulary.SIZE - 1}"
        )
    return tokens


def _sections(manifest: Fields, count: int) -> list[tuple[int, int, float]]:
    """(start, end, weight) of each section, in order."""
    listed = manifest.values.get("sections")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed) or not listed:
        raise manifest.error("sections", "it must be a list of objects")
    sections = [Fields(manifest.file, entry, f"sections[{index}].") for index, entry in enumerate(listed)]
    return [
        (
            section.integer("start", 0, count),
            section.integer("end", 0, count),
            section.number("weight", 0.0, 1000.0),
        )
        for section in sections
    ]


def _pieces(start: int, end: int, weight: float, held_out: tuple[int, ...]) -> list[tuple[int, int, float]]:
    """The section without the held-out blocks."""
    pieces = []
    for block in (*held_out, end):
        if block >= end:
            break
        if block + BLOCK > start:
            pieces.append((start, block, weight))
            start = block + BLOCK
    return [piece for piece in (*pieces, (start, end, weight)) if piece[0] < piece[1]]

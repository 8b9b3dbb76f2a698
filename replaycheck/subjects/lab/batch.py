"""Rows of many schedules in one forward pass, each distinct computation once.

Two rows that continue equal states (same identity), with the same tokens, kernel form, rollback and padding, are the same
computation; they differ at most in what they want back. Identities begin with the compiler's name, so warm and split
never share a result: what must be proved equal is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from .network import Network, RowInput, RowOutput, Tap
from .pool import derive
from .state import SequenceState

MAX_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Tokens of one forward pass; bounds memory: the chunk form keeps about 20 fp32 tensors of [tokens, H, K], 1.3 GB on a GPU,
where a pass costs the same launches whatever its size."""


@dataclass(frozen=True)
class Result:
    """What one row gets back: logits of its tokens from ``first_logit`` on, final state, states by tap."""

    logits: Tensor
    final: SequenceState
    taps: tuple[SequenceState, ...]


def run_rows(network: Network, rows: Sequence[RowInput]) -> list[Result]:
    """Compute the rows, each distinct one once, in passes of bounded size."""
    keys = [
        derive(row.state.identity, tuple(row.tokens), row.start, row.form, row.verify, row.left, row.right)
        for row in rows
    ]
    merged: dict[bytes, RowInput] = {}
    for key, row in zip(keys, rows, strict=True):
        merged[key] = _union(merged[key], row) if key in merged else row
    outputs: dict[bytes, _Computed] = {}
    for names in _passes(merged, MAX_TOKENS[network.device.type]):
        computed = network.forward([merged[name] for name in names])
        outputs |= {name: _named(name, merged[name], each) for name, each in zip(names, computed, strict=True)}
    return [_pick(row, outputs[key]) for key, row in zip(keys, rows, strict=True)]


def _union(a: RowInput, b: RowInput) -> RowInput:
    """One row that returns what both ask for."""
    taps = a.taps + tuple(tap for tap in b.taps if tap not in a.taps)
    first, end = min(a.first_logit, b.first_logit), max(a.last_logit, b.last_logit)
    return replace(a, taps=taps, first_logit=first, end_logit=end)


def _passes(merged: dict[bytes, RowInput], most: int) -> Iterator[list[bytes]]:
    """Split into passes of at most ``most`` tokens (or one row); rows of one call are neighbours."""
    names: list[bytes] = []
    tokens = 0
    for name in sorted(merged, key=lambda key: merged[key].call):
        size = merged[name].width
        if names and tokens + size > most:
            yield names
            names, tokens = [], 0
        names.append(name)
        tokens += size
    if names:
        yield names


@dataclass(frozen=True)
class _Computed:
    """A merged row's results with identities; those who share it get the same states."""

    row: RowInput
    logits: Tensor
    final: SequenceState
    taps: dict[Tap, SequenceState]


def _named(key: bytes, row: RowInput, output: RowOutput) -> _Computed:
    return _Computed(
        row,
        output.logits,
        replace(output.final, identity=derive(key, "final")),
        {tap: replace(state, identity=_identity(key, tap)) for tap, state in zip(row.taps, output.taps, strict=True)},
    )


def _pick(row: RowInput, found: _Computed) -> Result:
    """The part of a shared result that ``row`` asked for."""
    first = found.row.first_logit
    logits = found.logits[row.first_logit - first : row.last_logit - first]
    return Result(logits, found.final, tuple(found.taps[tap] for tap in row.taps))


def _identity(key: bytes, tap: Tap) -> bytes:
    return derive(key, tap.chunk, str(tap.source), tap.conv_end)

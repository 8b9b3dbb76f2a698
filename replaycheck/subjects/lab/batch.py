"""Rows of many schedules in one forward pass, each distinct computation once.

Two rows that continue equal states (same identity), with the same tokens, kernel form and rollback, are the same
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

MAX_TOKENS = 8192
"""Tokens of one forward pass; bounds memory (the chunk form keeps about 20 fp32 tensors of [tokens, H, K])."""


@dataclass(frozen=True)
class Result:
    """What one row gets back: logits of its tokens from ``first_logit`` on, final state, states by tap."""

    logits: Tensor
    final: SequenceState
    taps: tuple[SequenceState, ...]


def run_rows(network: Network, rows: Sequence[RowInput]) -> list[Result]:
    """Compute the rows, each distinct one once, in passes of bounded size."""
    keys = [derive(row.state.identity, tuple(row.tokens), row.start, row.form, row.verify) for row in rows]
    merged: dict[bytes, RowInput] = {}
    for key, row in zip(keys, rows, strict=True):
        merged[key] = _union(merged[key], row) if key in merged else row
    outputs: dict[bytes, RowOutput] = {}
    for names in _passes(merged):
        outputs.update(zip(names, network.forward([merged[name] for name in names]), strict=True))
    return [_pick(key, row, merged[key], outputs[key]) for key, row in zip(keys, rows, strict=True)]


def _union(a: RowInput, b: RowInput) -> RowInput:
    """One row that returns what both ask for."""
    taps = a.taps + tuple(tap for tap in b.taps if tap not in a.taps)
    return replace(a, taps=taps, first_logit=min(a.first_logit, b.first_logit))


def _passes(merged: dict[bytes, RowInput]) -> Iterator[list[bytes]]:
    """Split into passes of at most ``MAX_TOKENS`` tokens (or one row); rows of one call are neighbours."""
    names: list[bytes] = []
    tokens = 0
    for name in sorted(merged, key=lambda key: merged[key].call):
        size = len(merged[name].tokens)
        if names and tokens + size > MAX_TOKENS:
            yield names
            names, tokens = [], 0
        names.append(name)
        tokens += size
    if names:
        yield names


def _pick(key: bytes, row: RowInput, computed: RowInput, output: RowOutput) -> Result:
    """The part of a shared result that ``row`` asked for, with identities."""
    states = dict(zip(computed.taps, output.taps, strict=True))
    return Result(
        output.logits[row.first_logit - computed.first_logit :],
        replace(output.final, identity=derive(key, "final")),
        tuple(replace(states[tap], identity=_identity(key, tap)) for tap in row.taps),
    )


def _identity(key: bytes, tap: Tap) -> bytes:
    return derive(key, tap.chunk, str(tap.source), tap.conv_end)

"""Padding of a forward pass to a rectangle: every row as wide as the widest, and rows that are nobody's.

A batch of fixed shape needs it (a captured graph, an attention mask). Padding that reaches a convolution or a recurrent
state stays there for the rest of the conversation, on the left as well as on the right, and not in the first turn alone:
the tokens before a later turn's left padding are in the restored state. So a plan says which columns the mask lets through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replaycheck.schema.arm import Padding, Side

from .steps import Columns, Compute, Row

__all__ = ["compute"]


def compute(rows: Sequence[Row], padding: Padding | None) -> Compute:
    """The pass of these rows, padded if it is asked for."""
    if padding is None:
        return Compute(tuple(rows))
    width = _multiple(max((row.b - row.a for row in rows), default=0), padding.columns)
    padded = tuple(replace(row, columns=_columns(row.b - row.a, width, padding.side)) for row in rows)
    return Compute(padded, _multiple(len(rows), padding.rows) - len(rows))


def _multiple(size: int, of: int) -> int:
    """The smallest multiple that isn't smaller."""
    return -(-size // of) * of


def _columns(tokens: int, width: int, side: Side) -> Columns:
    left = width - tokens if side is Side.LEFT else 0
    return Columns(left, width - tokens - left, left, left + tokens)

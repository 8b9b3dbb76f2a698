"""The same position under two arms: the PAIRS rows of cells, while the logits are in memory.

Positions whose logits have the same bits differ by exactly 0 in everything; only the others are computed, and each different
pair of rows once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Cell
from replaycheck.schema.tables import PAIRS

from .free import shared_prefix
from .logits import blocks, kl
from .record import ArmRecording
from .said import Rows, Said
from .scored import Scored, named, whole

__all__ = ["pair", "pairs"]

Wide = NDArray[np.float64]


def pair(cell: Cell, reference: ArmRecording, candidate: ArmRecording, experiment: str = "forced") -> pa.Table:
    """The PAIRS rows of one cell. Raises :class:`InternalError` if the arms didn't score the same tokens."""
    arms = {each.arm: Scored.of(each) for each in (reference, candidate)}
    arms |= {cell.reference: Scored.of(reference), cell.candidate: Scored.of(candidate)}
    return pairs([cell], arms, Said.of(list(arms.values())), experiment)


def pairs(cells: Sequence[Cell], arms: Mapping[str, Scored], said: Said, experiment: str = "forced") -> pa.Table:
    """The PAIRS rows of all cells, in key order; of a free run those whose prefix both arms share.

    Raises :class:`InternalError` if arms didn't score the same tokens.
    """
    cells = sorted(cells, key=lambda cell: cell.name)
    kept = _kept(cells, arms, experiment)
    sides = [(said.row[arms[c.reference].arm], said.row[arms[c.candidate].arm]) for c in cells]
    mine = [arms[cell.candidate] for cell in cells]
    rows = sum(map(len, mine))
    if not rows:
        return PAIRS.empty_table()
    restores = [arm.restore for arm in mine]
    columns = {
        "cell": named([([cell.name], np.array([len(arm)])) for cell, arm in zip(cells, mine, strict=True)]),
        "experiment": named([([experiment], np.array([rows]))]),
        "cluster": named([([turn.cluster for turn in arm.turns], arm.sizes) for arm in mine]),
        "trace": named([([turn.trace for turn in arm.turns], arm.sizes) for arm in mine]),
        "branch": whole([arm.spread([turn.branch for turn in arm.turns]).astype(np.int32) for arm in mine]),
        "turn": whole([arm.spread([turn.turn for turn in arm.turns]).astype(np.int32) for arm in mine]),
        "position": whole([arm.positions for arm in mine]),
        "role": named([([turn.role for turn in arm.turns], arm.sizes) for arm in mine]),
        "offset_from_restore": whole(
            [arm.positions - covered for arm, (covered, _) in zip(mine, restores, strict=True)],
            [none for _, none in restores],
        ),
    }
    left, right = (np.concatenate(side) for side in zip(*sides, strict=True))
    if not kept.all():
        columns = {name: column.take(np.flatnonzero(kept)) for name, column in columns.items()}
    columns |= _differences(said, left[kept], right[kept])
    return pa.table([columns[field.name] for field in PAIRS], schema=PAIRS)


def _kept(cells: Sequence[Cell], arms: Mapping[str, Scored], experiment: str) -> NDArray[np.bool_]:
    """[rows of all candidates] of positions that both arms of a cell came to by the same tokens."""
    found = []
    for cell in cells:
        reference, candidate = arms[cell.reference], arms[cell.candidate]
        if experiment == "free":
            found.append(shared_prefix(cell.name, reference, candidate))
        else:
            _refuse_unlike(cell, reference, candidate)
            found.append(np.ones(len(candidate), np.bool_))
    return np.concatenate(found) if found else np.ones(0, np.bool_)


def _refuse_unlike(cell: Cell, reference: Scored, candidate: Scored) -> None:
    keys = [[turn.key for turn in side.turns] for side in (reference, candidate)]
    if keys[0] != keys[1]:
        raise InternalError(f"cell {cell.name!r}: the arms scored different turns, so they can't be paired")
    same = (
        reference.logits.shape == candidate.logits.shape
        and np.array_equal(reference.sizes, candidate.sizes)
        and np.array_equal(reference.positions, candidate.positions)
        and np.array_equal(reference.tokens, candidate.tokens)
    )
    if same:
        return
    turns = zip(reference.turns, candidate.turns, strict=True)
    unlike = [
        a.key for a, b in turns if not (np.array_equal(a.positions, b.positions) and np.array_equal(a.tokens, b.tokens))
    ]
    where = f"turn {unlike[0]}" if unlike else "every turn"
    raise InternalError(f"cell {cell.name!r}, {where}: the arms scored different positions or tokens")


def _differences(said: Said, a: Rows, b: Rows) -> dict[str, pa.Array]:
    """The columns that compare row ``a[i]`` with row ``b[i]``; null where a side has no distribution."""
    equal = a == b
    both, number = np.unique(np.stack([a[~equal], b[~equal]]), axis=1, return_inverse=True)
    dlogp, divergence = np.zeros(len(equal)), np.zeros(len(equal))
    dlogp[~equal], divergence[~equal] = (found[number] for found in _compare(said, both[0], both[1]))
    # The same NaN twice is no agreement.
    dlogp[said.best[a] < 0] = divergence[said.best[a] < 0] = np.nan
    if said.shown:
        return _shown(said, a, b, dlogp, equal)
    return {
        "dlogp": pa.array(dlogp, from_pandas=True),
        "kl": pa.array(divergence, from_pandas=True),
        "flip": pa.array(said.best[a] != said.best[b]),
        "margin": pa.array(said.margin[a], from_pandas=True),
        "bits_equal": pa.array(equal),
    }


def _shown(said: Said, a: Rows, b: Rows, dlogp: Wide, equal: NDArray[np.bool_]) -> dict[str, pa.Array]:
    """The same of a subject without logits. It can prove that bits differ, never that they are equal: then null.

    Where nothing was said about the token, its difference is null; where a NaN was said, it is NaN.
    """
    missing = said.missing()[a] | said.missing()[b]
    dlogp[np.isnan(said.logprob[a]) | np.isnan(said.logprob[b])] = np.nan
    return {
        "dlogp": pa.array(dlogp, mask=missing),
        "kl": pa.nulls(len(a), pa.float64()),
        "flip": pa.array(said.best[a] != said.best[b], mask=(said.best[a] < 0) | (said.best[b] < 0)),
        "margin": pa.array(said.margin[a], from_pandas=True),
        "bits_equal": pa.array(equal, mask=missing | equal),
    }


def _compare(said: Said, a: Rows, b: Rows) -> tuple[Wide, Wide]:
    """[n] Δ log-probability of the token and KL, of rows that differ."""
    if said.shown:
        return said.logprob[b] - said.logprob[a], np.full(len(a), np.nan)
    dlogp, divergence = np.empty(len(a)), np.empty(len(a))
    for block in blocks(len(a), said.logits.shape[1]):
        left, right = said.log_softmax(a[block]), said.log_softmax(b[block])
        at = np.arange(len(left)), said.tokens[a[block]]
        with np.errstate(invalid="ignore"):  # both -infinity: a masked token, no difference that could be told
            dlogp[block] = right[at] - left[at]
        divergence[block] = kl(left, right)
    return dlogp, divergence

"""Where two arms first part, per cell and branch: DIVERGENCES rows of each kind, censored ones included.

The clock of a branch starts at the candidate's first restore on it; what comes before is the same computation in both
arms and isn't counted. A branch that never restores has no row, except in cells where no restore is meant to
happen (cold against split): there every position counts and the offset is null.

    bits       the logits differ in any bit
    argmax     the top-1 tokens differ
    tolerance  |Δ log-probability| exceeds what one bf16 rounding of the log-probabilities can do (:func:`tolerance`)

In a free run the kind is argmax and the event is the first token that the arms say differently. A branch has a row if it has
a position that the arms came to by the same tokens with its clock running: what parted on a turn before it is counted there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replaycheck.errors import InternalError
from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.tables import DIVERGENCES

from .casts import BF16_UNIT
from .columns import flags, floats, integers, names, starts, unsaid

__all__ = ["KINDS", "DivergenceSums", "divergences", "tolerance"]

KINDS = ("bits", "argmax", "tolerance")

Ints = NDArray[np.int64]
Wide = NDArray[np.float64]
Mask = NDArray[np.bool_]

_NONE = np.iinfo(np.int64).max
"""A row number that no row has."""


def divergences(pairs: pa.Table, observations: pa.Table, cells: Sequence[Cell]) -> pa.Table:
    """DIVERGENCES rows of all cells and both experiments, from the PAIRS and OBSERVATIONS of whole traces."""
    found = []
    for experiment in ("forced", "free"):
        rows = _of_experiment(pairs, experiment)
        said, cell_of = _Said.of(_of_experiment(observations, experiment)), names(rows["cell"])
        for cell in cells:
            mine = np.flatnonzero(cell_of.code == cell_of.named(cell.name))
            if len(mine):
                found.append(_Compared.of(rows.take(mine), said, cell, experiment))
    return _table([row for each in found for row in each.rows()])


def _of_experiment(table: pa.Table, experiment: str) -> pa.Table:
    kind = names(table["experiment"])
    keep = kind.code == kind.named(experiment)
    return table if keep.all() else table.take(np.flatnonzero(keep))


@dataclass(frozen=True)
class _Said:
    """OBSERVATIONS rows as arrays [rows]. trace: code; top1: NaN where there is none."""

    rows_of: dict[str, Ints]  # by arm
    trace: dict[str, int]  # code by name
    key: tuple[Ints, ...]  # trace, branch, turn, position
    top1: Wide
    token: Wide
    table: pa.Table

    @classmethod
    def of(cls, table: pa.Table) -> _Said:
        arm, trace = names(table["arm"]), names(table["trace"])
        return cls(
            {name: np.flatnonzero(arm.code == code) for code, name in enumerate(arm.of)},
            {name: code for code, name in enumerate(trace.of)},
            (trace.code, *(integers(table[name]) for name in ("branch", "turn", "position"))),
            floats(table["top1"]),
            floats(table["token"]),
            table.select(["logprob", "top20"]),
        )

    def at(self, arm: str, key: tuple[Ints, ...]) -> Ints:
        """The rows of an arm at these places, which it has all."""
        mine = self.rows_of.get(arm, np.empty(0, np.int64))
        if len(mine) == len(key[0]) and all(np.array_equal(a[mine], b) for a, b in zip(self.key, key, strict=True)):
            return mine
        place = {
            where: row
            for row, where in zip(mine.tolist(), zip(*(a[mine].tolist() for a in self.key), strict=True), strict=True)
        }
        try:
            return np.array([place[where] for where in zip(*(b.tolist() for b in key), strict=True)], np.int64)
        except KeyError as error:
            raise InternalError(f"the arm {arm!r} has no observation at {error.args[0]} though a pair has") from None


@dataclass(frozen=True)
class _Compared:
    """The pairs of one cell in key order as arrays [rows], with what both arms said. NaN: null."""

    cell: str
    experiment: str
    restores: bool  # whether the candidate is meant to restore
    trace_names: tuple[str, ...]
    trace: Ints
    branch: Ints
    turn: Ints
    position: Ints
    offset: Wide
    differs: dict[str, Mask]  # by kind
    token_a: Wide
    token_b: Wide
    margin: Wide
    dlogp: Wide

    @classmethod
    def of(cls, pairs: pa.Table, said: _Said, cell: Cell, experiment: str) -> _Compared:
        trace = names(pairs["trace"])
        branch, turn, position = (integers(pairs[name]) for name in ("branch", "turn", "position"))
        known = np.array([said.trace.get(name, -1) for name in trace.of], np.int64)[trace.code]
        a, b = (said.at(arm, (known, branch, turn, position)) for arm in (cell.reference, cell.candidate))
        free = experiment == "free"
        token_a, token_b = (said.token[a], said.token[b]) if free else (said.top1[a], said.top1[b])
        return cls(
            cell.name,
            experiment,
            cell.effect is not Effect.GRID,
            trace.of,
            trace.code,
            branch,
            turn,
            position,
            floats(pairs["offset_from_restore"]),
            {"argmax": token_a != token_b} if free else _kinds(pairs, said.table.take(a)),
            token_a,
            token_b,
            floats(pairs["margin"]),
            floats(pairs["dlogp"]),
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Columns of the rows of each kind; a branch whose clock never starts has none."""
        first_row = starts(self.trace, self.branch)
        number = np.arange(len(self.trace))
        begins = np.minimum.reduceat(np.where(self._counts(), number, _NONE), first_row)
        last_row = np.append(first_row[1:], len(number)) - 1
        sizes = np.diff(np.append(first_row, len(number)))
        counted = number >= np.repeat(begins, sizes)
        has = begins < _NONE
        for kind in self.differs:
            happens = np.minimum.reduceat(np.where(self.differs[kind] & counted, number, _NONE), first_row)
            censored = happens == _NONE
            yield self._rows(kind, np.where(censored, last_row, happens)[has], begins[has], censored[has])

    def _counts(self) -> Mask:
        """Rows that can start the clock of their branch."""
        return ~np.isnan(self.offset) if self.restores else np.ones(len(self.trace), np.bool_)

    def _rows(self, kind: str, at: Ints, begins: Ints, censored: Mask) -> dict[str, Any]:
        start = self.position[begins] - self.offset[begins] if self.restores else np.full(len(at), np.nan)
        parted = {
            name: np.where(censored, np.nan, getattr(self, name)[at])
            for name in ("token_a", "token_b", "margin", "dlogp")
        }
        return {
            "cell": [self.cell] * len(at),
            "trace": [self.trace_names[code] for code in self.trace[at]],
            "branch": self.branch[at],
            "turn": self.turn[at],
            "position": self.position[at],
            "offset_from_restore": self.position[at] - start,
            "kind": [kind] * len(at),
            **parted,
            "censored": censored,
            "experiment": [self.experiment] * len(at),
        }


def _kinds(pairs: pa.Table, reference: pa.Table) -> dict[str, Mask]:
    """By kind, where forced positions differ. ``reference``: what the reference said there."""
    with np.errstate(invalid="ignore"):
        # A difference that isn't a number is beyond any tolerance.
        beyond = ~(np.abs(floats(pairs["dlogp"])) <= tolerance(reference))
    bits = ~flags(pairs["bits_equal"], unseen=True)
    return {"bits": bits, "argmax": flags(pairs["flip"]), "tolerance": beyond & ~unsaid(pairs)}


def _table(parts: Sequence[dict[str, Any]]) -> pa.Table:
    if not parts:
        return DIVERGENCES.empty_table()
    columns = {}
    for field in DIVERGENCES:
        joined = np.concatenate([np.asarray(part[field.name]) for part in parts])
        whole = pa.types.is_integer(field.type) and joined.dtype.kind == "f"
        # Whole numbers with nulls came as floats; they fit, since tokens and positions are under 2^31.
        columns[field.name] = pa.array(joined, pa.float64(), from_pandas=True).cast(field.type) if whole else joined
    return to_arrow("divergences", columns)


class DivergenceSums:
    """Branches and the soonest divergence of each cell in one experiment, added up part by part."""

    def __init__(self, experiment: str = "forced") -> None:
        self._experiment = experiment
        self._branches: dict[tuple[str, str], int] = {}
        self._diverged: dict[tuple[str, str], int] = {}
        self._soonest: dict[tuple[str, str], int] = {}

    def add(self, parted: pa.Table) -> None:
        """DIVERGENCES rows of whole branches."""
        parted = _of_experiment(parted, self._experiment)
        cell, kind = names(parted["cell"]), names(parted["kind"])
        offset, censored = floats(parted["offset_from_restore"]), flags(parted["censored"])
        for first, last in _runs(starts(cell.code, kind.code), parted.num_rows):
            key = cell.of[cell.code[first]], kind.of[kind.code[first]]
            happened = ~censored[first:last]
            self._branches[key] = self._branches.get(key, 0) + last - first
            self._diverged[key] = self._diverged.get(key, 0) + int(happened.sum())
            after = offset[first:last][happened]
            if len(after) and not np.isnan(after).all():
                self._soonest[key] = min(self._soonest.get(key, _NONE), int(np.nanmin(after)))

    def numbers(self, cell: str) -> dict[str, Any]:
        """The fields of a CellResult that divergences decide."""
        kinds = KINDS if self._experiment == "forced" else ("argmax",)
        return {
            "diverged_branches": {"all": self._branches.get((cell, "argmax"), 0)}
            | {kind: self._diverged.get((cell, kind), 0) for kind in kinds},
            "first_divergence": {kind: self._soonest.get((cell, kind)) for kind in kinds},
        }


def _runs(first: Ints, rows: int) -> Iterator[tuple[int, int]]:
    edges = [*first.tolist(), rows]
    return pairwise(edges)


def tolerance(observations: pa.Table) -> NDArray[np.float64]:
    """[n] nat: the largest |Δ log-probability| of the token that one bf16 rounding of all log-probabilities can give.

    Take the log-probabilities l as logits and round each to bf16: l + d with |d| <= u·|l|, u = 2^-8. To first order
    the token's log-probability moves by d_token - Σ p·d, hence by at most u·(|l_token| + Σ p·|l|), and Σ p·|l| is the
    entropy. It is taken over the recorded top 20 with the rest as one token, which is never more than the whole one.
    Logits with a large common offset lose more to bf16; a recording doesn't keep the offset, so this is a ruler that
    any two runs share, not a floor of one engine.
    """
    entropy = _entropy(observations["top20"], observations.num_rows)
    return np.asarray(BF16_UNIT * (np.abs(floats(observations["logprob"])) + entropy))


def _entropy(top20: pa.Array | pa.ChunkedArray, rows: int) -> NDArray[np.float64]:
    """[rows] nat, of the listed tokens and one more for the rest of the probability."""
    if isinstance(top20, pa.ChunkedArray):
        top20 = top20.combine_chunks()
    row = pc.list_parent_indices(top20).to_numpy()
    logprob = pc.struct_field(pc.list_flatten(top20), "logprob").to_numpy(zero_copy_only=False)
    p = np.exp(logprob)
    listed = np.bincount(row, weights=-p * np.where(p > 0, logprob, 0.0), minlength=rows)
    rest = np.maximum(1.0 - np.bincount(row, weights=p, minlength=rows), 0.0)
    return np.asarray(listed - rest * np.log(np.where(rest > 0, rest, 1.0)))

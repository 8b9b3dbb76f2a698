"""Where two arms first part, per cell and branch: DIVERGENCES rows of three kinds, censored ones included.

The clock of a branch starts at the candidate's first restore on it; what comes before is the same computation in both
arms and isn't counted. A branch that never restores has no row, except in cells where no restore is meant to
happen (cold against split): there every position counts and the offset is null.

    bits       the logits differ in any bit
    argmax     the top-1 tokens differ
    tolerance  |Δ log-probability| exceeds what one bf16 rounding of the log-probabilities can do (:func:`tolerance`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.frames import empty_frame, to_arrow, to_frame

from .casts import BF16_UNIT

__all__ = ["KINDS", "divergences", "first_divergences", "tolerance", "with_tolerance"]

KINDS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {
    "bits": lambda rows: ~rows["bits_equal"],
    "argmax": lambda rows: rows["flip"],
    # A difference that isn't a number is beyond any tolerance.
    "tolerance": lambda rows: ~(rows["dlogp"].abs() <= rows["tolerance"]),
}

_KEY = ["experiment", "trace", "branch", "turn", "position"]


def divergences(pairs: pd.DataFrame, observations: pd.DataFrame, cells: Sequence[Cell]) -> pd.DataFrame:
    """DIVERGENCES rows of all cells, from the PAIRS and OBSERVATIONS of all groups; of the forced experiment."""
    forced = observations[observations["experiment"] == "forced"]
    by_arm = dict(list(with_tolerance(forced).groupby("arm")))
    by_cell = dict(list(pairs[pairs["experiment"] == "forced"].groupby("cell")))
    found = [
        first_divergences(
            by_cell[cell.name], by_arm[cell.reference], by_arm[cell.candidate], cell.effect is not Effect.GRID
        )
        for cell in cells
        if cell.name in by_cell
    ]
    return joined(found)


def joined(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """DIVERGENCES frames as one, in key order."""
    return to_frame(to_arrow("divergences", pd.concat(found))) if found else empty_frame("divergences")


def first_divergences(
    pairs: pd.DataFrame, reference: pd.DataFrame, candidate: pd.DataFrame, restores: bool
) -> pd.DataFrame:
    """DIVERGENCES rows of one cell. ``reference`` and ``candidate``: OBSERVATIONS of the two arms, the first with a
    ``tolerance``; ``restores``: whether the candidate is meant to restore."""
    tokens_a = reference[[*_KEY, "top1", "tolerance"]].rename(columns={"top1": "token_a"})
    tokens_b = candidate[[*_KEY, "top1"]].rename(columns={"top1": "token_b"})
    rows = pairs.merge(tokens_a, on=_KEY, validate="one_to_one").merge(tokens_b, on=_KEY, validate="one_to_one")
    found = [row for _, branch in rows.groupby(["trace", "branch"]) for row in _branch(branch, restores)]
    if not found:
        return empty_frame("divergences")
    columns = {name: [row[name] for row in found] for name in found[0]}
    return to_frame(to_arrow("divergences", columns))


def _branch(rows: pd.DataFrame, restores: bool) -> Iterable[dict[str, object]]:
    """One row a kind, or none where the clock never starts."""
    rows = rows.sort_values(["turn", "position"], ignore_index=True)
    start = None
    if restores:
        restored = rows[rows["offset_from_restore"].notna()]
        if restored.empty:
            return
        first = restored.iloc[0]
        start = int(first["position"]) - int(first["offset_from_restore"])
        rows = rows.loc[first.name :]
    for kind, differs in KINDS.items():
        yield _row(kind, rows, rows[differs(rows)], start)


def _row(kind: str, rows: pd.DataFrame, differing: pd.DataFrame, start: int | None) -> dict[str, object]:
    censored = differing.empty
    at = rows.iloc[-1] if censored else differing.iloc[0]
    return {
        **{name: at[name] for name in ("cell", "trace", "branch", "turn", "position")},
        "offset_from_restore": None if start is None else int(at["position"]) - start,
        "kind": kind,
        "token_a": _or_null(at["token_a"], censored),
        "token_b": _or_null(at["token_b"], censored),
        "margin": None if censored else at["margin"],
        "dlogp": None if censored else at["dlogp"],
        "censored": censored,
    }


def _or_null(token: object, censored: bool) -> object:
    return None if censored or pd.isna(token) else token


def with_tolerance(observations: pd.DataFrame) -> pd.DataFrame:
    """The observations with the column ``tolerance``."""
    return observations.assign(tolerance=tolerance(observations))


def tolerance(observations: pd.DataFrame) -> NDArray[np.float64]:
    """[n] nat: the largest |Δ log-probability| of the token that one bf16 rounding of all log-probabilities can give.

    Take the log-probabilities l as logits and round each to bf16: l + d with |d| <= u·|l|, u = 2^-8. To first order
    the token's log-probability moves by d_token - Σ p·d, hence by at most u·(|l_token| + Σ p·|l|), and Σ p·|l| is the
    entropy. It is taken over the recorded top 20 with the rest as one token, which is never more than the whole one.
    Logits with a large common offset lose more to bf16; a recording doesn't keep the offset, so this is a ruler that
    any two runs share, not a floor of one engine.
    """
    entropy = _entropy(pa.array(observations["top20"]), len(observations))
    return np.asarray(BF16_UNIT * (observations["logprob"].abs().to_numpy() + entropy))


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

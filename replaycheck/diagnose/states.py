"""RC102, RC201, RC202: restored states that aren't what was stored.

Only the first faulty restore of a conversation is evidence. A checkpoint at a later position is computed from it, so
its error says nothing about how that checkpoint was stored.
"""

from __future__ import annotations

import pandas as pd

from replaycheck.schema.arm import Effect
from replaycheck.schema.gaps import Where
from replaycheck.schema.result import Finding

from .evidence import Evidence
from .rounding import rounded_arms
from .words import places

__all__ = ["conv_differs", "not_one_cast", "other_position"]


def other_position(evidence: Evidence) -> Finding | None:
    """RC201: the audit saw a slot with the label of another position."""
    wrong = [arm for arm in evidence.arms if arm.label_mismatches]
    if not wrong:
        return None
    sentence = (
        f"{sum(arm.label_mismatches for arm in wrong):,} restores took another one than the plan asked for, in "
        f"{len(wrong)} of {len(evidence.arms)} arms."
    )
    return evidence.finding("RC201", sentence, [f"{arm.name}: {arm.label_mismatches:,}" for arm in wrong])


def conv_differs(evidence: Evidence) -> Finding | None:
    """RC202: the conv state of the first recurrent layer, which depends on forced tokens only, isn't byte-equal."""
    exact = _exact(evidence)
    if exact.empty:
        return None
    first_layer = exact[exact["layer"] == exact["layer"].min()]
    bad = _first(first_layer[first_layer["conv_equal"] == False])  # noqa: E712  (null means not seen, which isn't unequal)
    if bad.empty:
        return None
    sentence = (
        f"In layer {int(bad['layer'].iloc[0])}, at {_restores(bad)}: a fault of position or slot, not of rounding."
    )
    return evidence.finding("RC202", sentence, [_line(row) for row in _worst(bad)], _place(bad))


def not_one_cast(evidence: Evidence) -> Finding | None:
    """RC102: an error at a first faulty restore that neither bf16 bits, nor a label, nor conv bytes explain."""
    exact = _exact(evidence)
    if exact.empty:
        return None
    explained = rounded_arms(evidence) | {arm.name for arm in evidence.arms if arm.label_mismatches}
    cells = {cell.name for cell in evidence.cells if cell.candidate not in explained}
    bad = _first(exact[exact["cell"].isin(cells) & (exact["max_error"] > 0)])
    conv = exact[(exact["layer"] == exact["layer"].min()) & (exact["conv_equal"] == False)]  # noqa: E712
    bad = bad[~bad["cell"].isin(set(conv["cell"]))]
    if bad.empty:
        return None
    universe = set(zip(exact["layer"], exact["head"], strict=True))
    where = places(set(zip(bad["layer"], bad["head"], strict=True)), universe)
    sentence = (
        f"At {_restores(bad)}, in {where}; the largest relative error is {bad['rel_error'].max():.3g}. The stored bits "
        f"don't say where it comes from."
    )
    return evidence.finding("RC102", sentence, [_line(row) for row in _worst(bad)], _place(bad))


def _exact(evidence: Evidence) -> pd.DataFrame:
    """Restores of the cells that compare warm with split-rounded, with the position as a number."""
    if evidence.restores.empty:
        return evidence.restores
    names = {cell.name for cell in evidence.cells if cell.effect is Effect.EXACT}
    rows = evidence.restores[evidence.restores["cell"].astype(str).isin(names)].copy()
    rows["cell"], rows["trace"] = rows["cell"].astype(str), rows["trace"].astype(str)
    rows["restore"] = rows["restore"].astype(str)
    rows["at"] = rows["restore"].str.rpartition("@")[2].astype(int)
    return rows


def _first(bad: pd.DataFrame) -> pd.DataFrame:
    """Of each cell and trace, the rows at the smallest position."""
    if bad.empty:
        return bad
    return bad[bad["at"] == bad.groupby(["cell", "trace"])["at"].transform("min")]


def _restores(bad: pd.DataFrame) -> str:
    count = len(bad[["cell", "trace", "restore"]].drop_duplicates())
    return f"{count} first faulty restores in {bad['cell'].nunique()} cells and {bad['trace'].nunique()} traces"


def _worst(bad: pd.DataFrame) -> list[pd.Series]:
    ordered = bad.sort_values(["max_error", "cell", "trace"], ascending=[False, True, True])
    return [row for _, row in ordered.drop_duplicates("cell").iterrows()]


def _place(bad: pd.DataFrame) -> Where:
    """The turn of the worst restore; a restore is named BRANCH/TURN@POSITION."""
    row = _worst(bad)[0]
    branch, _, turn = str(row["restore"]).partition("@")[0].partition("/")
    return Where(trace=str(row["trace"]), branch=int(branch), turn=int(turn))


def _line(row: pd.Series) -> str:
    return (
        f"{row['cell']}, {row['trace']} {row['restore']} ({row['label']}), layer {row['layer']}, head {row['head']}: "
        f"relative error {row['rel_error']:.3g} (one cast: {row['one_cast_error']:.3g}), "
        f"conv equal: {bool(row['conv_equal'])}"
    )

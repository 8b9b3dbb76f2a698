"""RC102, RC201, RC202: restored states that aren't what was stored.

Only the first faulty restore of a conversation is evidence. A checkpoint at a later position is computed from it, so
its error says nothing about how that checkpoint was stored.
"""

from __future__ import annotations

import pandas as pd

from replaycheck.schema.result import Finding

from .evidence import Evidence
from .restores import exact_restores, first_faulty, first_of_arms, turn_of_worst, worst_of_cells
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
    place = first_of_arms(evidence, {arm.name for arm in wrong})
    return evidence.finding("RC201", sentence, [f"{arm.name}: {arm.label_mismatches:,}" for arm in wrong], place)


def conv_differs(evidence: Evidence) -> Finding | None:
    """RC202: the conv state of the first recurrent layer, which depends on forced tokens only, isn't byte-equal."""
    exact = exact_restores(evidence)
    if exact.empty:
        return None
    first_layer = exact[exact["layer"] == exact["layer"].min()]
    bad = first_faulty(first_layer[first_layer["conv_equal"] == False])  # noqa: E712  (null means not seen, which isn't unequal)
    if bad.empty:
        return None
    sentence = (
        f"In layer {int(bad['layer'].iloc[0])}, at {_restores(bad)}: a fault of position or slot, not of rounding."
    )
    return evidence.finding("RC202", sentence, [_line(row) for row in worst_of_cells(bad)], turn_of_worst(bad))


def not_one_cast(evidence: Evidence) -> Finding | None:
    """RC102: an error at a first faulty restore that neither bf16 bits, nor a label, nor conv bytes explain."""
    exact = exact_restores(evidence)
    if exact.empty:
        return None
    explained = rounded_arms(evidence) | {arm.name for arm in evidence.arms if arm.label_mismatches}
    cells = {cell.name for cell in evidence.cells if cell.candidate not in explained}
    bad = first_faulty(exact[exact["cell"].isin(cells) & (exact["max_error"] > 0)])
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
    return evidence.finding("RC102", sentence, [_line(row) for row in worst_of_cells(bad)], turn_of_worst(bad))


def _restores(bad: pd.DataFrame) -> str:
    count = len(bad[["cell", "trace", "restore"]].drop_duplicates())
    return f"{count} first faulty restores in {bad['cell'].nunique()} cells and {bad['trace'].nunique()} traces"


def _line(row: pd.Series) -> str:
    return (
        f"{row['cell']}, {row['trace']} {row['restore']} ({row['label']}), layer {row['layer']}, head {row['head']}: "
        f"relative error {row['rel_error']:.3g} (one cast: {row['one_cast_error']:.3g}), "
        f"conv equal: {bool(row['conv_equal'])}"
    )

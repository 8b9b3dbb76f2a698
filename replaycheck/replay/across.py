"""Two saved runs, arm by arm: what ``compare A B`` reports. No logits, no model, no torch."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from replaycheck.compare.divergence import first_divergences, with_tolerance
from replaycheck.compare.saved import pair_saved
from replaycheck.compare.summarise import divergence_numbers, position_numbers
from replaycheck.errors import UsageError
from replaycheck.schema.comparison import ArmComparison, Comparison
from replaycheck.schema.frames import empty_frame

from .environment import differences
from .store import Run, open_run, read_environment, read_result, read_table

__all__ = ["compare_runs"]


def compare_runs(a: Path, b: Path) -> Comparison:
    """Compare the arms that both runs have. Raises :class:`UsageError` if the runs are of different models."""
    runs = open_run(a), open_run(b)
    _refuse_other_models(*runs)
    left, right = (dict(list(read_table(run, "observations").groupby("arm"))) for run in runs)
    return Comparison(
        environment=differences(*(read_environment(run) for run in runs)),
        arms=tuple(_arm(name, left[name], right[name]) for name in sorted(left.keys() & right.keys())),
        unmatched=tuple(sorted(left.keys() ^ right.keys())),
    )


def _refuse_other_models(a: Run, b: Run) -> None:
    left, right = read_result(a), read_result(b)
    if left.model_digest != right.model_digest:
        raise UsageError(
            f"the run in {str(a.path)!r} is of model {left.model!r} ({left.model_digest}), the one in "
            f"{str(b.path)!r} of {right.model!r} ({right.model_digest}); compare runs of one model"
        )


def _arm(name: str, a: pd.DataFrame, b: pd.DataFrame) -> ArmComparison:
    pairs = pair_saved(name, a, b)
    restores = bool(pairs["offset_from_restore"].notna().any())
    forced = pairs[pairs["experiment"] == "forced"]
    parted = empty_frame("divergences") if forced.empty else first_divergences(forced, with_tolerance(a), b, restores)
    return ArmComparison(
        arm=name,
        only_a=len(a) - len(pairs),
        only_b=len(b) - len(pairs),
        **position_numbers(pairs),
        **divergence_numbers(parted),
    )

"""The fixed sequence kernel → state → logits → tokens of a gate file (docs/statistics.md, Many cells).

It costs no correction for many tests: the first stage with a failure ends it. Gates without a stage are judged in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.gate import Stage
from replaycheck.schema.result import GateResult
from replaycheck.stats.many import Step, fixed_sequence

__all__ = ["in_sequence"]


def in_sequence(results: Sequence[GateResult]) -> list[GateResult]:
    """The gates of one file; those of a stage after a failed one are not judged, whatever they measured."""
    failed = {result.stage for result in results if result.verdict == "fail"}
    steps = fixed_sequence({str(stage): stage not in failed for stage in Stage})
    first = next((stage for stage, step in steps.items() if step is Step.NOT_PASSED), "")
    return [
        _not_judged(result, first) if result.stage and steps[str(result.stage)] is Step.NOT_JUDGED else result
        for result in results
    ]


def _not_judged(result: GateResult, failed: str) -> GateResult:
    sentence = f"Not judged, since a gate of the stage {failed} failed. {result.sentence}"
    return result.model_copy(update={"verdict": "not-judged", "sentence": sentence})

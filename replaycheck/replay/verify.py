"""One model, every engine: what a subject says about the shipped model, held against the float64 oracle, cold and warm.

The ruler of a position is what one bf16 rounding of all log-probabilities can do to the token's: u·(|l| + H), u = 2^-8, H
the entropy (compare/divergence.py). A model of L layers rounds its residual stream 2·L times, independently, so an honest
bf16 engine is off by at most about √(2·L) of it, an fp32 engine by next to nothing, and a wrong state by many times that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.compare.casts import BF16_UNIT
from replaycheck.errors import UsageError
from replaycheck.model.golden import Golden, golden_groups
from replaycheck.schema.arm import Answers, Arm, Compiler, Kernel
from replaycheck.schema.golden import Verified, VerifiedArm
from replaycheck.schema.result import ArmResult, Verdict
from replaycheck.subjects.choose import LAB, NO_OPTIONS
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.traces.write import write_groups

from .settings import Settings, resolve
from .stage import work_of
from .worker import one_thread, replay_groups

__all__ = ["verify"]

ROUNDINGS = 16
"""2·L of the shipped model: after each mixer and each MLP of its eight layers."""

Wide = NDArray[np.float64]


def verify(golden: Golden, subject: str = LAB, options: SubjectOptions = NO_OPTIONS) -> Verified:
    """Replay the golden groups on a subject and compare.

    Raises:
        UsageError: the subject has no cold or no warm arm. EngineEnvironmentError: it can't be reached.
    """
    one_thread()
    groups = golden_groups()
    with TemporaryDirectory(prefix="replaycheck-golden-") as folder:
        path = Path(folder) / "golden.jsonl"
        write_groups(path, groups)
        settings = resolve(traces=[str(path)], subject=subject, options=options, model=options.model)[0]
        if subject == LAB and settings.model_digest != golden.model:
            raise UsageError(f"{settings.model}: another model than the golden one; make its own with `model golden`")
        arms = _arms(settings)
        work = replace(work_of(settings), arms=arms, cells=(), experiments=("forced",))
        done = replay_groups(work, groups)
    seen = pa.concat_tables([each.tables["observations"] for each in done]).unify_dictionaries()
    counted = {
        arm.name: [found for each in done for found in each.record.arms if found.name == arm.name] for arm in arms
    }
    rows = tuple(_arm(arm, seen, golden, counted[arm.name]) for arm in arms)
    return Verified(subject=settings.label, model=golden.model, bound=sqrt(ROUNDINGS), verdict=_whole(rows), arms=rows)


def _arms(settings: Settings) -> tuple[Arm, ...]:
    """Cold, split and warm with chunk kernels; of the lab those that prefill answers, as an engine does between turns."""
    found = [arm for arm in settings.arms if arm.history is arm.tail is Kernel.CHUNK and arm.rollback is None]
    if settings.subject == LAB:
        found = [
            arm for arm in found if arm.answers is Answers.PREFILLED and arm.compiler in (Compiler.COLD, Compiler.WARM)
        ]
        first = found[0].policy.slug if found else ""
        found = [arm for arm in found if arm.policy.slug == first]
    if {Compiler.COLD, Compiler.WARM} - {arm.compiler for arm in found}:
        raise UsageError(
            f"{settings.label}: it has no cold and no warm arm, so there is nothing to hold against the oracle"
        )
    return tuple(found)


def _arm(arm: Arm, seen: pa.Table, golden: Golden, counted: Sequence[ArmResult]) -> VerifiedArm:
    place = {key: row for row, key in enumerate(golden.places)}
    rows = [row for row in _rows(seen, arm.name) if row["key"] in place]
    at = np.array([place[row["key"]] for row in rows], np.int64)
    token = np.array([row["token"] for row in rows], np.int64)
    if not np.array_equal(token, golden.tokens[at]):
        raise UsageError(
            "the subject's token ids aren't the model's own; serve the shipped model with its tokenizer's ids"
        )
    said = np.array([np.nan if row["logprob"] is None else row["logprob"] for row in rows])
    truth = golden.logprobs[at]
    own = truth[np.arange(len(at)), token]
    error = np.abs(said - own)
    known = ~np.isnan(error)
    ratio = error / (BF16_UNIT * (np.abs(own) - (np.exp(truth) * truth).sum(axis=1)))
    best = np.array([-1 if row["top1"] is None else row["top1"] for row in rows])
    order = np.sort(truth, axis=1)
    margin = order[:, -1] - order[:, -2]
    flips = (best >= 0) & (best != truth.argmax(axis=1))
    hits = sum(result.proven_hits for result in counted)
    worst = max((value for _, value in _by_trace(rows, ratio, known)), default=None)
    return VerifiedArm(
        arm=arm.name,
        positions=len(rows),
        missing=int((~known).sum()),
        hits=hits,
        mean=float(error[known].mean()) if known.any() else None,
        largest=float(error[known].max()) if known.any() else None,
        worst_trace=worst,
        flips=int(flips.sum()),
        flip_margin=float(margin[flips].max()) if flips.any() else None,
        verdict=_verdict(arm, worst, hits),
    )


def _rows(seen: pa.Table, arm: str) -> Iterator[dict[str, Any]]:
    kept = seen.filter(pa.compute.equal(seen["arm"].cast(pa.string()), arm))
    columns = ("trace", "branch", "turn", "position", "token", "logprob", "top1")
    for row in kept.select(columns).to_pylist():
        yield row | {"key": (row["trace"], row["branch"], row["turn"], row["position"])}


def _by_trace(rows: Sequence[dict[str, Any]], ratio: Wide, known: NDArray[np.bool_]) -> Iterator[tuple[str, float]]:
    """The root mean square of a trace's ratios."""
    names = np.array([str(row["trace"]) for row in rows])
    for name in sorted(set(names[known])):
        yield name, float(np.sqrt((ratio[known & (names == name)] ** 2).mean()))


def _verdict(arm: Arm, worst: float | None, hits: int) -> Verdict:
    if worst is None or (arm.compiler is Compiler.WARM and not hits):
        return "vacuous"
    return "pass" if worst <= sqrt(ROUNDINGS) else "fail"


def _whole(rows: Sequence[VerifiedArm]) -> Verdict:
    verdicts = {row.verdict for row in rows}
    return "fail" if "fail" in verdicts else "vacuous" if "vacuous" in verdicts else "pass"

"""What an arm did and what its audits saw, per group, and the sums over groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from replaycheck.audit.provenance import is_bf16_like
from replaycheck.schema.arm import Arm
from replaycheck.schema.result import ArmResult, AuditResult

from .gaps import add_gaps, gaps_of
from .record import ArmRecording, WrittenState

__all__ = ["add_arms", "add_audits", "arm_result", "audit_results"]

Place = tuple[str, str, int, int]  # arm, label, layer, head


def arm_result(arm: Arm, recording: ArmRecording) -> ArmResult:
    """The counters of one arm on one group."""
    return ArmResult(
        name=arm.name,
        compiler=arm.compiler,
        history=arm.history,
        tail=arm.tail,
        answer=arm.answer,
        answers=arm.answers,
        pool=arm.pool,
        policy=arm.policy.slug,
        recipe=arm.recipe,
        rollback=arm.rollback,
        ring=arm.ring,
        ring_lag=arm.ring_lag,
        tensor_parallel=arm.tensor_parallel,
        activation=arm.activation,
        padding=arm.padding.slug if arm.padding else None,
        kernels={part: tuple(sorted(names)) for part, names in recording.kernels.items()},
        expected_hits=recording.expected_hits,
        proven_hits=recording.proven_hits,
        computed_tokens=recording.computed_tokens,
        positions=sum(len(turn.positions) for turn in recording.turns),
        label_mismatches=recording.label_mismatches,
        content_mismatches=recording.content_mismatches,
        hits=dict(sorted(Counter(hit.why for hit in recording.hits).items())),
        gaps=gaps_of(recording.turns),
    )


def add_arms(parts: Iterable[ArmResult]) -> tuple[ArmResult, ...]:
    """One result an arm, in the order of first appearance: counters added, kernels united."""
    sums: dict[str, ArmResult] = {}
    for part in parts:
        sums[part.name] = _added(sums[part.name], part) if part.name in sums else part
    return tuple(sums.values())


def _added(a: ArmResult, b: ArmResult) -> ArmResult:
    counters = (
        "expected_hits",
        "proven_hits",
        "computed_tokens",
        "positions",
        "label_mismatches",
        "content_mismatches",
    )
    kernels = {
        part: tuple(sorted({*a.kernels.get(part, ()), *b.kernels.get(part, ())}))
        for part in sorted(a.kernels.keys() | b.kernels.keys())
    }
    hits = dict(sorted((Counter(a.hits) + Counter(b.hits)).items()))
    added = {name: getattr(a, name) + getattr(b, name) for name in counters}
    return a.model_copy(update=added | {"kernels": kernels, "hits": hits, "gaps": add_gaps(a.gaps, b.gaps)})


def audit_results(recording: ArmRecording) -> tuple[AuditResult, ...]:
    """The provenance of what an arm wrote on one group, by label, layer and head."""
    return add_audits(row for written in recording.written for row in _written(recording.arm, written))


def _written(arm: str, written: WrittenState) -> Iterable[AuditResult]:
    shares: NDArray[np.float64] = written.bf16_share
    for row, layer in enumerate(written.layers):
        for head, share in enumerate(map(float, shares[row])):
            seen = None if np.isnan(share) else share
            yield AuditResult(
                arm=arm,
                label=written.label,
                layer=layer,
                head=head,
                states=1,
                bf16_like=int(is_bf16_like(share, written.declared_bf16)),
                min_share=seen,
                max_share=seen,
            )


def add_audits(parts: Iterable[AuditResult]) -> tuple[AuditResult, ...]:
    """One result an arm, label, layer and head, in that order."""
    sums: dict[Place, AuditResult] = {}
    for part in parts:
        place = part.arm, part.label, part.layer, part.head
        sums[place] = _sum([sums[place], part]) if place in sums else part
    return tuple(sums[place] for place in sorted(sums))


def _sum(parts: list[AuditResult]) -> AuditResult:
    low = [part.min_share for part in parts if part.min_share is not None]
    high = [part.max_share for part in parts if part.max_share is not None]
    counts = {"states": sum(part.states for part in parts), "bf16_like": sum(part.bf16_like for part in parts)}
    return parts[0].model_copy(
        update=counts | {"min_share": min(low, default=None), "max_share": max(high, default=None)}
    )

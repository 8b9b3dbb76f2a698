"""result.json: what a run found. No run id, path or time; the same inputs and seed give the same bytes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from .arm import Activation, Answers, Compiler, Effect, Kernel, PoolDtype, Rollback
from .base import Record
from .estimate import Estimate as Estimate
from .floor import Floors
from .gaps import Gaps, StateDtype, Where
from .gate import Stage
from .semantics import LogprobSemantics

Verdict = Literal["pass", "fail", "inconclusive", "vacuous"]

GateVerdict = Literal["pass", "fail", "inconclusive", "vacuous", "waived", "not-judged"]
"""waived: it fails, and a waiver allows that. not-judged: an earlier stage of the fixed sequence failed, or the run's matrix
holds nothing that the gate is about."""


class ArmResult(Record):
    """One arm: how it was computed, what it hit and what audits saw."""

    name: str
    compiler: Compiler
    history: Kernel
    tail: Kernel
    answer: Kernel
    answers: Answers
    pool: PoolDtype
    policy: str
    recipe: str
    rollback: Rollback | None = Field(default=None, description="how windows were undone; null: token by token")
    ring: int | None = Field(default=None, description="tokens in the ring of rollback replay, if it was given")
    ring_lag: bool = Field(default=False, description="whether the slot's state lags behind by what is in the ring")
    tensor_parallel: int = Field(default=1, description="ranks that the heads are split over")
    activation: Activation = Field(default=Activation.INSIDE, description="where prefill activates beta and decay")
    padding: str | None = Field(
        default=None, description="how passes were padded: side, columns, rows; null: not at all"
    )
    kernels: dict[str, tuple[str, ...]] = Field(description="history, tail, answer: the kernels that really ran")
    expected_hits: int
    proven_hits: int
    computed_tokens: int
    positions: int
    label_mismatches: int = Field(default=0, description="restores whose slot held another position than planned")
    content_mismatches: int = Field(
        default=0, description="stores and restores with other tensors or bytes than their label's"
    )
    hits: dict[str, int] = Field(
        default={}, description="prompts by how their hit came out, of subjects that decide it"
    )
    gaps: Gaps | None = Field(default=None, description="positions without a log-probability; null: there are none")


class FreeResult(Record):
    """Both arms free-running, greedily, each on its own answers. Positions count up to the first difference of a path."""

    traces: int
    positions: int = Field(description="that both arms came to by the same tokens, the first difference included")
    bits_differ: int
    branches: int = Field(description="with such a position after their first restore (in grid cells: with any)")
    diverged: int = Field(description="branches on which the arms say another token; the others are censored")
    first_divergence: int | None = Field(
        description="smallest offset of one from the first restore; null in grid cells"
    )


class CellResult(Record):
    """One cell: how far its two arms are apart."""

    name: str
    effect: Effect
    reference: str
    candidate: str
    traces: int
    positions: int
    restores: int = Field(description="restores of the candidate")
    bits_differ: int = Field(description="scored positions whose logits differ in any bit")
    not_finite: int = Field(default=0, description="positions without a finite difference: NaN, or an infinity")
    missing: int = Field(default=0, description="positions whose token the subject said nothing about")
    unsized: int = Field(
        default=0,
        description="of the missing ones, those whose most likely token both arms said: compared, without a size",
    )
    unsized_flips: int = Field(default=0, description="of these, positions with another most likely token")
    first_unsized_flip: Where | None = Field(default=None, description="of the first trace that has one")
    abs_dlogp: dict[str, float] = Field(description="p50, p90, p99, p999, max over positions, nat; empty if none")
    worst_trace_abs_dlogp: Estimate = Field(description="largest of the per-trace means")
    kl_mean: Estimate = Field(description="mean of the per-trace mean KL; null from saved runs")
    kl_max: float | None
    flips: int
    flip_margin_max: float | None = Field(description="largest reference margin among the flips, nat")
    diverged_branches: dict[str, int] = Field(description="branches with a divergence, by kind; and 'all'")
    first_divergence: dict[str, int | None] = Field(description="smallest offset from the first restore, by kind")
    state_rel_error: float | None = Field(description="largest over restores, layers and heads")
    restore_max_error: float | None
    conv_unequal: int
    vacuous: bool
    why_vacuous: str = ""
    free: FreeResult | None = Field(default=None, description="of the free experiment; null if it wasn't run")


class ProbeResult(Record):
    """One exact check of a kernel or an operation, with its numbers."""

    name: str
    verdict: Verdict
    sentence: str
    values: dict[str, float | int | str | None]


class AuditResult(Record):
    """Provenance of what was written, summed by pool dtype, kind of snapshot and place."""

    arm: str
    label: str
    layer: int
    head: int
    states: int = Field(description="states written")
    bf16_like: int = Field(
        description="of these, states whose every element fits bf16 though the pool doesn't ask for it"
    )
    min_share: float | None
    max_share: float | None


class GateResult(Record):
    """One gate's verdict with the number, the bound and the evidence."""

    name: str
    file: str
    metric: str
    scope: str
    verdict: GateVerdict
    value: Estimate
    bound: float | None = Field(description="null: the floor that it is a multiple of wasn't measured")
    worst: str = Field(description="where the value was reached: a cell, probe or audit")
    why: str
    fault: str
    fault_value: float | None
    sentence: str
    line: int | None = Field(default=None, description="of the gate in its file; null if it isn't a [[gate]] table")
    stage: Stage | None = Field(default=None, description="place in the fixed sequence kernel, state, logits, tokens")
    mode: Literal["bound", "exact-zero", "equivalence"] = Field(
        default="bound",
        description="bound: the value may not exceed it. exact-zero: F_run is 0, so mismatches are counted and none is "
        "allowed. equivalence: TOST with the bound as margin",
    )
    derivation: str = Field(default="", description="the arithmetic of the bound: factor × floor, and whose floor")
    reading: str | None = Field(default=None, description="of an equivalence: what its 90 % interval says")
    traces: int | None = Field(default=None, description="the evidence; null where traces aren't (probes)")
    separation: float | None = Field(
        default=None, description="seeded-fault value over the bound at admission; null: no record, or a bound of 0"
    )
    power: float | None = Field(default=None, description="chance to decide with so many traces")
    power_of: str = Field(default="", description="what the power is about")
    traces_needed: int | None = Field(default=None, description="traces that an inconclusive gate needs to decide")
    passing_bound: float | None = Field(default=None, description="the smallest bound that would have passed")
    waiver: str | None = Field(default=None, description="reason, owner and last day of the waiver of this gate")


class Finding(Record):
    """One diagnosed fault, with its code and the command that reproduces it."""

    code: str
    title: str
    sentence: str
    evidence: tuple[str, ...]
    reproduce: str
    confidence: Literal["certain", "likely", "none"] | None = Field(
        default=None, description="of a case that was run again and explained; null: read from the tables alone"
    )
    excluded: tuple[str, ...] = Field(default=(), description="other causes, and why it is none of them")
    place: Where | None = Field(default=None, description="where it shows first; null: in no one trace")


class AttributionStep(Record):
    """One switch between two arms of a chain from cold to warm."""

    switch: str
    arm: str = Field(description="the arm that has the switch")
    rms: float = Field(description="root mean square of its Δ log-probability, nat")
    square: float = Field(description="its mean square, nat²; with the interaction these add up to the total's")


class Attribution(Record):
    """What a cold-vs-warm difference is made of, one switch at a time."""

    reference: str
    candidate: str
    traces: int
    positions: int
    total: float = Field(description="root mean square of Δ log-probability, nat")
    steps: tuple[AttributionStep, ...]
    interaction: float = Field(
        description="mean square of the total less those of the steps, nat²; negative: they cancel"
    )


class Summary(Record):
    """Gate verdicts, counted; the totals add up."""

    declared: int
    passed: int
    failed: int
    inconclusive: int
    vacuous: int
    waived: int = 0
    not_judged: int = Field(default=0, description="after a failure of an earlier stage, or not about this matrix")
    verdict: Verdict
    exit_code: int
    traces: int
    restores: int
    positions: int

    @model_validator(mode="after")
    def _adds_up(self) -> Summary:
        counts = (self.passed, self.failed, self.inconclusive, self.vacuous, self.waived, self.not_judged)
        if sum(counts) != self.declared:
            raise ValueError("passed + failed + inconclusive + vacuous + waived + not_judged isn't declared")
        return self


class Result(Record):
    """The whole of result.json."""

    schema_version: Literal[1] = 1
    suite: str
    suite_digest: str
    subject: str
    model: str
    model_digest: str
    recipe: str
    kernels: str = Field(description="whose kernels ran, with the package's version: ours, fla 0.6.0 …")
    device: str
    seed: int
    faults: tuple[str, ...]
    logprobs: LogprobSemantics = Field(default=LogprobSemantics(), description="what a log-probability of the run is")
    not_checked: tuple[str, ...] = Field(description="cells that the subject can't do, with the reason")
    arms: tuple[ArmResult, ...]
    cells: tuple[CellResult, ...]
    probes: tuple[ProbeResult, ...]
    audits: tuple[AuditResult, ...]
    notes: tuple[str, ...] = Field(default=(), description="what was left out on purpose: --budget, --fail-fast")
    gates: tuple[GateResult, ...]
    findings: tuple[Finding, ...]
    attributions: tuple[Attribution, ...] = Field(default=(), description="of warm arms whose cold arm is there")
    state_dtype: StateDtype | None = Field(
        default=None, description="asked for and in use, of a subject that was asked for one; null: it wasn't"
    )
    floor: Floors | None = Field(
        default=None, description="the noise of controls, which gates read; null: none measured"
    )
    summary: Summary

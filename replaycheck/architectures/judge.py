"""One operation on one architecture: run it, and say what it was: exact, noise, a fault, refused or crashed.

A difference from the uncached forward is noise while both may be roundings of one function, and else a fault:

1. Floor e: how far uncached forwards are from the same model in float64, over conversations, a prefix and a batch of
   three, with the same top-k choices. No cache is in it. Two answers, each off by at most e, differ by at most 2 e.
2. Beyond that the operation runs again with everything in float64. Rounding shrinks by the ratio of the epsilons (2^-29
   from fp32), a fault doesn't shrink at all. The bound lies half way between, on a logarithmic scale: 2 e · √ratio.
   A difference above it is a fault; it was seen in two arithmetics. Below it it's noise that a choice amplified: a
   top-k that hung on a rounding error, or on an exact tie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from replaycheck.schema.architectures import Amplified, ArchitectureCell, OperationVerdict

from .bench import CONVERSATIONS, CUT, Bench, Compared, logprobs
from .model import Model
from .operations import Operation
from .refusal import listening, refused_on_purpose, short
from .top_k import replaying, smallest_gap

__all__ = ["Judge"]


@dataclass(frozen=True)
class _Ran:
    """What came of an operation: comparisons, or why there are none; and what the library warned of."""

    compared: tuple[Compared, ...]
    error: Exception | None = None
    warning: str | None = None

    @property
    def worst(self) -> float:
        return max((float(each.differences().max()) for each in self.compared), default=0.0)


@dataclass(frozen=True)
class Judge:
    """A model, its float64 twin, and the floor of both."""

    model: Model
    seed: int = 0

    @cached_property
    def oracle(self) -> Model:
        return self.model.in_double()

    @cached_property
    def floor(self) -> float:
        """e, in nat. Both choose the same top-k, or a flipped choice would hide every fault that is smaller."""
        with self.oracle.computing() as oracle:
            true = self._uncached(self.oracle)
        with self.model.computing(), replaying(oracle.chosen):
            rounded = self._uncached(self.model)
        return max(float((a - b).abs().max()) for a, b in zip(rounded, true, strict=True))

    @cached_property
    def bound(self) -> float:
        """The least difference in float64 that isn't rounding, in nat."""
        ratio = torch.finfo(torch.float64).eps / torch.finfo(self.model.module.dtype).eps
        return 2 * self.floor * math.sqrt(ratio)

    def cell(self, operation: Operation) -> ArchitectureCell:
        """The verdict on one operation."""
        ran = self._run(self.model, operation)
        if ran.error is not None and ran.worst <= 2 * self.floor:
            verdict: OperationVerdict = "refused" if refused_on_purpose(ran.error) else "crashed"
            return ArchitectureCell(operation=operation.name, verdict=verdict, sentence=short(ran.error))
        if ran.worst == 0:
            return ArchitectureCell(operation=operation.name, verdict="exact", sentence="the same bits")
        if ran.worst > 2 * self.floor:
            return self._beyond(operation, ran)
        sentence = f"{ran.worst:.2g} nat, {ran.worst / self.floor:.1f} of the floor"
        return ArchitectureCell(operation=operation.name, verdict="noise", size=ran.worst, sentence=sentence)

    def _beyond(self, operation: Operation, ran: _Ran) -> ArchitectureCell:
        true = self._run(self.oracle, operation)
        then = f"then {short(ran.error)}" if ran.error is not None else ""
        if true.worst > self.bound:
            return self._fault(operation, ran, true, self.bound, then)
        if true.error is not None and ran.error is None:
            return self._fault(operation, ran, ran, 2 * self.floor, f"not confirmed in float64: {short(true.error)}")
        return self._amplified(operation, ran)

    def _fault(self, operation: Operation, ran: _Ran, shown: _Ran, bound: float, said: str = "") -> ArchitectureCell:
        """Its size as computed; where it begins in what is shown, which is float64 if that can be run."""
        begins = next(each for each in shown.compared if float(each.differences().max()) > bound)
        wrong = begins.differences() > bound
        return ArchitectureCell(
            operation=operation.name,
            verdict="refused" if ran.warning else "fault",
            size=_finite(ran.worst),
            size_in_double=None if shown is ran else _finite(shown.worst),
            where=begins.where,
            first_wrong=begins.first + int(wrong.nonzero()[0]),
            wrong=int(wrong.sum()),
            compared=len(wrong),
            sentence=ran.warning or said,
        )

    def _amplified(self, operation: Operation, ran: _Ran) -> ArchitectureCell:
        """Rounding beyond the floor: was it a top-k that hung on an exact tie, or on a rounding error?"""
        cause: Amplified = "rounding"
        if self._run(self.model.in_double(stable=False), operation).worst > self.bound:
            cause = "top-k tie"
        elif smallest_gap(lambda: self._run(self.model, operation)) < self.floor:
            cause = "top-k flip"
        return ArchitectureCell(
            operation=operation.name,
            verdict="noise",
            size=_finite(ran.worst),
            cause=cause,
            sentence=f"{ran.worst:.2g} nat, {ran.worst / self.floor:.0f} of the floor, and gone in float64: {cause}",
        )

    def _run(self, model: Model, operation: Operation) -> _Ran:
        """What it yields until it ends or fails."""
        compared: list[Compared] = []
        with model.computing(), listening() as heard:
            try:
                compared.extend(operation.run(Bench(model.fresh(), self.seed)))
            except Exception as error:
                return _Ran(tuple(compared), error, heard.against)
        return _Ran(tuple(compared), warning=heard.against)

    def _uncached(self, model: Model) -> list[Tensor]:
        """Uncached forwards, several ways: whole conversations, a prefix, a batch."""
        bench = Bench(model.fresh(), self.seed)
        together = torch.cat([bench.conversation(number) for number in range(CONVERSATIONS)])
        ways = [together[:1, :CUT], *together[:, None], together]
        return [logprobs(model.uncached(tokens)) for tokens in ways]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None

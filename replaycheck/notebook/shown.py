"""Parts of a run that show themselves: the verdict, gates, cells, and two runs compared.

Each holds the records of ``replaycheck.schema`` that it was made of, so nothing has to be read out of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import overload

import pandas as pd

from replaycheck.schema.comparison import Comparison
from replaycheck.schema.result import ArmResult, CellResult, Finding, GateResult, Summary

from .html import paragraph, table

__all__ = ["Cells", "Compared", "Gates", "Judged", "Verdict"]


@dataclass(frozen=True)
class Verdict:
    """The answer of a run, as the report's first lines give it.

    Attributes:
        name: pass, fail, inconclusive or vacuous. exit_code: that of ``replaycheck run``.
        question, short, sentence: the question, its answer in a word, and whole. amount: what was compared.
        findings: the faults that were named, each with a code.
    """

    name: str
    exit_code: int
    question: str
    short: str
    sentence: str
    amount: str
    findings: tuple[Finding, ...]

    def _repr_html_(self) -> str:
        lines = [
            paragraph(f"{self.question} {self.short}. {self.sentence}", self.name.upper()),
            paragraph(f"Compared: {self.amount}."),
        ]
        found = [(each.code, each.title, each.sentence, each.reproduce) for each in self.findings]
        return "".join(lines) + (table(("code", "finding", "what", "repeat"), found) if found else "")


@dataclass(frozen=True)
class Gates(Sequence[GateResult]):
    """Judged gates, in the order of their files."""

    results: tuple[GateResult, ...]

    def where(self, verdict: str | None = None, metric: str | None = None, file: str | None = None) -> Gates:
        """Those with this verdict, metric and gate file; None stands for any."""
        wanted = (("verdict", verdict), ("metric", metric), ("file", file))
        kept = (gate for gate in self if all(value in (None, getattr(gate, key)) for key, value in wanted))
        return Gates(tuple(kept))

    @property
    def frame(self) -> pd.DataFrame:
        """One row a gate: file, gate, metric, scope, verdict, value, low and high (its interval), n, bound, worst."""
        rows = [
            (
                *(gate.file, gate.name, gate.metric, gate.scope, gate.verdict),
                *(gate.value.value, gate.value.low, gate.value.high, gate.value.n),
                *(gate.bound, gate.worst),
            )
            for gate in self
        ]
        names = ["file", "gate", "metric", "scope", "verdict", "value", "low", "high", "n", "bound", "worst"]
        return pd.DataFrame(rows, columns=names)

    @overload
    def __getitem__(self, at: int) -> GateResult: ...
    @overload
    def __getitem__(self, at: slice) -> Gates: ...
    def __getitem__(self, at: int | slice) -> GateResult | Gates:
        return Gates(self.results[at]) if isinstance(at, slice) else self.results[at]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[GateResult]:
        return iter(self.results)

    def _repr_html_(self) -> str:
        rows = [
            (gate.verdict, gate.file, gate.name, gate.value.value, gate.bound, gate.value.n, gate.worst, gate.sentence)
            for gate in self
        ]
        return table(("verdict", "file", "gate", "value", "bound", "n", "worst", "in words"), rows)


@dataclass(frozen=True)
class Cells(Sequence[CellResult]):
    """Compared pairs of arms. ``arms``: those of the run, by name."""

    results: tuple[CellResult, ...]
    arms: dict[str, ArmResult]

    def where(
        self,
        name: str | None = None,
        effect: str | None = None,
        pool: str | None = None,
        answers: str | None = None,
        differ: bool | None = None,
    ) -> Cells:
        """A part of the cells; None stands for any.

        Args:
            name: a pattern such as ``"exact/chunk-*"``.
            effect: exact, state, grid, total, or another effect of the suite.
            pool: of the candidate: fp32, bf16, fp16.
            answers: of the candidate: decoded, prefilled.
            differ: whether any position differs in bits.
        """
        kept = (
            cell
            for cell in self
            if (name is None or fnmatchcase(cell.name, name))
            and effect in (None, cell.effect)
            and pool in (None, self.arms[cell.candidate].pool)
            and answers in (None, self.arms[cell.candidate].answers)
            and differ in (None, bool(cell.bits_differ))
        )
        return Cells(tuple(kept), self.arms)

    @property
    def frame(self) -> pd.DataFrame:
        """One row a cell: its name and arms, then the counts and numbers of ``result.json`` (nat where they are)."""
        rows = [
            {
                "cell": cell.name,
                "effect": str(cell.effect),
                "reference": cell.reference,
                "candidate": cell.candidate,
                "pool": str(self.arms[cell.candidate].pool),
                "traces": cell.traces,
                "positions": cell.positions,
                "restores": cell.restores,
                "bits_differ": cell.bits_differ,
                "p99": cell.abs_dlogp.get("p99"),
                "max": cell.abs_dlogp.get("max"),
                "flips": cell.flips,
                "first_argmax": cell.first_divergence.get("argmax"),
                "state_rel_error": cell.state_rel_error,
                "vacuous": cell.vacuous,
            }
            for cell in self
        ]
        return pd.DataFrame(rows)

    @overload
    def __getitem__(self, at: int) -> CellResult: ...
    @overload
    def __getitem__(self, at: slice) -> Cells: ...
    def __getitem__(self, at: int | slice) -> CellResult | Cells:
        return Cells(self.results[at], self.arms) if isinstance(at, slice) else self.results[at]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[CellResult]:
        return iter(self.results)

    def _repr_html_(self) -> str:
        rows = [
            (
                *(cell.name, str(cell.effect), cell.positions, cell.bits_differ, cell.abs_dlogp.get("p99")),
                *(cell.abs_dlogp.get("max"), cell.flips, cell.first_divergence.get("argmax")),
            )
            for cell in self
        ]
        heads = ("cell", "effect", "positions", "differ in bits", "p99", "max", "flips", "first other token at")
        return table(heads, rows, "p99 and max of |Δ log p| in nat; first: tokens after the first restore")


@dataclass(frozen=True)
class Judged:
    """A run under other gate files; nothing was written. ``warnings``: gates that aren't admitted."""

    summary: Summary
    gates: Gates
    warnings: tuple[str, ...]

    def _repr_html_(self) -> str:
        one = self.summary
        counts = f"{one.passed} of {one.declared} gates pass, {one.failed} fail, {one.inconclusive} inconclusive"
        lines = [paragraph(f"{counts}; exit code {one.exit_code}", one.verdict.upper())]
        return "".join([*lines, *map(paragraph, self.warnings)]) + self.gates._repr_html_()


@dataclass(frozen=True)
class Compared:
    """Two runs, arm by arm: what ``replaycheck compare A B`` reports. ``record`` has all of it."""

    record: Comparison

    @property
    def frame(self) -> pd.DataFrame:
        """One row an arm that both runs have: positions, bits_differ, p99 and max of |Δ log p| (nat), flips."""
        rows = [
            (arm.arm, arm.positions, arm.bits_differ, arm.abs_dlogp.get("p99"), arm.abs_dlogp.get("max"), arm.flips)
            for arm in self.record.arms
        ]
        return pd.DataFrame(rows, columns=["arm", "positions", "bits_differ", "p99", "max", "flips"])

    def _repr_html_(self) -> str:
        other = [(name, left or "none", right or "none") for name, (left, right) in self.record.environment.items()]
        said = "different in" if other else "the same"
        differ = table(("environment", "A", "B"), other) if other else ""
        names = ("arm", "positions", "bits_differ", "p99", "max", "flips")
        rows = self.frame.itertuples(index=False, name=None)
        return paragraph(f"Environment: {said}") + differ + table(names, rows, "B against A")

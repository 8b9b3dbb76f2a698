"""The answer to "did caching change my outputs?", in words, for the page, the terminal and the summary.

The exact cells decide it (warm against split-rounded). What is left between warm and cold is the grid effect and the
declared cast: it is measured and said, but it isn't a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from replaycheck.diagnose.words import listed, pools
from replaycheck.schema.arm import Compiler, Effect, PoolDtype
from replaycheck.schema.result import CellResult, Result, Verdict

from .text import number, plural

__all__ = ["Answer", "answer", "hits", "not_checked", "pool_of"]

QUESTION = "Did caching change my outputs?"


@dataclass(frozen=True)
class Answer:
    """``short`` is the word that answers; ``sentence`` says it whole; ``details`` put it in proportion."""

    verdict: Verdict
    short: str
    sentence: str
    details: tuple[str, ...]
    sizes: tuple[str, ...]  # of the details, those that the matrix shows as well
    amount: str
    question: str = QUESTION


def answer(result: Result) -> Answer:
    """The answer that ``result`` supports."""
    short, sentence = _judged(result)
    sizes = tuple(_effects(result))
    notes = (_planted(result), *sizes, *_hits(result), *not_checked(result.not_checked), *result.notes)
    return Answer(
        result.summary.verdict, short, sentence, tuple(note for note in notes if note), sizes, _amount(result)
    )


def hits(result: Result) -> tuple[int, int]:
    """Proven and expected hits of all warm arms."""
    warm = [arm for arm in result.arms if arm.compiler is Compiler.WARM]
    return sum(arm.proven_hits for arm in warm), sum(arm.expected_hits for arm in warm)


def pool_of(result: Result, cell: CellResult) -> PoolDtype | None:
    """The pool dtype of the candidate; None if the arm isn't in the result."""
    return next((arm.pool for arm in result.arms if arm.name == cell.candidate), None)


def _judged(result: Result) -> tuple[str, str]:
    verdict = result.summary.verdict
    exact = [cell for cell in result.cells if cell.effect is Effect.EXACT and cell.positions and not cell.vacuous]
    differ = [cell for cell in exact if cell.bits_differ]
    if verdict == "vacuous":
        return "Can't say", _unproven(result, exact)
    if differ:
        # Whatever the gates allow: these arms must have the same bits.
        return "Yes" if verdict != "pass" else "Yes, within the gates", _changed(result, exact, differ)
    if verdict == "inconclusive":
        return "Can't say yet", f"{_undecided(result)} {_same(result, exact)}".strip()
    if verdict == "fail":
        failed = listed(gate.name for gate in result.gates if gate.verdict == "fail")
        # What the exact cells say comes first: it is what was asked.
        short = "Not by storing and restoring, but a gate failed" if exact else "Can't say: a gate failed"
        return short, f"{failed} failed. {_same(result, exact)}".strip()
    if not exact:
        return "Not beyond the gates", "Every gate passed; no comparison that must have the same bits was made."
    total = [cell for cell in result.cells if cell.effect is Effect.TOTAL and cell.bits_differ]
    if total:
        return "Only by rounding", f"{_same(result, exact)} {_rounding(result, total)}"
    return "No", _same(result, exact)


def _unproven(result: Result, exact: list[CellResult]) -> str:
    """What is vacuous: the whole run, or a gate that found nothing to measure where others did."""
    empty = [gate for gate in result.gates if gate.verdict == "vacuous"]
    if not exact or not empty or any(cell.bits_differ for cell in exact):
        return "Nothing was proven: no restore happened, or no position was compared."
    names = listed(gate.name for gate in empty)
    return f"A gate has nothing to judge here, {names}: {empty[0].sentence} {_same(result, exact)}"


def _undecided(result: Result) -> str:
    """Why there is no verdict: another dtype than was asked for, what a gate says, or the number of traces."""
    if result.state_dtype is not None and result.state_dtype.another:
        return f"{str(result.state_dtype).capitalize()}, so this run doesn't answer what was asked."
    open_ = [gate for gate in result.gates if gate.verdict == "inconclusive"]
    if any(gate.traces_needed for gate in open_) or not open_:
        return "Too few traces for a verdict."
    return open_[0].sentence


def _rounding(result: Result, differ: list[CellResult]) -> str:
    """What the user of a cache still sees: other cuts round otherwise, and a narrow pool rounds more often."""
    cells = [cell for cell in result.cells if cell.effect is Effect.TOTAL]
    positions, flips = sum(cell.positions for cell in cells), sum(cell.flips for cell in differ)
    return (
        f"Cache on and cache off still round differently, by where a prompt is cut and by the pool's dtype: logits differ "
        f"at {sum(cell.bits_differ for cell in differ):,} of {positions:,} positions, the most likely token at {flips:,}."
    )


def _changed(result: Result, exact: list[CellResult], differ: list[CellResult]) -> str:
    bad, clean = _pools(result, differ), _pools(result, exact) - _pools(result, differ)
    count, positions = sum(cell.bits_differ for cell in differ), sum(cell.positions for cell in exact)
    text = (
        f"Storing and restoring a state changed what the model computes. Warm differs from the same calls without "
        f"store and restore (split-rounded) at {count:,} of {positions:,} positions, in {len(differ)} of "
        f"{plural(len(exact), 'comparison')}: {pools(bad)}."
    )
    return f"{text} No bit differs in {pools(clean)}." if clean else text


def _same(result: Result, exact: list[CellResult]) -> str:
    if not exact:
        return ""
    positions = sum(cell.positions for cell in exact)
    return (
        f"Storing and restoring a state changed nothing but the declared cast to the pool's dtype: warm equals "
        f"split-rounded bit for bit at all {positions:,} positions, in {pools(_pools(result, exact))}."
    )


def _pools(result: Result, cells: Iterable[CellResult]) -> set[PoolDtype]:
    found = (pool_of(result, cell) for cell in cells)
    return {pool for pool in found if pool is not None}


def _planted(result: Result) -> str:
    if not result.faults:
        return ""
    return f"This run had the fault {listed(result.faults)} planted on purpose: a test of the test, not of the subject."


def _hits(result: Result) -> list[str]:
    """Of a subject that decides its own hits: how they came out, beside what its cache was expected to do."""
    found: Counter[str] = Counter()
    for arm in result.arms:
        found.update(arm.hits)
    told = [f"{count:,} {why}" for why, count in found.most_common()]
    return [f"Hits: {'; '.join(told)}."] if told else []


def not_checked(lines: Iterable[str]) -> list[str]:
    """What the subject can't do (``cell: reason``), by reason: a pass says nothing about it."""
    reasons = Counter(line.partition(": ")[2] for line in lines)
    return [f"Not checked: {plural(count, 'comparison')}, as {reason}." for reason, count in sorted(reasons.items())]


def _effects(result: Result) -> list[str]:
    """How large the legitimate differences are, so that nobody reads the answer as "cold and warm are equal"."""
    lines = []
    total = _p99(result, Effect.TOTAL)
    if total:
        lines.append(f"Cache on against cache off, |Δ log p| at the 99th percentile of the worst comparison: {total}.")
    grid = _p99(result, Effect.GRID)
    if grid:
        lines.append(f"Of this, other cuts alone (grid effect, legitimate): {grid}.")
    return lines


def _p99(result: Result, effect: Effect) -> str:
    worst: dict[PoolDtype, float] = {}
    for cell in result.cells:
        pool = pool_of(result, cell)
        if cell.effect is effect and pool is not None and "p99" in cell.abs_dlogp:
            worst[pool] = max(worst.get(pool, 0.0), cell.abs_dlogp["p99"])
    if effect is Effect.GRID and worst:  # the cold and split arms keep their state live in fp32, whatever the pool
        return f"{number(max(worst.values()))} nat"
    return listed(f"{pool} pool {number(worst[pool])}" for pool in PoolDtype if pool in worst) + " nat" if worst else ""


def _amount(result: Result) -> str:
    proven, expected = hits(result)
    summary = result.summary
    said = f"{proven:,} of {expected:,} expected hits proven"
    if proven > expected:  # not all could be predicted
        said = f"{proven:,} hits proven, {f'{expected:,} of them' if expected else 'none'} predicted"
    return (
        f"{plural(summary.traces, 'trace')}, {plural(len(result.cells), 'comparison')} of "
        f"{plural(len(result.arms), 'arm')}, {plural(summary.restores, 'restore')} "
        f"({said}), {plural(summary.positions, 'position')}"
    )

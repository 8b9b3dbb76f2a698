"""Two saved runs as baseline and candidate: what ``compare OLD NEW --no-worse`` judges. No model, no torch.

Numbers come from the PAIRS of both runs, one a cell and trace, so memory grows with cells times traces (about 60 bytes each)
and not with positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from replaycheck.compare.baseline import NOISE_SHARE, CellTraces, Margin, judge_cell
from replaycheck.compare.columns import flags, floats, names, unsaid
from replaycheck.errors import UsageError
from replaycheck.schema.arm import Effect
from replaycheck.schema.comparison import BaselineCell, NoWorse
from replaycheck.schema.result import ArmResult, CellResult, Result, Verdict

from .parts import Run, read_part
from .store import groups_done, read_result

__all__ = ["no_worse_than", "require_baseline"]

_COLUMNS = ("cell", "experiment", "cluster", "trace", "dlogp", "bits_equal")

_ORDER: tuple[Verdict, ...] = ("fail", "vacuous", "inconclusive", "pass")
"""The precedence of exit codes 1, 5, 6, 0 (docs/ci.md, Exit codes)."""


def require_baseline(run: Run) -> Result:
    """The result of a run that may be a baseline.

    Raises :class:`UsageError` for one that failed, proved nothing, or had a fault planted: measured against it, what is bad
    would pass.
    """
    result = read_result(run)
    path, advice = str(run.path), "a failed run never becomes a baseline; give one that passed"
    if result.summary.verdict == "fail":
        failed = next((gate for gate in result.gates if gate.verdict == "fail"), None)
        why = f" (gate {failed.name}: {failed.sentence.rstrip('.')})" if failed else ""
        raise UsageError(f"the run in {path!r} failed{why}; {advice}")
    if result.summary.verdict == "vacuous":
        raise UsageError(f"the run in {path!r} is vacuous, it compared nothing or never hit; {advice}")
    if result.faults:
        raise UsageError(f"the run in {path!r} had a fault planted on purpose ({', '.join(result.faults)}); {advice}")
    return result


def no_worse_than(old: Run, new: Run, margin: float | None = None) -> NoWorse:
    """Judge ``new`` against its baseline ``old``, cell by cell.

    ``margin``: nat that the mean of a trace's |Δ log p| may grow by; None takes it from the baseline's own noise.

    Raises :class:`UsageError` if ``old`` can't be a baseline, or its noise wasn't measured and no margin is given.
    """
    before, after = require_baseline(old), read_result(new)
    there = {cell.name: cell for cell in after.cells}
    judged = [cell for cell in before.cells if cell.effect is not Effect.GRID]
    grid = [cell for cell in before.cells if cell.effect is Effect.GRID]
    both = [cell for cell in judged if cell.name in there]
    mine = _per_trace(old, [cell.name for cell in (*both, *grid)])
    theirs = _per_trace(new, [cell.name for cell in both])
    noise = [(cell, _mean(mine[cell.name])) for cell in grid]
    margins = _margins(before, both, noise, margin)
    found = [
        judge_cell(
            cell.name,
            cell.effect,
            mine[cell.name],
            theirs[cell.name],
            margins[cell.name],
            len(both),
            _why_vacuous(cell, there[cell.name]),
            _zero(cell),
        )
        for cell in both
    ]
    missing = tuple(cell.name for cell in judged if cell.name not in there)
    return _verdict(found, missing, tuple(cell.name for cell in grid))


def _zero(cell: CellResult) -> bool:
    return cell.positions > 0 and cell.bits_differ == 0 and cell.not_finite == 0 and cell.missing == 0


def _why_vacuous(before: CellResult, after: CellResult) -> str:
    if before.vacuous:
        return f"the baseline's cell proves nothing, {before.why_vacuous}"
    return f"the cell proves nothing, {after.why_vacuous}" if after.vacuous else ""


Noise = Sequence[tuple[CellResult, float | None]]
"""Grid cells, each with the mean over traces of |Δ log p|, nat."""


def _margins(result: Result, cells: Iterable[CellResult], noise: Noise, given: float | None) -> dict[str, Margin]:
    """Of each cell. One that must stay exact needs none."""
    arms = {arm.name: arm for arm in result.arms}
    return {cell.name: _margin(cell, arms, noise, given) for cell in cells}


def _margin(cell: CellResult, arms: Mapping[str, ArmResult], noise: Noise, given: float | None) -> Margin:
    if _zero(cell) or cell.vacuous:
        return Margin(0.0, "what was exact stays exact")
    if given is not None:
        return Margin(given, "given with --margin")
    found = _noise(arms[cell.candidate], arms, noise)
    if found is None:
        raise UsageError(
            f"the baseline has no noise floor for {cell.name!r}: no cold-vs-split cell (effect grid) with its kernels "
            "differs; give --margin NAT, or make the baseline with a suite that has one"
        )
    return Margin(NOISE_SHARE * found, f"{NOISE_SHARE:g} × the baseline's cold vs split, {found:.3g} nat")


def _noise(arm: ArmResult, arms: Mapping[str, ArmResult], noise: Noise) -> float | None:
    """F_num: the largest of the grid cells with the arm's kernels; of those with its policy, if there are any."""
    mine = [(cell, value) for cell, value in noise if _kernels(arms[cell.candidate]) == _kernels(arm)]
    same = [(cell, value) for cell, value in mine if arms[cell.candidate].policy == arm.policy]
    return max((value for _, value in same or mine if value), default=None)


def _mean(found: CellTraces) -> float | None:
    seen = found.apart[np.isfinite(found.apart)]
    return float(seen.mean()) if len(seen) else None


def _kernels(arm: ArmResult) -> tuple[str, str, str]:
    return arm.history, arm.tail, arm.answers


def _per_trace(run: Run, wanted: list[str]) -> dict[str, CellTraces]:
    """Of each cell, one number a trace, traces in the order of the parts."""
    frames = [frame for part in sorted(groups_done(run)) if len(frame := _of_part(run, part, wanted))]
    if not frames:
        return {name: _traces(_empty()) for name in wanted}
    whole = pd.concat(frames, ignore_index=True)
    found = {str(name): _traces(mine) for name, mine in whole.groupby("cell", observed=True, sort=False)}
    return {name: found.get(name, _traces(_empty())) for name in wanted}


def _of_part(run: Run, part: str, wanted: list[str]) -> pd.DataFrame:
    """Rows of one part: cell, trace, cluster, sum and count of |Δ log p|, positions that differ or have no difference."""
    pairs = read_part(run, "pairs", part, _COLUMNS)
    size, silent = np.abs(floats(pairs["dlogp"])), unsaid(pairs)
    finite = np.isfinite(size)
    frame = pd.DataFrame(
        {
            **{name: _categories(pairs[name]) for name in ("cell", "trace", "cluster", "experiment")},
            "sum": np.where(finite, size, 0.0),
            "count": finite.astype(np.int64),
            "differ": (~flags(pairs["bits_equal"], unseen=True)).astype(np.int64),
            "not_finite": (~finite & ~silent).astype(np.int64),
        }
    )
    kept = frame[(frame["experiment"] == "forced") & frame["cell"].isin(wanted)]
    keys = ["cell", "trace", "cluster"]
    return kept.groupby(keys, observed=True, sort=False)[["sum", "count", "differ", "not_finite"]].sum().reset_index()


def _categories(column: object) -> pd.Categorical:
    found = names(column)
    return pd.Categorical.from_codes(found.code, list(found.of))


def _empty() -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in ("trace", "cluster", "sum", "count", "differ", "not_finite")})


def _traces(frame: pd.DataFrame) -> CellTraces:
    count = frame["count"].to_numpy(np.float64)
    total: NDArray[np.float64] = frame["sum"].to_numpy(np.float64)
    apart = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return CellTraces(
        tuple(map(str, frame["trace"])),
        tuple(map(str, frame["cluster"])),
        apart,
        frame["differ"].to_numpy(np.int64),
        frame["not_finite"].to_numpy(np.int64),
    )


def _verdict(cells: list[BaselineCell], missing: tuple[str, ...], grid: tuple[str, ...]) -> NoWorse:
    found = {cell.verdict for cell in cells} | ({"inconclusive"} if missing else set()) or {"vacuous"}
    verdict = next(each for each in _ORDER if each in found)
    ordered = tuple(sorted(cells, key=lambda cell: (_ORDER.index(cell.verdict), -_change(cell))))
    return NoWorse(
        verdict=verdict,
        sentence=" ".join(_said(verdict, ordered, missing)),
        cells=ordered,
        missing=missing,
        not_judged=grid,
    )


def _change(cell: BaselineCell) -> float:
    return cell.difference.value or 0.0


def _said(verdict: Verdict, cells: tuple[BaselineCell, ...], missing: tuple[str, ...]) -> Iterator[str]:
    count = sum(cell.verdict == verdict for cell in cells)
    if verdict == "pass":
        yield f"No worse than the baseline in all {len(cells)} cells."
    elif count:
        words = {"fail": "worse than the baseline", "vacuous": "vacuous", "inconclusive": "inconclusive"}[verdict]
        yield f"{count} of {len(cells)} cells are {words}; first {cells[0].cell}: {cells[0].sentence}"
    elif not cells:
        yield "The runs share no cell that is judged."
    if missing:
        yield f"{len(missing)} cells of the baseline aren't in the new run, the first is {missing[0]}."

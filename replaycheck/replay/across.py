"""Two saved runs, arm by arm: what ``compare A B`` reports. No logits, no model, no torch.

Part by part of A, with the parts of B that hold the same traces; the two runs may be cut into parts differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replaycheck.compare.cell_sums import CellSums
from replaycheck.compare.columns import names
from replaycheck.compare.divergence import DivergenceSums, divergences
from replaycheck.compare.free_sums import FreeSums
from replaycheck.compare.saved import pair_saved
from replaycheck.compare.spill import Spill
from replaycheck.errors import UsageError
from replaycheck.schema.arm import Cell, Effect
from replaycheck.schema.comparison import ArmComparison, Comparison
from replaycheck.schema.frames import to_arrow, to_frame
from replaycheck.schema.tables import PAIRS

from .baseline import no_worse_than
from .environment import differences
from .parts import read_part
from .store import Run, groups_done, open_run, read_environment, read_result

__all__ = ["compare_runs"]


def compare_runs(a: Path, b: Path, judge: bool = False, margin: float | None = None) -> Comparison:
    """Compare the arms that both runs have.

    ``judge``: whether ``b`` is no worse than its baseline ``a``, by at most ``margin`` nat (see ``baseline.py``).

    Raises :class:`UsageError` if the runs are of different models or mean something else by a log-probability, or if ``a``
    can't be a baseline.
    """
    runs = open_run(a), open_run(b)
    _refuse_other_models(*runs)
    _refuse_other_semantics(*runs)
    no_worse = no_worse_than(*runs, margin) if judge else None
    left, right = (_Arms(run) for run in runs)
    cells = {name: _cell(name, right) for name in sorted(left.rows.keys() & right.rows.keys())}
    with TemporaryDirectory(prefix="replaycheck-compare-") as scratch, Spill(Path(scratch)) as spill:
        sums = CellSums([cell.name for cell in cells.values()], spill)
        parted, free = DivergenceSums(), FreeSums()
        for part, pairs, said in _paired(*runs, cells, spill):
            sums.add(pairs, part)
            found = divergences(pairs, said, tuple(cells.values()))
            parted.add(found)
            free.add(pairs, found)
        positions, said_freely = dict(sums.numbers()), free.finish(cell.name for cell in cells.values())
    return Comparison(
        environment=differences(*(read_environment(run) for run in runs)),
        arms=tuple(
            _arm(name, cell, left, right, positions[cell.name] | {"free": said_freely.get(cell.name)}, parted)
            for name, cell in cells.items()
        ),
        unmatched=tuple(sorted(left.rows.keys() ^ right.rows.keys())),
        no_worse=no_worse,
    )


def _refuse_other_models(a: Run, b: Run) -> None:
    left, right = read_result(a), read_result(b)
    if left.model_digest != right.model_digest:
        raise UsageError(
            f"the run in {str(a.path)!r} is of model {left.model!r} ({left.model_digest}), the one in "
            f"{str(b.path)!r} of {right.model!r} ({right.model_digest}); compare runs of one model"
        )


def _refuse_other_semantics(a: Run, b: Run) -> None:
    unlike = read_result(a).logprobs.unlike(read_result(b).logprobs)
    if unlike:
        name, (left, right) = next(iter(unlike.items()))
        more = f", and {len(unlike) - 1} more of it differ" if len(unlike) > 1 else ""
        raise UsageError(
            f"a log-probability isn't the same thing in both runs: {name} is {left!r} in {str(a.path)!r} and {right!r} in "
            f"{str(b.path)!r}{more}; compare runs that were recorded alike"
        )


class _Arms:
    """How many forced observations each arm of a run has, and which arms restore."""

    def __init__(self, run: Run) -> None:
        self.rows: dict[str, int] = {}
        self.restore: set[str] = set()
        for part in sorted(groups_done(run)):
            table = read_part(run, "observations", part, ("arm", "experiment", "offset_from_restore"))
            arm, experiment = names(table["arm"]), names(table["experiment"])
            forced = experiment.code == experiment.named("forced")
            restored = table["offset_from_restore"].is_valid().to_numpy(zero_copy_only=False)
            for code, name in enumerate(arm.of):
                mine = forced & (arm.code == code)
                self.rows[name] = self.rows.get(name, 0) + int(mine.sum())
                if restored[mine].any():
                    self.restore.add(name)


def _cell(arm: str, of: _Arms) -> Cell:
    """The arm in A against itself in B; without any restore, every position counts, as in a grid cell."""
    effect = Effect.STATE if arm in of.restore else Effect.GRID
    return Cell(effect=effect, reference=f"a/{arm}", candidate=f"b/{arm}")


def _paired(a: Run, b: Run, cells: dict[str, Cell], spill: Spill) -> Iterator[tuple[str, pa.Table, pa.Table]]:
    """Of each part of A: its name, PAIRS rows of all cells, and the OBSERVATIONS of both sides."""
    for part in sorted(groups_done(b)):
        spill.add_places(_traces(read_part(b, "observations", part, ("trace",))), part)

    @lru_cache(maxsize=4)
    def of_b(part: str) -> pa.Table:
        return read_part(b, "observations", part)

    for part in sorted(groups_done(a)):
        mine = read_part(a, "observations", part)
        wanted = _traces(mine)
        others = [_only(of_b(other), "trace", wanted) for other in spill.places(wanted)]
        if not others:
            continue
        other = to_arrow("observations", _plain(others))
        found = [
            pair_saved(cell.name, to_frame(_only(mine, "arm", [arm])), to_frame(_only(other, "arm", [arm])))
            for arm, cell in cells.items()
        ]
        pairs = pa.concat_tables([to_arrow("pairs", frame) for frame in found]) if found else PAIRS.empty_table()
        said = pa.concat_tables([_of_side("a", mine), _of_side("b", other)])
        yield part, to_arrow("pairs", _plain([pairs])), said


def _traces(table: pa.Table) -> tuple[str, ...]:
    return names(table["trace"]).of


def _only(table: pa.Table, column: str, wanted: Sequence[str]) -> pa.Table:
    rows = names(table[column])
    keep = np.isin(rows.code, [code for code, name in enumerate(rows.of) if name in set(wanted)])
    return table.take(np.flatnonzero(keep))


def _plain(tables: Sequence[pa.Table]) -> dict[str, pa.ChunkedArray]:
    whole = pa.concat_tables(tables).unify_dictionaries()
    return {name: whole[name] for name in whole.column_names}


def _of_side(side: str, table: pa.Table) -> pa.Table:
    """The columns that a divergence needs, dictionaries as strings, arms named ``a/NAME`` or ``b/NAME``."""
    kept = ("arm", "experiment", "trace", "branch", "turn", "position", "token", "logprob", "top1", "top20")
    columns = {name: table[name].cast(pa.string()) if name in kept[:3] else table[name] for name in kept}
    columns["arm"] = pc.binary_join_element_wise(side, columns["arm"], "/")
    return pa.table(columns)


def _arm(name: str, cell: Cell, a: _Arms, b: _Arms, positions: dict[str, Any], parted: DivergenceSums) -> ArmComparison:
    paired = positions["positions"]
    return ArmComparison(
        arm=name,
        only_a=a.rows[name] - paired,
        only_b=b.rows[name] - paired,
        **positions,
        **parted.numbers(cell.name),
    )

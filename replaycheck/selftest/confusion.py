"""The shipped faults, given to the classifier: ``python -m replaycheck.selftest.confusion [FAULT...]`` prints the matrix.

Faults without a cell (caches, kernels of speculation) are looked at by ``probe state`` and have nothing to classify.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.diagnose.again import Case
from replaycheck.diagnose.confusion import Outcome, Planted, classify, counts, table
from replaycheck.faults.shipped import FAULTS
from replaycheck.faults.workloads import workload
from replaycheck.processes import end_workers
from replaycheck.replay.pool import start_worker
from replaycheck.replay.worker import Work, keep_memory, one_thread
from replaycheck.schema.selftest import Confusion, NamedRow
from replaycheck.state_probes.tiny import write_tiny
from replaycheck.subjects.lab.kernels import KernelChoice

__all__ = ["HELD_OUT", "confusion", "planted"]

HELD_OUT = 7
"""A seed, of letters and model, that the rules weren't written with. They were written with seed 0."""


def planted(model: Path, seed: int = 0, names: Collection[str] = ()) -> Iterator[Planted]:
    """Every fault in each of its cells; of ``names`` if any are given."""
    for name, fault in FAULTS.items():
        for cell in fault.cells if not names or name in names else ():
            reference, warm = cell.arms
            work = Work((reference, warm), (cell.exact,), model, cell.recipe, (name,), KernelChoice())
            case = Case(work, workload(cell.group, seed), reference, warm)
            yield Planted(name, fault.code, case, bool(fault.silent))


def confusion(names: Collection[str] = (), seed: int = 0, workers: int = 1) -> Confusion:
    """What the diagnosis calls each fault, on a small random model, which takes two seconds a fault of one core.

    ``seed`` draws the letters and the model. ``workers``: processes; each takes a fault at a time.
    """
    chosen = [name for name in FAULTS if not names or name in names]
    with TemporaryDirectory(prefix="replaycheck-confusion-") as scratch:
        model = Path(scratch) / "tiny"
        write_tiny(model, seed)
        rows = tuple(_rows(chosen, model, seed, workers))
    total = counts(row.answer for row in rows)
    return Confusion(
        seed=seed,
        rows=rows,
        shown=total.shown,
        right=total.right,
        unknown=total.unknown,
        wrong=total.wrong,
        confidently_wrong=total.confidently_wrong,
    )


def _rows(names: Sequence[str], model: Path, seed: int, workers: int) -> Iterator[NamedRow]:
    """In the order of the names."""
    if workers == 1:
        one_thread()
        for name in names:
            yield from _of_fault(name, model, seed)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=start_worker) as pool:
        try:
            for found in pool.map(_of_fault, names, repeat(model), repeat(seed)):
                yield from found
        except BaseException:
            end_workers()
            raise


def _of_fault(name: str, model: Path, seed: int) -> list[NamedRow]:
    return [_row(outcome) for outcome in classify(planted(model, seed, (name,)))]


def _row(outcome: Outcome) -> NamedRow:
    said = outcome.explanation
    named, confidence = (said.code, str(said.confidence)) if said else ("", "")
    at = outcome.planted
    return NamedRow(fault=at.fault, code=at.code, named=named, confidence=confidence, answer=outcome.answer)


def main(names: Collection[str]) -> None:
    """On a small random model, which takes two seconds a fault."""
    keep_memory()
    one_thread()
    with TemporaryDirectory(prefix="replaycheck-confusion-") as scratch:
        write_tiny(Path(scratch) / "tiny", 0)
        sys.stdout.write(table(classify(planted(Path(scratch) / "tiny", names=names))))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The shipped faults, given to the classifier: ``python -m replaycheck.selftest.confusion [FAULT...]`` prints the matrix.

Faults without a cell (caches, kernels of speculation) are looked at by ``probe state`` and have nothing to classify.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.diagnose.again import Case
from replaycheck.diagnose.confusion import Outcome, Planted, classify, counts, table
from replaycheck.faults.shipped import FAULTS
from replaycheck.faults.workloads import workload
from replaycheck.replay.worker import Work, keep_memory, one_thread
from replaycheck.schema.selftest import Confusion, NamedRow
from replaycheck.state_probes.tiny import write_tiny
from replaycheck.subjects.lab.kernels import KernelChoice

__all__ = ["confusion", "planted"]


def planted(model: Path, seed: int = 0, names: Collection[str] = ()) -> Iterator[Planted]:
    """Every fault in each of its cells; of ``names`` if any are given."""
    for name, fault in FAULTS.items():
        for cell in fault.cells if not names or name in names else ():
            reference, warm = cell.arms
            work = Work((reference, warm), (cell.exact,), model, cell.recipe, (name,), KernelChoice())
            case = Case(work, workload(cell.group, seed), reference, warm)
            yield Planted(name, fault.code, case, bool(fault.silent))


def confusion(names: Collection[str] = ()) -> Confusion:
    """What the diagnosis calls each fault, on a small random model, which takes two seconds a fault of one core."""
    one_thread()
    with TemporaryDirectory(prefix="replaycheck-confusion-") as scratch:
        write_tiny(Path(scratch) / "tiny", 0)
        found = list(classify(planted(Path(scratch) / "tiny", names=names)))
    total = counts(found)
    return Confusion(
        rows=tuple(map(_row, found)),
        shown=total.shown,
        right=total.right,
        unknown=total.unknown,
        wrong=total.wrong,
        confidently_wrong=total.confidently_wrong,
    )


def _row(outcome: Outcome) -> NamedRow:
    said = outcome.explanation
    named, confidence = (said.code, str(said.confidence)) if said else ("", "")
    at = outcome.planted
    return NamedRow(fault=at.fault, code=at.code, named=named, confidence=confidence, answer=outcome.answer)


def main(names: Collection[str]) -> None:
    """On a small random model, which takes two seconds a fault."""
    one_thread()
    keep_memory()
    with TemporaryDirectory(prefix="replaycheck-confusion-") as scratch:
        write_tiny(Path(scratch) / "tiny", 0)
        sys.stdout.write(table(classify(planted(Path(scratch) / "tiny", names=names))))


if __name__ == "__main__":
    main(sys.argv[1:])

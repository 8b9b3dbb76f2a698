"""Free runs of a cell, added up over parts: counts that can be made by hand."""

from __future__ import annotations

import pyarrow as pa

from replaycheck.compare.free_sums import FreeSums
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.tables import PAIRS


def pairs(*rows: tuple[str, str, str, int, bool | None]) -> pa.Table:
    """PAIRS rows: experiment, cell, trace, position, whether the bits are equal (null: not seen)."""
    experiment, cell, trace, position, equal = zip(*rows, strict=True)
    n = len(rows)
    columns = {
        "experiment": experiment, "cell": cell, "trace": trace, "cluster": trace, "position": position,
        "branch": [0] * n, "turn": [0] * n, "role": ["assistant"] * n, "dlogp": [0.0] * n, "kl": [None] * n,
        "flip": [False] * n, "margin": [1.0] * n, "bits_equal": equal, "offset_from_restore": [None] * n,
    }  # fmt: skip
    return to_arrow("pairs", {name: columns[name] for name in PAIRS.names})


def parted(*rows: tuple[str, str, str, int | None, bool]) -> pa.Table:
    """DIVERGENCES rows: experiment, cell, trace, offset, whether the branch ended without a difference."""
    experiment, cell, trace, offset, censored = zip(*rows, strict=True)
    n = len(rows)
    return to_arrow(
        "divergences",
        {
            "cell": cell, "trace": trace, "branch": [0] * n, "turn": [0] * n, "position": [5] * n, "kind": ["argmax"] * n,
            "offset_from_restore": offset, "token_a": [1] * n, "token_b": [2] * n, "margin": [0.5] * n,
            "dlogp": [0.0] * n, "censored": censored, "experiment": experiment,
        },
    )  # fmt: skip


def test_free_positions_and_branches_add_up_over_parts_and_forced_ones_are_passed_over() -> None:
    sums = FreeSums()
    sums.add(
        pairs(("free", "x", "t", 4, True), ("free", "x", "t", 5, False), ("forced", "x", "t", 6, False)),
        parted(("free", "x", "t", 7, False), ("forced", "x", "t", 1, False)),
    )
    sums.add(pairs(("free", "x", "u", 4, None)), parted(("free", "x", "u", None, True)))
    [found] = sums.finish(["x"]).values()
    assert (found.traces, found.positions, found.bits_differ) == (2, 3, 1)
    assert (found.branches, found.diverged, found.first_divergence) == (2, 1, 7)


def test_the_soonest_divergence_of_all_parts_counts() -> None:
    sums = FreeSums()
    for trace, offset in (("t", 9), ("u", 3), ("v", 5)):
        sums.add(pairs(("free", "x", trace, 4, True)), parted(("free", "x", trace, offset, False)))
    assert sums.finish(["x"])["x"].first_divergence == 3


def test_a_cell_that_no_free_run_paired_has_no_result() -> None:
    sums = FreeSums()
    sums.add(pairs(("forced", "x", "t", 4, True), ("free", "y", "t", 4, True)), parted(("free", "y", "t", 1, True)))
    assert list(sums.finish(["x", "y", "z"])) == ["y"]

"""All that is kept of a group: forced and free runs in the same tables, and what an incomplete recording is called."""

from __future__ import annotations

import pytest

from replaycheck.compare.group import compare_group
from replaycheck.errors import InternalError
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.frames import to_arrow, to_frame
from tests import synthetic_run as syn

ARMS, CELLS = syn.arms_and_cells(PoolDtype.BF16)
FOUND = syn.recordings(ARMS)


def test_an_arm_without_a_recording_is_our_error() -> None:
    name = ARMS[0].name
    rest = {arm: recording for arm, recording in FOUND.items() if arm != name}
    with pytest.raises(InternalError, match=f"group 'g': no recording of the arm '{name}'"):
        compare_group("g", ARMS, CELLS, rest)


def test_a_cell_is_compared_freely_if_both_of_its_arms_ran_freely() -> None:
    exact = syn.effect(CELLS, Effect.EXACT)
    free = {name: FOUND[name] for name in (exact.reference, exact.candidate)}
    tables = compare_group("g", ARMS, CELLS, FOUND, free).tables
    observed = to_frame(tables["observations"]).query("experiment == 'free'")
    assert set(observed["arm"]) == set(free)
    paired = to_frame(tables["pairs"])
    assert set(paired.query("experiment == 'forced'")["cell"]) == {cell.name for cell in CELLS}
    # No history was recorded, so of a free run no position is known to be shared.
    assert paired.query("experiment == 'free'").empty


def test_tables_of_both_experiments_are_in_key_order() -> None:
    tables = compare_group("g", ARMS, CELLS, FOUND, FOUND).tables
    observed = to_frame(tables["observations"])
    assert set(observed["experiment"]) == {"forced", "free"}
    assert len(observed) == 2 * len(to_frame(compare_group("g", ARMS, CELLS, FOUND).tables["observations"]))
    assert tables["observations"].equals(to_arrow("observations", tables["observations"].to_pandas()[::-1]))

"""Where a difference begins to be more than other cuts make: a planted onset is found at its token, noise has none."""

from __future__ import annotations

import numpy as np
import pytest

from replaycheck.report.aligned import aligned, aligned_chart
from replaycheck.report.begins import Key, Path, begins, begins_said
from replaycheck.schema.arm import Effect, PoolDtype

from .test_figures import GRID, TOTAL, cell, pairs, result

RESTORE, LENGTH = 40, 300


def noise(seed: int, n: int = 12) -> dict[Key, Path]:
    """|Δ log p| with the heavy tail of real runs; 0 before the restore, where both arms run the same code."""
    rng = np.random.default_rng(seed)
    position = np.arange(LENGTH)
    sizes = [np.where(position < RESTORE, 0.0, rng.lognormal(-7, 1.5, LENGTH)) for _ in range(n)]
    return {(f"t{at:02}", 0): (position, size, np.array([RESTORE])) for at, size in enumerate(sizes)}


def planted(paths: dict[Key, Path], at: int, which: int = 6, size: float = 0.05) -> dict[Key, Path]:
    """A shift of ``size`` nat from token ``at`` on in the first ``which`` paths."""
    return {
        key: (position, values + np.where(number < which, size, 0.0) * (position >= at), restores)
        for number, (key, (position, values, restores)) in enumerate(paths.items())
    }


@pytest.mark.parametrize("at", [RESTORE, RESTORE + 15, 192])
def test_a_planted_onset_is_found_at_its_token(at: int) -> None:
    found = begins(planted(noise(1), at), noise(2))
    assert found is not None and found.where is not None
    assert found.risen >= 6
    assert found.where[1].position == pytest.approx(at, abs=3)
    assert found.where[1].distance == found.where[1].position - RESTORE
    assert found.near == pytest.approx(at - RESTORE, abs=3)


@pytest.mark.parametrize("seed", range(10, 20))
def test_clean_paths_have_none(seed: int) -> None:
    found = begins(noise(seed), noise(seed + 100))
    assert found is not None and found.where is None
    assert begins_said(found).startswith("nowhere in 12 paths")


def test_what_equals_other_cuts_has_none() -> None:
    """Warm with an fp32 pool is cold against split again."""
    same = noise(3)
    assert begins(same, same) is not None
    assert begins_said(begins(same, same)) == "nowhere in 12 paths"  # type: ignore[arg-type]


def test_a_single_path_of_many_may_be_noise() -> None:
    """An eighth of clean paths rises at most, so one of twelve proves nothing."""
    found = begins(planted(noise(4), RESTORE, which=1), noise(5))
    assert found is not None and (found.risen, found.where) == (1, None)
    assert begins_said(found) == "nowhere in 12 paths, 1 of which rise, as noise makes them"


def test_where_other_cuts_change_nothing_the_first_difference_is_the_onset() -> None:
    silent = {key: (at, 0 * size, restores) for key, (at, size, restores) in noise(6, 3).items()}
    found = begins(planted(silent, 100, which=1, size=1e-9), silent)
    assert found is not None and found.where is not None
    assert (found.risen, found.where[0], found.where[1].position, found.near) == (1, ("t00", 0), 100, 60)


def test_a_control_that_moves_at_few_positions_cant_tell() -> None:
    rare = {key: (at, size * (at % 3 == 0), restores) for key, (at, size, restores) in noise(7).items()}
    assert begins(noise(8), rare) is None
    assert begins(noise(8), {}) is None


def test_positions_without_a_finite_size_are_left_out() -> None:
    broken = {
        key: (at, np.where(at % 7 == 0, np.nan, size), restores) for key, (at, size, restores) in noise(9).items()
    }
    found = begins(planted(broken, 100), noise(2))
    assert found is not None and found.where is not None
    assert found.where[1].position == pytest.approx(100, abs=4)


@pytest.mark.parametrize("fault", [True, False], ids=["planted", "clean"])
def test_the_chart_of_restores_says_where_it_begins(fault: bool) -> None:
    of = result(cell(TOTAL, Effect.TOTAL), cell(GRID, Effect.GRID))
    total = planted(noise(1), RESTORE + 10) if fault else noise(1)
    rows = [pairs(TOTAL, size.tolist(), trace, restore=RESTORE) for (trace, _), (_, size, _) in total.items()]
    rows += [pairs(GRID, size.tolist(), trace) for (trace, _), (_, size, _) in noise(2).items()]
    see = aligned_chart(aligned(of, rows)).see
    if fault:
        assert "Rises above other cuts (cumulative sum): fp32 in 6 of 12 paths, half of them within 1" in see
        assert "after the restore at 40" in see
    else:
        assert "Rises above other cuts (cumulative sum): fp32 nowhere in 12 paths" in see


@pytest.mark.parametrize("pool", ["fp32", "bf16"])
def test_a_reduced_pool_may_rise_by_its_rounding(pool: str) -> None:
    of = result(cell(TOTAL, Effect.TOTAL), cell(GRID, Effect.GRID))
    arms = tuple(arm.model_copy(update={"pool": PoolDtype(pool)}) if arm.name == "warm" else arm for arm in of.arms)
    rows = [pairs(TOTAL, s.tolist(), key[0], restore=RESTORE) for key, (_, s, _) in planted(noise(1), RESTORE).items()]
    rows += [pairs(GRID, size.tolist(), trace) for (trace, _), (_, size, _) in noise(2).items()]
    see = aligned_chart(aligned(of.model_copy(update={"arms": arms}), rows)).see
    assert f"(cumulative sum): {pool} in 6 of 12 paths" in see
    assert ("its rounding alone" in see) == (pool == "bf16")


def test_without_a_control_nothing_is_said_of_where_it_begins() -> None:
    (curve,) = aligned(result(cell(TOTAL, Effect.TOTAL)), [pairs(TOTAL, [0.1] * LENGTH, restore=RESTORE)])
    assert curve.begins is None
    assert "Rises above" not in aligned_chart([curve]).see

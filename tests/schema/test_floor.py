"""Which measured floor a cell is held against."""

from __future__ import annotations

from typing import Any

import pytest

from replaycheck.schema.arm import Answers, Kernel, PoolDtype
from replaycheck.schema.estimate import Estimate
from replaycheck.schema.floor import Control, FloorKind, Floors, Measure

NONE = Estimate(value=None, n=0, method="none")
CHUNK = Kernel.CHUNK, Kernel.CHUNK
RECURRENT = Kernel.RECURRENT, Kernel.RECURRENT


def measure(control: Control, spread: float, **changes: Any) -> Measure:
    """A control with noise of this spread, or with equal bits where it is 0."""
    given: dict[str, Any] = {
        "control": control, "reference": "a", "candidate": "b", "history": CHUNK[0], "tail": CHUNK[1],
        "answers": Answers.DECODED, "pool": PoolDtype.BF16, "policy": "turn", "traces": 1, "positions": 10,
        "bits_differ": 10 if spread else 0, "bits_differ_bound": 1.0, "spread": NONE.model_copy(update={"value": spread}),
        "spread_max": spread, "mean_abs_dlogp": NONE, "worst_trace_abs_dlogp": NONE, "window_abs_dlogp": NONE,
        "abs_dlogp": {}, "flips": 0, "flip_margin_max": None, "flip_traces": NONE,
    }  # fmt: skip
    return Measure(**given | changes)


def kernels(pair: tuple[Kernel, Kernel]) -> dict[str, Kernel]:
    return dict(zip(("history", "tail"), pair, strict=True))


def num(*measures: Measure, pair: tuple[Kernel, Kernel] = CHUNK, policy: str = "turn") -> float | None:
    found = Floors(origin="own", measures=measures).num_for(*pair, Answers.DECODED, policy)
    return found.spread.value if found else None


def test_the_same_policys_cuts_come_first_then_the_same_kernels_then_any() -> None:
    cuts = measure(Control.SPLIT, 1.0)
    other_cuts = measure(Control.SPLIT, 2.0, policy="grid64")
    batch = measure(Control.BATCH, 3.0)
    elsewhere = measure(Control.BATCH, 9.0, **kernels(RECURRENT))
    every = (elsewhere, batch, other_cuts, cuts)
    assert num(*every) == 1.0
    assert num(*every, policy="grid64") == 2.0
    assert num(*every, policy="prompt") == 3.0  # the largest of the same kernels
    assert num(*every, pair=(Kernel.CHUNK, Kernel.RECURRENT)) == 9.0


def test_a_floor_of_equal_bits_is_the_last_choice() -> None:
    """Cuts on the chunk grid change no bit in fp32, and a floor of 0 would forbid every other noise, too."""
    quiet = measure(Control.SPLIT, 0.0)
    assert num(quiet, measure(Control.BATCH, 3.0)) == 3.0
    assert num(quiet, measure(Control.BATCH, 9.0, **kernels(RECURRENT))) == 9.0
    assert num(quiet) == 0.0


def test_other_floors_and_controls_that_saw_nothing_are_no_num_floor() -> None:
    assert (
        num(measure(Control.REPEAT, 5.0), measure(Control.ROUNDED, 6.0), measure(Control.BATCH, 7.0, positions=0))
        is None
    )


def test_the_rounding_floor_is_of_one_pool_and_kernels_and_prefers_the_same_policy() -> None:
    floors = Floors(
        origin="own",
        measures=(
            measure(Control.ROUNDED, 1.0),
            measure(Control.ROUNDED, 2.0, policy="grid64"),
            measure(Control.ROUNDED, 3.0, pool=PoolDtype.FP16),
            measure(Control.ROUNDED, 4.0, **kernels(RECURRENT)),
        ),
    )

    def found(pair: tuple[Kernel, Kernel], policy: str, pool: PoolDtype) -> float | None:
        measured = floors.rnd_for(*pair, Answers.DECODED, policy, pool)
        return measured.spread.value if measured else None

    assert found(CHUNK, "turn", PoolDtype.BF16) == 1.0
    assert found(CHUNK, "prompt", PoolDtype.BF16) == 2.0
    assert found(CHUNK, "turn", PoolDtype.FP16) == 3.0
    assert found(RECURRENT, "turn", PoolDtype.BF16) == 4.0
    assert found(RECURRENT, "turn", PoolDtype.FP16) is None


@pytest.mark.parametrize(
    ("repeats", "deterministic"),
    [
        ([measure(Control.REPEAT, 0.0)], True),
        ([measure(Control.REPEAT, 0.0), measure(Control.REPEAT, 1.0)], False),
        ([measure(Control.REPEAT, 0.0, not_finite=10)], None),
        ([measure(Control.REPEAT, 0.0, not_finite=9)], True),
        ([measure(Control.BATCH, 1.0)], None),
    ],
    ids=["equal bits", "one that differs", "no number at all", "one number", "not measured"],
)
def test_a_subject_is_deterministic_if_every_repeat_with_numbers_has_equal_bits(
    repeats: list[Measure], deterministic: bool | None
) -> None:
    assert Floors(origin="own", measures=tuple(repeats)).deterministic is deterministic


def test_each_control_measures_one_floor() -> None:
    kinds = {control: control.kind for control in Control}
    assert {control for control, kind in kinds.items() if kind is FloorKind.RUN} == {Control.REPEAT}
    assert {control for control, kind in kinds.items() if kind is FloorKind.RND} == {Control.ROUNDED}

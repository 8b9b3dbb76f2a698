"""What is called exact, noise, a fault, refused and crashed; and that a planted fault is seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.cache_utils import LinearAttentionLayer

from replaycheck.architectures.bench import Bench, Compared
from replaycheck.architectures.judge import Judge
from replaycheck.architectures.operations import OPERATIONS, Operation
from replaycheck.architectures.refusal import RefusedError
from replaycheck.architectures.scripts import script

BY_NAME = {operation.name: operation for operation in OPERATIONS}


def operation(run: Callable[[Bench], Iterator[Compared]]) -> Operation:
    return Operation("made up", "group", run, "")


def off_by(in_fp32: float, in_double: float, at: int = 2) -> Operation:
    """An operation whose answer at one position is off by so much in each arithmetic."""

    def run(bench: Bench) -> Iterator[Compared]:
        expected = torch.zeros(5, 3, dtype=torch.float64)
        got = expected.clone()
        got[at, 1] = in_double if bench.model.oracle else in_fp32
        yield Compared("here", 10, got, expected)

    return operation(run)


@pytest.mark.parametrize(
    ("in_fp32", "in_double", "verdict"),
    [(0.0, 0.0, "exact"), (1.9, 1.9, "noise"), (50.0, 1e-12, "noise"), (50.0, 50.0, "fault"), (50.0, 1.0, "fault")],
    ids=["same bits", "within two floors", "shrinks in float64", "stays in float64", "smaller and no rounding"],
)
def test_a_fault_is_beyond_the_floor_and_does_not_shrink(
    attention: Judge, in_fp32: float, in_double: float, verdict: str
) -> None:
    floor = attention.floor
    cell = attention.cell(off_by(in_fp32 * floor, in_double * floor))
    assert cell.verdict == verdict
    if verdict == "fault":
        assert (cell.first_wrong, cell.wrong, cell.compared, cell.where) == (12, 1, 5, "here")


@pytest.mark.parametrize(
    ("values", "stays_when_unstable", "cause"),
    [
        ([3.0, 2.0, 1.0], False, "rounding"),
        ([3.0, 2.0, 2.0 - 1e-6], False, "top-k flip"),
        ([3.0, 2.0, 1.0], True, "top-k tie"),
    ],
    ids=["no choice is close", "a choice hangs on a rounding error", "another order of ties moves it"],
)
def test_what_amplified_rounding_is_named(
    attention: Judge, values: list[float], stays_when_unstable: bool, cause: str
) -> None:
    def run(bench: Bench) -> Iterator[Compared]:
        torch.tensor(values).topk(2)
        moved = not bench.model.oracle or (stays_when_unstable and not bench.model.stable)
        yield Compared("here", 0, torch.full((1, 1), 0.5 * moved).double(), torch.zeros(1, 1).double())

    cell = attention.cell(operation(run))
    assert (cell.verdict, cell.cause) == ("noise", cause)


def test_not_a_number_is_a_fault_without_a_size(attention: Judge) -> None:
    cell = attention.cell(off_by(float("nan"), float("nan")))
    assert (cell.verdict, cell.size, cell.first_wrong) == ("fault", None, 12)


def test_the_float64_bound_lies_between_both_roundings(attention: Judge) -> None:
    assert attention.floor * 2.0**-29 < attention.bound / 100 and attention.bound < attention.floor / 100


def test_a_refusal_is_not_a_crash(attention: Judge) -> None:
    def refused(bench: Bench) -> Iterator[Compared]:
        raise RefusedError("there is none")
        yield

    def crashed(bench: Bench) -> Iterator[Compared]:
        torch.zeros(2) + torch.zeros(3)
        yield from ()

    assert attention.cell(operation(refused)).verdict == "refused"
    assert attention.cell(operation(crashed)).verdict == "crashed"


def test_a_fault_before_a_crash_is_a_fault(attention: Judge) -> None:
    def run(bench: Bench) -> Iterator[Compared]:
        yield Compared("first", 0, torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
        raise IndexError("later")

    cell = attention.cell(operation(run))
    assert cell.verdict == "fault" and "IndexError" in cell.sentence


@pytest.mark.parametrize("name", ["token-by-token", "crop", "select", "left-later", "new-ids", "prefill-pieces"])
def test_attention_alone_is_clean(attention: Judge, name: str) -> None:
    assert attention.cell(BY_NAME[name]).verdict in ("exact", "noise")


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("left", {"exact", "noise"}),
        ("right", {"exact", "noise"}),
        ("rollback", {"exact", "noise"}),
        ("reorder", {"exact", "noise"}),
        ("crop", {"refused"}),
    ],
)
def test_short_convolutions(convolution: Judge, name: str, verdicts: set[str]) -> None:
    assert convolution.cell(BY_NAME[name]).verdict in verdicts


def test_a_window_that_is_lost_on_the_second_call_is_seen(convolution: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of a cache that zeroes its conv state whenever it continues with several tokens."""
    right = LinearAttentionLayer.update_conv_state

    def loses(layer: Any, conv_states: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        if layer.has_previous_state[0]:
            layer.conv_states[0].zero_()
        found: torch.Tensor = right(layer, conv_states, *rest, **named)
        return found

    assert convolution.cell(BY_NAME["pieces"]).verdict == "noise"
    monkeypatch.setattr(LinearAttentionLayer, "update_conv_state", loses)
    cell = convolution.cell(BY_NAME["pieces"])
    assert cell.verdict == "fault" and cell.size is not None and cell.size > 0.01
    # The first plan cuts behind the first token, so the second token is the first whose window is lost.
    assert (cell.where, cell.first_wrong) == ("cut into 1, 132", 1)


def test_padding_between_turns_is_a_fault_and_its_program_shows_it(convolution: Judge, tmp_path: Path) -> None:
    cell = convolution.cell(BY_NAME["left-later"])
    assert cell.verdict == "fault" and cell.size is not None
    program = script(convolution.model, convolution.floor, convolution.seed, cell)
    assert program.count("\n") < 40
    path = tmp_path / "shows.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("turn 2")]
    assert lines[0].endswith("0 of 50 positions wrong, from []") and lines[1].endswith(
        "49 of 49 positions wrong, from [40]"
    )
    assert any(f"{cell.size:.2g} nat" in line for line in done.stdout.splitlines())

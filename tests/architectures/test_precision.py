"""float64 throughout, and what top-k chooses."""

from __future__ import annotations

import math

import torch

from replaycheck.architectures.precision import Double, running_in_double
from replaycheck.architectures.top_k import replaying, smallest_gap


def test_what_asks_for_less_gets_float64() -> None:
    with running_in_double():
        wide = torch.tensor([1 / 3], dtype=torch.float32)
        made = [
            wide,
            wide.float(),
            wide.to(torch.bfloat16),
            wide.to(dtype=torch.float16),
            torch.softmax(wide, -1, dtype=torch.float32),
            torch.zeros(2),
        ]
    assert {each.dtype for each in made} == {torch.float64}
    assert torch.get_default_dtype() is torch.float32


def test_ties_are_broken_by_index_and_choices_are_kept() -> None:
    tied = torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0])
    with Double() as mode:
        assert tied.topk(2).indices.tolist() == [1, 2]
        assert torch.topk(tied, 1, largest=False).indices.tolist() == [4]
    assert [each.tolist() for each in mode.chosen] == [[1, 2], [4]]


def test_choices_can_be_replayed_on_other_values() -> None:
    with replaying([torch.tensor([2, 0])]):
        found = torch.tensor([1.0, 5.0, 3.0]).topk(2)
    assert found.indices.tolist() == [2, 0] and found.values.tolist() == [3.0, 1.0]


def test_the_smallest_gap_is_relative_to_the_last_chosen_value() -> None:
    values = torch.tensor([4.0, 2.0, 1.5, 1.0])
    assert smallest_gap(lambda: values.topk(2)) == 0.25
    assert smallest_gap(lambda: values.topk(4)) == math.inf  # nothing is left out

"""What a token costs at growing context: one run a figure, one thread, ratios of one turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from replaycheck.bench import context
from replaycheck.bench.context import Cost, context_cost, cost_of
from replaycheck.replay.settings import resolve
from replaycheck.replay.stage import work_of
from replaycheck.replay.worker import Work


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths that were measured; costs grow from turn to turn, and a prompt's token costs three times as much at 20."""
    asked: list[int] = []

    def cost(work: Work, length: int) -> Cost:
        asked.append(length)
        turn = len(asked) // 2
        return Cost({10: 1.0, 20: 3.0}[length] * turn, 2.0 + turn)

    monkeypatch.setattr(context, "cost_of", cost)
    return asked


def test_lengths_take_turns_and_ratios_are_of_one_turn(costs: list[int]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        figures, targets = context_cost(resolve(admitted=False)[0], (10, 20), 3)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert costs == [10, 10, 20, 10, 20, 10, 20]  # the first one compiles
    assert [figure.subject for figure in figures] == ["lab, context 10"] * 2 + ["lab, context 20"] * 2
    assert {figure.unit for figure in figures} == {"ms CPU a token"} and {figure.runs for figure in figures} == {3}
    prefill, decode = targets
    assert prefill.found == pytest.approx(3.0) and not prefill.met
    assert decode.found == pytest.approx(1.0) and decode.met


def test_prefill_and_decode_are_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One prompt and four steps: a step of one row takes whole tiles, so it costs more than a prompt's token."""
    monkeypatch.setattr(context, "DECODED", 4)
    settings, _ = resolve(admitted=False)
    arm = next(each for each in settings.arms if each.compiler == "cold")
    found = cost_of(replace(work_of(settings), arms=(arm,), cells=()), 128)
    assert 0 < found.prefill < found.decode

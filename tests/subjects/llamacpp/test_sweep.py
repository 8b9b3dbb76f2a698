"""The sweep over the server's options on the real server: a clean axis is clean, and a fault is named with its text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.errors import EngineEnvironmentError
from replaycheck.schema.server_options import OptionCell
from replaycheck.subjects.server.llamacpp.sweep import run as sweep_run
from replaycheck.subjects.server.llamacpp.sweep.axes import AXES
from replaycheck.subjects.server.llamacpp.sweep.judge import FACTOR, Verdict
from replaycheck.subjects.server.llamacpp.sweep.moves import Move, behind_shift, moves
from replaycheck.subjects.server.llamacpp.sweep.reference import Reference
from replaycheck.subjects.server.llamacpp.sweep.run import sweep

MOVES = ("first turn", "next turn", "the whole conversation again", "an early turn dropped", "same prompt again")
"""Enough for a hit in place, one behind a checkpoint, and a text that was cut."""

REUSE = next(axis for axis in AXES if axis.name == "cache-reuse=8")
BASE = AXES[0]


def few(seed: int = 0) -> tuple[Move, ...]:
    found: list[Move] = []
    for move in moves(seed):
        if move.name in MOVES and (found[-1:] or [None])[0] != move:
            found.append(move)
    return tuple(found)


@pytest.fixture(autouse=True)
def _few_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_run, "moves", few)
    monkeypatch.setattr(sweep_run, "behind_shift", lambda seed=0: ())


def test_recurrent_models_answer_another_text_with_cache_reuse_and_attention_does_not() -> None:
    found = {(each.architecture, each.axis): each for each in sweep(("mamba2", "llama"), (BASE, REUSE))}
    for name in ("mamba2", "llama"):
        clean = found[name, BASE.name]
        assert clean.verdict in (Verdict.EXACT, Verdict.NOISE), clean
        assert sum(move.hit > 0 for move in clean.moves) >= 5 and clean.repeat == 0
    fault = next(move for move in found["mamba2", REUSE.name].moves if move.verdict is Verdict.FAULT)
    assert fault.move == "an early turn dropped" and fault.difference > 0.1
    assert fault.wrong_text == f"the first {fault.hit} tokens of the text before, then this prompt"
    # Moved keys and values are a documented approximation, however large.
    assert found["llama", REUSE.name].verdict is Verdict.APPROXIMATE


def test_a_server_that_dies_is_an_outcome_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*args: Any) -> Any:
        raise EngineEnvironmentError("POST /completion: the connection broke")

    nothing = Reference({}, 0.0, 0.0)
    monkeypatch.setattr(sweep_run, "measure", lambda *args: nothing)
    monkeypatch.setattr(sweep_run, "warm", dies)
    (outcome,) = sweep(("mamba",), (BASE,))
    assert outcome.verdict is Verdict.CRASHED and "the connection broke" in outcome.why


def test_every_prompt_that_was_cut_says_from_what() -> None:
    dropped = [move for move in (*moves(), *behind_shift()) if move.unedited is not None]
    assert len(dropped) == 4
    assert all(len(move.prompt) < len(move.unedited or ()) for move in dropped)
    assert len({move.name for move in moves()}) > 15


def test_the_command_writes_a_table_that_fits_its_schema(
    replaycheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = ("run", "--subject", "llamacpp", "--server-options", REUSE.name, "--architecture", "mamba2")
    found = replaycheck(*asked, "--out", tmp_path / "run")
    assert found.code == 1 and "fault: mamba2, cache-reuse=8" in found.out
    assert "right answer to another text" in found.out.replace("\n    ", " ")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (cell,) = (OptionCell.model_validate(each) for each in result["cells"])
    assert (
        cell.hits and cell.largest and cell.largest.difference and cell.largest.difference > FACTOR * (cell.noise or 0)
    )
    assert replaycheck("run", "--server-options", "sweep").code == 2
    assert replaycheck(*asked, "--server-options", "cache").code == 2

"""Finding a subject, checking it, and what an author who forgot something is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.subject import ToySubject
from replaycheck.compare.record import ArmRecording
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.replay.own_arms import arms_of, possible_for
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler, Effect, PoolDtype
from replaycheck.schema.policy import ServerPolicy, VllmPolicy
from replaycheck.schema.suite import Suite, expand
from replaycheck.subjects.check import check_subject
from replaycheck.subjects.choose import make_subject
from replaycheck.subjects.null import NullSubject
from replaycheck.subjects.protocol import Description, SubjectOptions

Run = Callable[..., Any]
Change = Callable[[ArmRecording], ArmRecording]


def missing(subject: object) -> dict[str, str]:
    return {line.what: line.said for line in check_subject(subject) if not line.good}  # type: ignore[arg-type]


class Changed(ToySubject):
    """The example, with each recording changed."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        return [self.change(recording) for recording in super().replay(schedules)]


def of_turns(**changes: Callable[[Any], Any]) -> Change:
    def change(recording: ArmRecording) -> ArmRecording:
        turns = (
            replace(turn, **{name: make(getattr(turn, name)) for name, make in changes.items()})
            for turn in recording.turns
        )
        return replace(recording, turns=tuple(turns))

    return change


def test_the_example_misses_nothing_and_is_short() -> None:
    assert not missing(ToySubject())
    assert len(Path("examples/subject.py").read_text().splitlines()) < 70


def test_the_example_is_run_and_passes(replaycheck: Run, tmp_path: Path) -> None:
    suite = Path("traces/quick.jsonl").read_text().splitlines()[:4]
    (tmp_path / "some.jsonl").write_text("\n".join(suite) + "\n")
    words = ("--subject", "examples.subject:factory", "--traces", tmp_path / "some.jsonl", "--out", tmp_path / "run")
    assert replaycheck("run", *words).code == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {gate["file"] for gate in result["gates"]} == {"server"}
    assert any("no split arm" in line for line in result["not_checked"])


@pytest.mark.parametrize(
    ("change", "what", "words"),
    [
        (lambda recording: replace(recording, arm="warm"), "arm", "another arm"),
        (lambda recording: replace(recording, turns=recording.turns[1:]), "turns", "asked were"),
        (lambda recording: replace(recording, proven_hits=0), "hits", "vacuous"),
        (lambda recording: replace(recording, proven_hits=2), "cold", "2 hits where none may be"),
        (of_turns(positions=lambda positions: positions + 1), "turns", "positions must run from"),
        (of_turns(tokens=lambda tokens: tokens + 1), "turns", "aren't those of the trace"),
        (of_turns(logits=lambda logits: logits.astype(np.float64)), "turns", "must be float32"),
        (of_turns(logits=lambda logits: logits[:, :9]), "turns", "must be float32"),
        (of_turns(logits=lambda logits: logits * np.nan), "turns", "aren't finite"),
    ],
)
def test_what_is_wrong_is_named(change: Change, what: str, words: str) -> None:
    assert words in missing(Changed(change))[what]


def test_a_subject_that_is_not_as_deterministic_as_it_says() -> None:
    draws = np.random.default_rng(0)
    noisy = Changed(of_turns(logits=lambda logits: logits + draws.normal(size=logits.shape).astype(np.float32)))
    assert "though it says it is deterministic" in missing(noisy)["the same twice"]


def test_a_subject_that_raises_or_describes_nothing() -> None:
    def fail(recording: ArmRecording) -> ArmRecording:
        raise NotImplementedError("later")

    assert "NotImplementedError: later" in missing(Changed(fail))["replay()"]

    class Silent(ToySubject):
        def describe(self) -> Description:
            return None  # type: ignore[return-value]

    assert "not a Description" in missing(Silent())["describe()"]


def test_the_command_says_it_in_json(replaycheck: Run) -> None:
    outcome = replaycheck("subject", "check", "null", "--json")
    assert outcome.code == 0
    assert all(line["good"] for line in json.loads(outcome.out)["checks"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody", "unknown subject 'nobody'; choose 'lab', 'null'"),
        ("no.such.module:factory", "there is no module 'no'"),
        ("replaycheck.subjects.null:nothing", "can't be made"),
        ("replaycheck.subjects.null:VOCABULARY", "give a function"),
        ("replaycheck.replay.worker:one_thread", "makes a NoneType, which has no describe"),
    ],
)
def test_names_that_lead_nowhere(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_subject(name)


def test_options_are_refused_by_a_factory_without_any() -> None:
    with pytest.raises(UsageError, match="takes no options"):
        make_subject("null", SubjectOptions(url="http://h"))


def test_servers_need_a_url_and_known_options(replaycheck: Run) -> None:
    assert "needs --url" in replaycheck("run", "--subject", "vllm").err
    words = ("run", "--subject", "vllm", "--url", "http://127.0.0.1:1", "--subject-option", "blok=1")
    assert "--subject-option blok: unknown (did you mean 'block'?); choose 'batch'" in replaycheck(*words).err
    assert replaycheck("run", "--url", "http://h").code == 2
    assert replaycheck("run", "--subject", "vllm", "--url", "http://h", "--subject-option", "block").code == 2


def test_a_server_that_is_not_there_is_an_environment_error() -> None:
    with pytest.raises(EngineEnvironmentError, match="can't connect"):
        make_subject("vllm", SubjectOptions(url="http://127.0.0.1:1", settings=(("timeout", "1"),)))


SUITE = Suite.model_validate(
    {
        "schema": "replaycheck.suite/1",
        "name": "x",
        "traces": ["x.jsonl"],
        "matrix": [
            {"history": ["chunk"], "tail": ["chunk"], "answers": ["decoded"], "pool": ["bf16"],
             "policy": {"every": 64, "turn_end": True}}
        ],
    }
)  # fmt: skip


def test_cells_that_a_subject_can_not_do_are_listed_or_refused() -> None:
    found = possible_for(ToySubject().describe(), *expand(SUITE), named=False)
    assert {cell.effect for cell in found.cells} == {Effect.TOTAL}
    assert len(found.not_checked) == 3
    with pytest.raises(UsageError, match="take such cells out"):
        possible_for(ToySubject().describe(), *expand(SUITE), named=True)
    assert not possible_for(NullSubject().describe(), *expand(SUITE), named=True).not_checked


@pytest.mark.parametrize(
    ("changes", "effects", "arms"),
    [
        ({}, {Effect.TOTAL}, 2),
        ({"pinned": True}, {Effect.STATE}, 2),
        ({"wholes": True}, {Effect.TOTAL}, 3),
        ({"batches": True}, {Effect.TOTAL, Effect.TOGETHER}, 4),
        (
            {"compilers": frozenset({Compiler.COLD, Compiler.WARM, Compiler.SPLIT}), "budget": 64},
            {Effect.TOTAL, Effect.STATE, Effect.GRID},
            4,
        ),
    ],
)
def test_a_cache_that_decides_its_hits_has_arms_of_its_own(
    changes: dict[str, Any], effects: set[Effect], arms: int
) -> None:
    found = arms_of(replace(ToySubject().describe(), **changes), VllmPolicy(cache="vllm-align", block=64))
    assert {cell.effect for cell in found.cells} == effects
    assert len({arm.name for arm in found.arms}) == arms
    assert bool(found.not_checked) is (Effect.STATE not in effects)


@pytest.mark.parametrize(
    ("seen", "asked", "named"),
    [(None, None, "fp32"), (None, PoolDtype.BF16, "bf16"), (PoolDtype.FP32, PoolDtype.BF16, "fp32")],
)
def test_arms_are_called_by_the_state_dtype_in_use_or_else_the_one_asked_for(
    seen: PoolDtype | None, asked: PoolDtype | None, named: str
) -> None:
    found = arms_of(replace(ToySubject().describe(), pool=seen, asked=asked), ServerPolicy(cache="server"))
    assert [arm.name.rpartition("/")[2] for arm in found.arms] == [named, named]


def test_an_unknown_cache_has_a_name_of_its_own() -> None:
    found = arms_of(ToySubject().describe(), ServerPolicy(cache="server"))
    assert found.arms[0].name == "cold/chunk-chunk/prefilled/server/fp32"

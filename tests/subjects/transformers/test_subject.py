"""A local model as a subject: its arms, its hits, what it refuses; and the shipped model agrees with the lab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from replaycheck.assets import model_dir
from replaycheck.compare.record import ArmRecording
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schedule.compile import compile_arms
from replaycheck.schema.arm import Answers, Arm, Compiler, Kernel, PoolDtype
from replaycheck.schema.policy import CheckpointPolicy
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import chain
from replaycheck.subjects.choose import make_subject
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.transformers import load
from replaycheck.subjects.transformers.subject import POLICY, TransformersSubject
from replaycheck.traces.vocabulary import SIZE
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours
from tests.tensors import one_thread as one_thread

transformers = pytest.importorskip("transformers", minversion="5.23")


def arm(compiler: Compiler, **more: Any) -> Arm:
    given: dict[str, Any] = {"history": Kernel.CHUNK, "tail": Kernel.CHUNK, "answers": Answers.PREFILLED}
    given |= {"pool": PoolDtype.FP32, "policy": POLICY, "recipe": "engine"}
    return Arm(compiler=compiler, **given | more)


THREE = [arm(each) for each in (Compiler.COLD, Compiler.SPLIT, Compiler.WARM)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random kimi_linear with the traces' vocabulary, K ≠ V in its attention."""
    from replaycheck.architectures.tiny import sizes

    load.import_transformers("this test")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model("kimi_linear", **sizes("kimi_linear") | {"vocab_size": SIZE})
    where = tmp_path_factory.mktemp("tiny")
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(where)
    return where


def subject(folder: Path, **settings: str) -> TransformersSubject:
    made = make_subject("transformers", SubjectOptions(model=folder, settings=tuple(settings.items())))
    assert isinstance(made, TransformersSubject)
    return made


@pytest.fixture(scope="module")
def tiny(folder: Path) -> TransformersSubject:
    return subject(folder)


@pytest.fixture(scope="module")
def played(tiny: TransformersSubject) -> list[ArmRecording]:
    """Cold, split and warm of a conversation of three turns."""
    return play(tiny, chain(70, 6, 9, 5, 12, 4), THREE)


def play(tiny: TransformersSubject, group: Group, arms: Sequence[Arm]) -> list[ArmRecording]:
    return tiny.replay(compile_arms(group, arms))


def difference(a: ArmRecording, b: ArmRecording) -> float:
    return max(float(np.abs(x.logits - y.logits).max()) for x, y in zip(a.turns, b.turns, strict=True))


def test_warm_is_split_bit_for_bit_and_cold_is_another_rounding(played: list[ArmRecording]) -> None:
    cold, split, warm = played
    assert difference(split, warm) == 0
    assert 0 < difference(cold, warm) < 1e-3  # fp32 of a tiny model; it forgets nothing that it should know
    assert all(np.array_equal(a.temporal, b.temporal) for a, b in zip(split.restores, warm.restores, strict=True))


def test_hits_are_counted_by_what_was_restored(played: list[ArmRecording]) -> None:
    cold, split, warm = played
    assert (warm.proven_hits, warm.expected_hits, cold.proven_hits, split.proven_hits) == (2, 2, 0, 0)
    assert warm.content_mismatches == 0 and warm.label_mismatches == 0
    assert [len(turn.logits) for turn in warm.turns] == [len(turn.tokens) for turn in warm.turns]
    assert {state.temporal.shape[1:] for state in warm.restores} == {(4, 16, 16)}
    # Cold computes every prompt from its first token.
    assert cold.computed_tokens > 2 * warm.computed_tokens


def test_a_cache_that_is_not_copied_is_seen(tiny: TransformersSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of whoever keeps a reference: states are updated in place, so the stored one moves on."""
    monkeypatch.setattr("replaycheck.subjects.transformers.play.cloned", lambda cache: cache)
    split, warm = play(tiny, chain(40, 6, 9, 5), THREE[1:])
    assert difference(split, warm) > 1e-2
    assert warm.proven_hits < warm.expected_hits and warm.content_mismatches > 0


def test_a_state_inside_a_prompt_is_taken_by_a_cut(tiny: TransformersSubject) -> None:
    arms = [arm(each, policy=CheckpointPolicy(every=64)) for each in (Compiler.SPLIT, Compiler.WARM)]
    split, warm = play(tiny, chain(150, 3, 5, 3), arms)
    assert warm.proven_hits == warm.expected_hits == 1 and warm.restores[0].position == 128
    assert difference(split, warm) == 0


def test_a_batch_mate_and_a_whole_answer_are_other_roundings(tiny: TransformersSubject) -> None:
    cold, beside, whole = play(
        tiny, chain(40, 30), [THREE[0], arm(Compiler.COLD, repeat=1), arm(Compiler.COLD, answer=Kernel.CHUNK)]
    )
    assert difference(cold, beside) < 1e-3 and 0 < difference(cold, whole) < 1e-3


@pytest.mark.parametrize(
    ("more", "words"), [({"pool": PoolDtype.BF16}, "pool in bf16"), ({"tensor_parallel": 2}, "tensor parallelism")]
)
def test_what_it_cannot_do_is_refused(tiny: TransformersSubject, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        play(tiny, chain(5, 3), [arm(Compiler.WARM, **more)])


def test_it_describes_itself(tiny: TransformersSubject, folder: Path) -> None:
    found = tiny.describe()
    assert found.vocabulary == SIZE and found.states and found.versions["transformers"] == transformers.__version__
    assert found.digest == subject(folder).describe().digest != subject(folder, dtype="bf16").describe().digest


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        (None, {}, "give --model DIR"),
        (Path("nowhere"), {}, "no config.json there"),
        ("tiny", {"dtype": "fp8"}, "choose 'fp32' or 'bf16'"),
    ],
)
def test_bad_input_is_a_usage_error(
    folder: Path, model: Path | str | None, settings: dict[str, str], words: str
) -> None:
    given = folder if model == "tiny" else model
    with pytest.raises(UsageError, match=words):
        make_subject("transformers", SubjectOptions(model=given, settings=tuple(settings.items())))  # type: ignore[arg-type]


def test_a_folder_with_code_of_its_own_is_not_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}')
    (tmp_path / "mine.py").write_text("raise SystemExit('was run')")
    with pytest.raises(UsageError, match="can't load it"):
        make_subject("transformers", SubjectOptions(model=tmp_path))


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(load, "import_module", absent)
    with pytest.raises(EngineEnvironmentError, match=r"pip install 'replaycheck\[models\]'"):
        make_subject("transformers", SubjectOptions(model=folder))


def test_the_shipped_model_says_what_it_says_in_the_lab() -> None:
    """Both compute in fp32, in other orders. The floor is transformers' own: a whole answer against a decoded one."""
    recipe, group = preset("exact"), chain(60, 20)
    mine = subject(model_dir(None))
    arms = [THREE[0], arm(Compiler.COLD, answer=Kernel.CHUNK)]
    decoded, whole = (logprobs(each) for each in play(mine, group, arms))
    lab = Network(model_dir(None), recipe, ours(recipe, "cpu"))
    (schedule,) = compile_arms(group, [THREE[0]])
    (recording,) = execute([ArmRun(schedule, lab)])
    floor = np.abs(decoded - whole).max()
    # The lab stands to transformers as two orders of summing to each other: each is off by no more than about the floor.
    assert 0 < floor < 1e-3
    assert np.abs(logprobs(recording) - decoded).max() <= 4 * floor


def logprobs(recording: ArmRecording) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows = [
        torch.log_softmax(torch.from_numpy(turn.logits[:, :SIZE]).double(), -1)
        .gather(1, torch.from_numpy(turn.tokens).long()[:, None])[:, 0]
        .numpy()
        for turn in recording.turns
    ]
    return np.concatenate(rows)


def test_a_run_compares_its_arms_and_proves_its_hits(folder: Path, tmp_path: Path) -> None:
    """Too few traces for a verdict: exit code 6, with a complete result."""
    import json

    from replaycheck.cli.main import invoke

    traces, out = tmp_path / "t.jsonl", tmp_path / "run"
    traces.write_text(chain(40, 6, 9, 5).model_dump_json(by_alias=True) + "\n", encoding="utf-8")
    arguments = ["run", "--subject", "transformers", "--model", str(folder), "--traces", str(traces), "--workers", "1"]
    assert invoke([*arguments, "--out", str(out)]) == 6
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    cells = {cell["effect"]: cell for cell in result["cells"]}
    assert set(cells) == {"grid", "state", "together", "total"}
    assert {each["compiler"] for each in result["arms"]} == {"cold", "split", "warm"}

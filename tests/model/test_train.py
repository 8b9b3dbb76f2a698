"""Training runs on a CPU in small, can be resumed exactly, and keeps held-out text out."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import softplus

from replaycheck.errors import UsageError
from replaycheck.model import load_weights
from replaycheck.model.config import ModelConfig
from replaycheck.model.initial import initial_weights
from replaycheck.model.train import Stage, TrainSettings, train
from replaycheck.model.train.batches import BLOCK, Corpus, load_corpus
from replaycheck.model.train.delta import sequential_delta_rule
from replaycheck.model.train.settings import learning_rate
from replaycheck.traces import vocabulary

BLOCKS = 52
HELD_OUT = 25


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """52 blocks of one sentence, whose held-out block is made of another letter; two sections."""
    folder = tmp_path_factory.mktemp("corpus")
    sentence = bytes([vocabulary.DOC, *b"the cat sat on the mat and looked at the rat.\n"])
    tokens = bytearray((sentence * (BLOCKS * BLOCK // len(sentence) + 1))[: BLOCKS * BLOCK])
    tokens[HELD_OUT * BLOCK : (HELD_OUT + 1) * BLOCK] = b"z" * BLOCK
    (folder / "tokens.bin").write_bytes(tokens)
    half = 10 * BLOCK + 77
    sections = [{"start": 0, "end": half, "weight": 3.0}, {"start": half, "end": len(tokens), "weight": 1.0}]
    manifest = {"vocabulary": vocabulary.NAME, "tokens": len(tokens), "sections": sections}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def settings(corpus_folder: Path, tmp_path: Path, tiny_config: ModelConfig) -> TrainSettings:
    return TrainSettings(
        corpus=corpus_folder,
        out=tmp_path / "model",
        config=tiny_config,
        max_steps=6,
        stages=(Stage(0.5, 4, 16), Stage(0.5, 2, 32)),
        warmup_steps=2,
        peak_rate=1e-2,
        device="cpu",
        compile=False,
        log_every=2,
        state_file=tmp_path / "state.pt",
        save_seconds=0.0,
    )


def test_a_run_learns_and_leaves_a_model_and_a_log(settings: TrainSettings) -> None:
    result = train(dataclasses.replace(settings, max_steps=24, state_file=None))
    records = [json.loads(line) for line in (settings.out / "training_log.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if "loss" in record]
    assert losses[0] > math.log(vocabulary.SIZE) - 0.5
    assert losses[-1] < losses[0] - 1.0
    assert (result.steps, result.tokens) == (24, 24 * 64)
    assert records[-1]["bits_per_byte"] == result.held_out[-1].bits_per_byte
    assert load_weights(settings.out)


def test_held_out_text_is_never_drawn(corpus_folder: Path) -> None:
    corpus = load_corpus(corpus_folder, "cpu")
    assert corpus.held_out == (HELD_OUT * BLOCK,)
    inputs, targets = corpus.batch(Stage(1.0, 2000, 256), seed=0, step=0, aligned_share=0.5)
    assert not bool((inputs == ord("z")).any() or (targets == ord("z")).any())
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_aligned_sequences_open_a_document(corpus_folder: Path) -> None:
    inputs, _ = load_corpus(corpus_folder, "cpu").batch(Stage(1.0, 64, 32), seed=3, step=5, aligned_share=0.25)
    assert bool((inputs[48:, 0] == vocabulary.DOC).all())
    assert not bool((inputs[:48, 0] == vocabulary.DOC).all())


def test_weights_decide_how_often_a_section_is_drawn(corpus_folder: Path) -> None:
    corpus = load_corpus(corpus_folder, "cpu")
    begins = corpus._anywhere(4000, 16, torch.Generator().manual_seed(0))
    share = float((begins < 10 * BLOCK + 77).double().mean())
    # Expected 3·10/(3·10 + 41) = 0.42; the binomial's standard deviation is 0.008, so 0.04 is five of them.
    assert abs(share - 30 / 71) < 0.04


def test_a_resumed_run_equals_the_uninterrupted_one(settings: TrainSettings, tmp_path: Path) -> None:
    train(settings)
    uninterrupted = load_weights(settings.out)

    def interrupt(line: str) -> None:
        if '"step": 4' in line and "loss" in line:
            raise KeyboardInterrupt

    halves = dataclasses.replace(settings, out=tmp_path / "again", state_file=tmp_path / "half.pt")
    with pytest.raises(KeyboardInterrupt):
        train(halves, interrupt)
    assert not (halves.out / "model.safetensors").exists()
    assert train(dataclasses.replace(halves, resume=True)).steps == 6
    resumed = load_weights(halves.out)
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in uninterrupted.items())


def test_a_state_of_another_run_is_refused(settings: TrainSettings) -> None:
    train(settings)
    with pytest.raises(UsageError, match="belongs to a run with"):
        train(dataclasses.replace(settings, resume=True, seed=1))


def test_a_file_that_is_no_state_is_refused(settings: TrainSettings) -> None:
    assert settings.state_file
    settings.state_file.write_bytes(b"not a state")
    with pytest.raises(UsageError, match="is not a saved training state"):
        train(dataclasses.replace(settings, resume=True))


def test_time_that_compilation_used_up_is_an_error(settings: TrainSettings) -> None:
    with pytest.raises(UsageError, match="nothing is left for training"):
        train(dataclasses.replace(settings, max_steps=None, total_seconds=1.0))


@pytest.mark.parametrize(
    ("step", "progress", "share"),
    [(0, 0.0, 0.005), (99, 0.1, 0.5), (200, 0.4, 1.0), (999, 0.7, 0.51), (999, 1.0, 0.02)],
)
def test_the_rate_rises_stays_and_falls(settings: TrainSettings, step: int, progress: float, share: float) -> None:
    usual = dataclasses.replace(settings, warmup_steps=200)
    assert learning_rate(usual, step, progress) == pytest.approx(usual.peak_rate * share)


def test_the_recurrence_is_a_sum_of_decayed_writes_for_orthogonal_keys() -> None:
    # Keys e0, e1 with β → 1: nothing overlaps, so the state is v0 e0ᵀ decayed once plus v1 e1ᵀ.
    k = torch.eye(2).view(1, 2, 1, 2) * 1e3
    q = torch.ones(1, 2, 1, 2)
    v = torch.tensor([[[[1.0, 2.0]], [[3.0, 5.0]]]])
    decay, bias = torch.zeros(1, 2, 1, 2), torch.tensor([0.0, 1.0])
    o = sequential_delta_rule(q, k, v, decay, torch.full((1, 2, 1), 50.0), torch.zeros(1), bias)
    kept = math.exp(-float(softplus(bias[0])))
    expected = (kept * v[0, 0, 0] + v[0, 1, 0]) / 2  # q̂ = (1, 1)/√2, and 1/√2 is the scale
    # The norms' epsilon of 1e-6 beside a square of 2 takes 2.5e-7, fp32 a few roundings of 6e-8: together 4e-7 of 2.5.
    assert torch.allclose(o[0, 1, 0], expected, rtol=4e-7, atol=0)


def test_initial_decay_parameters_are_in_their_ranges(tiny_config: ModelConfig) -> None:
    weights = initial_weights(tiny_config, seed=0)
    rates = torch.cat([w.exp().flatten() for name, w in weights.items() if name.endswith("A_log")])
    steps = torch.cat([softplus(w) for name, w in weights.items() if name.endswith("dt_bias")])
    assert 1.0 <= float(rates.min()) <= float(rates.max()) <= 16.0
    # fp32 rounding of softplus and its inverse moves the ends by less than one in a thousand.
    assert 0.999e-3 <= float(steps.min()) < float(steps.max()) <= 1.001e-1
    assert torch.equal(weights["lm_head.weight"], initial_weights(tiny_config, seed=0)["lm_head.weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"tokens": 5}, "'tokens' is 5"), ({"sections": {}}, "'sections' is"), ({"vocabulary": "gpt2"}, "'vocabulary'")],
)
def test_a_manifest_with_a_fault_is_refused(
    corpus_folder: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    manifest = json.loads((corpus_folder / "manifest.json").read_text()) | change
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=message):
        load_corpus(tmp_path, "cpu")


def test_tokens_that_do_not_match_the_manifest_are_refused(corpus_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((corpus_folder / "manifest.json").read_bytes())
    with pytest.raises(UsageError, match=r"tokens\.bin: is missing or does not have"):
        load_corpus(tmp_path, "cpu")
    (tmp_path / "tokens.bin").write_bytes(b"\xff" * BLOCKS * BLOCK)
    with pytest.raises(UsageError, match="holds token 255"):
        load_corpus(tmp_path, "cpu")


def test_a_corpus_is_plain_data(corpus_folder: Path) -> None:
    corpus = load_corpus(corpus_folder, "cpu")
    assert isinstance(corpus, Corpus)
    assert int((corpus.ends - corpus.starts).sum()) == (BLOCKS - 1) * BLOCK

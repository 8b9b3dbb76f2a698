"""GGUF files: what they hold, that llama.cpp loads them, and that history counts in the tiny models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from replaycheck.assets import model_dir
from replaycheck.cli.main import invoke
from replaycheck.errors import UsageError
from replaycheck.model.checkpoint import load_weights
from replaycheck.model.config import KV_NORM_EPS, load_config
from replaycheck.model.gguf_export import export_gguf
from replaycheck.model.gguf_file import token_texts
from replaycheck.model.gguf_tiny import names, tiny_model, write_tiny
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.options import ServerOptions
from replaycheck.subjects.server.llamacpp.wire import Wire
from replaycheck.traces.vocabulary import END, SIZE, TEXT_SIZE

gguf = pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "shipped.gguf"
    export_gguf(model_dir(None), file)
    return file


def test_the_shipped_model_is_stored_exactly_but_for_one_factor(shipped: Path) -> None:
    weights, config = load_weights(model_dir(None)), load_config(model_dir(None))
    stored = {tensor.name: np.asarray(tensor.data) for tensor in gguf.GGUFReader(shipped).tensors}
    assert len(stored) == 3 + 6 * (6 + 14) + 2 * (6 + 5)
    for theirs, ours in (
        ("output.weight", "lm_head.weight"),
        ("blk.0.ssm_conv1d_k.weight", "model.layers.0.self_attn.k_conv1d.weight"),
        ("blk.7.ssm_dt.bias", "model.layers.7.self_attn.dt_bias"),
        ("blk.6.attn_q.weight", "model.layers.6.self_attn.q_proj.weight"),
    ):
        assert (stored[theirs].squeeze() == weights[ours].float().numpy().squeeze()).all(), theirs
    # The norm behind it has the graph's epsilon, 10 times the reference's: what goes in is sqrt(10) times as large.
    rows = weights["model.layers.2.self_attn.kv_a_proj_with_mqa.weight"].float().numpy()
    factor = stored["blk.2.attn_kv_a_mqa.weight"] / rows
    rank = config.kv_lora_rank
    # In fp32 the product is rounded once, and the quotient here again.
    assert factor[:rank] == pytest.approx(np.sqrt(config.rms_norm_eps / KV_NORM_EPS), rel=2 * 2.0**-24)
    assert (factor[rank:] == 1).all()
    keys = weights["model.layers.2.self_attn.kv_b_proj.weight"].float().numpy().reshape(2, 256, rank)[:, :128]
    assert (stored["blk.2.attn_k_b.weight"] == keys.transpose(0, 2, 1)).all()


def test_the_server_tokenises_every_character_as_the_traces_do(shipped: Path) -> None:
    pytest.importorskip("xllamacpp")
    with LlamaServer(ServerOptions(shipped)) as server:
        client = Client(server.url)
        text = "".join(map(chr, range(1, TEXT_SIZE)))
        assert client.post("/tokenize", {"content": text})["tokens"] == list(range(1, TEXT_SIZE))
        special = client.post("/tokenize", {"content": "<|end|>", "parse_special": True})["tokens"]
        assert special == [END]
        assert Wire(client, SIZE).model()["meta"]["n_vocab"] == SIZE


def test_token_texts_are_all_different() -> None:
    assert len(set(token_texts())) == SIZE


def test_tiny_models_are_of_their_seed(tmp_path: Path) -> None:
    files = [write_tiny(tmp_path / name, "rwkv7", seed).read_bytes() for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert files[0] == files[1] != files[2]
    with pytest.raises(UsageError, match="no architecture 'gpt'"):
        tiny_model("gpt")


@pytest.mark.parametrize("name", names())
def test_what_stood_twenty_tokens_back_counts(name: str, tmp_path: Path) -> None:
    """Else a wrong state would change nothing, and a test on this model would prove nothing."""
    pytest.importorskip("xllamacpp")
    prompt = np.random.default_rng(1).integers(33, 127, 120).tolist()
    changed = [*prompt[:-20], prompt[-20] ^ 1, *prompt[-19:]]
    with LlamaServer(ServerOptions(write_tiny(tmp_path, name))) as server:
        wire = Wire(Client(server.url), SIZE)
        one, other = (wire.complete(each, 1, cache=False).entries[0] for each in (prompt, changed))
    assert one and other
    size = max(abs(one[1][token] - other[1][token]) for token in range(SIZE))
    assert size > 0.05, f"{size:.2g} nat"
    assert max(one[1].values()) > np.log(2 / SIZE), "logits are flat"


def test_export_writes_files_and_refuses_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        invoke(["model", "export", "--architecture", "llama", "--architecture", "mamba", "--out", str(tmp_path)]) == 0
    )
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"tiny-llama.gguf", "tiny-mamba.gguf"}
    assert invoke(["model", "export", "--out", str(tmp_path / "tiny-llama.gguf")]) == 2
    assert "is there already" in capsys.readouterr().err

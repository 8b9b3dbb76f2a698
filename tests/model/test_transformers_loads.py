"""What we write, transformers loads whole, and computes the same losses as the network that was trained."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from replaycheck.model import load_config, load_weights
from replaycheck.model.train.delta import sequential_delta_rule
from replaycheck.model.train.network import Network
from replaycheck.traces import vocabulary

transformers = pytest.importorskip("transformers", minversion="5.23")

SHIPPED = Path(__file__).parents[2] / "models" / "kimi-linear-ascii-7m"


def model_of(folder: Path) -> tuple[torch.nn.Module, dict[str, object]]:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)


def test_every_key_is_used() -> None:
    _, info = model_of(SHIPPED)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))


def test_what_transformers_saves_is_a_checkpoint_too(tiny_folder: Path, tmp_path: Path) -> None:
    model, _ = model_of(tiny_folder)
    model.save_pretrained(tmp_path / "saved")
    assert load_config(tmp_path / "saved") == load_config(tiny_folder)
    before, after = load_weights(tiny_folder), load_weights(tmp_path / "saved")
    assert all(torch.equal(tensor.float(), after[name]) for name, tensor in before.items())


@pytest.mark.parametrize("text", ["The SELECT statement returns rows", "To be, or not to be: that is the question:"])
def test_the_trained_network_is_the_same_function(text: str) -> None:
    tokens = torch.tensor([[vocabulary.DOC, *vocabulary.encode(text)]])
    weights = {name: tensor.float() for name, tensor in load_weights(SHIPPED).items()}
    model, _ = model_of(SHIPPED)
    with torch.no_grad():
        ours = Network(load_config(SHIPPED), sequential_delta_rule).losses(weights, tokens[:, :-1], tokens[:, 1:])
        theirs = F.cross_entropy(model(tokens[:, :-1]).logits[0], tokens[0, 1:], reduction="none")
    # Both compute in fp32, in another order: about 1e-6 of logits up to 20, seen 6e-6.
    assert torch.allclose(ours[0], theirs, rtol=0, atol=1e-4)
    # A model that had learnt nothing would give log 144 = 4.97 nats; a line by itself, without a page before it,
    # is far above the held-out mean of 0.74.
    assert float(ours.mean()) < math.log(vocabulary.SIZE) / 2


def test_the_tokenizer_round_trips_every_character() -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(SHIPPED)
    text = "".join(map(chr, range(128)))
    assert tokenizer(text)["input_ids"] == vocabulary.encode(text)
    assert tokenizer.decode(vocabulary.encode(text)) == text
    assert len(tokenizer) == vocabulary.SIZE


def test_the_chat_template_is_the_vocabulary_s() -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(SHIPPED)
    turns = [("system", " s\n"), ("user", "\n\nhi "), ("assistant", ""), ("tool", "{'a': 1}\n")]
    messages = [{"role": role, "content": text} for role, text in turns]
    expected = [vocabulary.BOS, *(token for turn in turns for token in vocabulary.turn_tokens(*turn))]
    rendered = [
        tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, add_generation_prompt=generate)
        for generate in (False, True)
    ]
    assert rendered == [expected, [*expected, *vocabulary.prompt_header("assistant")]]

"""vLLM's CPU build with a tiny granitemoehybrid: a real cold, split and warm with hits. ``make test-engines`` runs it.

It runs in an environment of its own (vLLM pins its own torch), so it is a script and no test of pytest's. Exit code 0 if the
run passed with hits and every difference of split against warm is 0, else what went wrong and 1.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # Without it the first request with log-probabilities takes 34 s.
    "TORCH_COMPILE_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
}

VOCABULARY = 320


def write_model(folder: Path) -> None:
    """Three Mamba2 layers and one of attention, 0.2 M parameters; one-dimensional weights perturbed so that they matter."""
    import torch
    from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

    torch.manual_seed(0)
    config = GraniteMoeHybridConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=128,
        shared_intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["mamba", "mamba", "attention", "mamba"],
        num_local_experts=0,
        num_experts_per_tok=0,
        mamba_n_heads=8,
        mamba_d_head=32,
        mamba_d_state=16,
        mamba_n_groups=1,
        mamba_expand=2,
        mamba_chunk_size=64,
        max_position_embeddings=4096,
        initializer_range=0.1,
        position_embedding_type="nope",
        tie_word_embeddings=False,
        logits_scaling=1.0,
    )
    model = GraniteMoeHybridForCausalLM(config)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    # Logits with a spread of about 2.5, so that history counts and no distribution is flat.
    model.lm_head.weight.data.normal_(0, 2.5 / 128**0.5)
    model.save_pretrained(folder)


def without_checkpoints_in_prefill() -> None:
    """The CPU scan of 0.32.0 ignores return_intermediate_states, and crashes when one is asked for: cut prefills instead."""
    from vllm.model_executor.layers.mamba import mamba_mixer2

    mixer = mamba_mixer2.MambaMixer2
    mixer.get_kv_cache_spec = super(mixer, mixer).get_kv_cache_spec  # type: ignore[method-assign]


def beside_scipy() -> None:
    """0.32.0 reads the ``__dict__`` of all that any module holds; scipy has an object whose isn't a dictionary."""
    import builtins

    from vllm.triton_utils import dispatcher

    def vars_or_nothing(value: object) -> dict[str, Any]:
        found = builtins.vars(value)
        return found if isinstance(found, dict | type(type.__dict__)) else {}

    dispatcher.vars = vars_or_nothing  # type: ignore[attr-defined]


def zero_states_on_hit(engine: Any) -> None:
    """A seeded fault: each restored state is wiped before it is used."""
    ask = engine.ask

    def spoilt(asks: Any) -> Any:
        if not any(each.cold for each in asks):
            for layer in engine._engine.vllm_config.compilation_config.static_forward_context.values():
                if hasattr(layer, "get_state_shape"):
                    for tensor in _tensors(layer.kv_cache):
                        tensor.zero_()
        return ask(asks)

    engine.ask = spoilt


def _tensors(kept: Any) -> list[Any]:
    return [each for part in kept for each in _tensors(part)] if isinstance(kept, list | tuple) else [kept]


def main() -> int:
    os.environ.update(SETTINGS)
    from replaycheck.bench.sessions import Shape, write_sessions
    from replaycheck.cli.main import invoke
    from replaycheck.subjects.server import offline

    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_model(folder / "model")
        write_sessions(folder / "sessions.jsonl", 4, Shape(turns=4, prompt=150, answer=5))
        without_checkpoints_in_prefill()
        beside_scipy()
        words = ["run", "--subject", "vllm-offline", "--model", str(folder / "model")]
        words += ["--traces", str(folder / "sessions.jsonl"), "--subject-option", "score=3"]
        words += [
            "--subject-option",
            "dtype=float32",
            "--subject-option",
            "length=2048",
            "--subject-option",
            "budget=128",
        ]
        code = invoke([*words, "--out", str(folder / "clean")])
        clean = json.loads((folder / "clean" / "result.json").read_text())
        show(clean)
        original = offline.start

        def faulty(*args: Any) -> Any:
            engine = original(*args)
            zero_states_on_hit(engine)
            return engine

        offline.start = faulty
        from replaycheck.subjects.choose import find_subject

        find_subject.cache_clear()
        broken = invoke([*words, "--out", str(folder / "broken")])
        show(json.loads((folder / "broken" / "result.json").read_text()))
    return report(code, broken, clean)


def show(result: dict[str, Any]) -> None:
    for arm in result["arms"]:
        print(arm["name"], arm["hits"], f"{arm['proven_hits']} of {arm['expected_hits']} hits", flush=True)
    for cell in result["cells"]:
        print(cell["effect"], cell["positions"], cell["bits_differ"], cell["abs_dlogp"], cell["flips"], flush=True)
    for measure in (result["floor"] or {}).get("measures", ()):
        print("floor", measure["control"], measure["bits_differ"], measure["abs_dlogp"], flush=True)


def report(code: int, broken: int, clean: dict[str, Any]) -> int:
    state = next(cell for cell in clean["cells"] if cell["effect"] == "state")
    good = code == 0 and broken == 1 and state["bits_differ"] == 0 and state["restores"] > 0
    print(
        f"vllm on the CPU: clean run exit {code}, with wiped states exit {broken}; {'ok' if good else 'NOT as it must be'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""What vLLM 0.32.0 can't do on a CPU as shipped, changed in this process. Each says what happens without it."""

from __future__ import annotations

from typing import Any

__all__ = ["SETTINGS", "apply"]

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # Without it the first request with log-probabilities takes 34 s.
    "TORCH_COMPILE_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
}
"""The environment that it runs in, to be set before torch is imported."""


def apply() -> None:
    """Both changes."""
    _no_checkpoints_in_prefill()
    _beside_scipy()


def _no_checkpoints_in_prefill() -> None:
    """The CPU scan of Mamba2 ignores return_intermediate_states, and an IndexError follows in mamba_mixer2 when one is asked
    for: let the scheduler cut prefills at block ends instead."""
    from vllm.model_executor.layers.mamba import mamba_mixer2

    mixer = mamba_mixer2.MambaMixer2
    mixer.get_kv_cache_spec = super(mixer, mixer).get_kv_cache_spec  # type: ignore[method-assign]


def _beside_scipy() -> None:
    """It reads the ``__dict__`` of all that any module holds; scipy has an object whose isn't a dictionary."""
    import builtins

    from vllm.triton_utils import dispatcher

    def vars_or_nothing(value: object) -> dict[str, Any]:
        found = builtins.vars(value)
        return found if isinstance(found, dict | type(type.__dict__)) else {}

    dispatcher.vars = vars_or_nothing  # type: ignore[attr-defined]

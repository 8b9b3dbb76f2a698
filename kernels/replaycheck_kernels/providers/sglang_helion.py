"""SGLang's KDA kernels in Helion: prefill, packed decode, verify.

Read in SGLang 0.5.23, ``sglang/kernels/ops/attention/helion/kda_{prefill,decode,verify}.py``, and their caller
``srt/layers/attention/linear/kernels/kda_helion.py``. Helion generates Triton when a kernel is first called. Each kernel
brings its configuration (``config=``), so nothing is tuned. Prefill has the contract of the Triton ``chunk_kda``; a call of
one token is handed to that one by SGLang itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..contract import KdaInputs, SnapshotRow, SnapshotSource
from ..recipe import Recipe
from .adapt import Packed
from .decode import packed_decode
from .exposed import Tap
from .provider import Capabilities, PoolForward, PoolResult, ProviderError
from .sglang_calls import OPS, chunk_kda, window
from .shim import KernelModules

_FILES = f"{OPS}.helion"
WANTS = {"helion": "helion==1.4.0"}
"""What SGLang 0.5.23 asks for."""

_DECODED = frozenset({SnapshotSource.ACCUMULATOR, SnapshotSource.FINAL})
_ONE_TOKEN = "a call of one token runs SGLang's Triton chunk_kda"
_BF16_NORM = "K, V powers of two; with a bf16 pool q and k are multiplied by rsqrt, else divided"
_STATE_KERNELS = ("", "_small_head", "_track", "_small_head_track")

TAPS = (
    Tap(f"{_FILES}.kda_prefill", "_l2norm_qk", (("q", "k"),)),
    Tap(f"{_FILES}.kda_prefill", "gate_chunk_cumsum_operands", (("G", "q_decayed", None, "k_decayed"),)),
    Tap(f"{_FILES}.kda_prefill", "chunk_kda_fwd_intra", (("w", "u", None, "qk"),)),
    *(Tap(f"{_FILES}.kda_prefill", f"_chunk_state_varlen{which}", (("h", "v_new"),)) for which in _STATE_KERNELS),
)


@dataclass(frozen=True)
class HelionKernel:
    """form, sources: of the kernel. build: loads it. taps: of its intermediates."""

    form: str
    can: Capabilities
    sources: frozenset[SnapshotSource]
    build: Callable[[KernelModules], PoolForward]
    taps: tuple[Tap, ...] = ()


def kernels() -> dict[str, HelionKernel]:
    """By name, in the order of prefill, decode, verify."""
    prefill = Capabilities(("sglang-helion", "sglang-small-grid"), snapshots_a_call=1, note=_ONE_TOKEN)
    decode = Capabilities(("sglang",), grouped_values=True, note=_BF16_NORM)
    verify = Capabilities(("sglang",), grouped_values=True)
    return {
        "sglang/helion_chunk_kda": HelionKernel("chunk", prefill, frozenset(SnapshotSource), _prefill, TAPS),
        "sglang/helion_kda_packed_decode": HelionKernel("recurrent", decode, _DECODED, _packed),
        "sglang/helion_kda_verify": HelionKernel("verify", verify, _DECODED, _verify),
    }


def _prefill(modules: KernelModules) -> PoolForward:
    return chunk_kda(modules, "helion.kda_prefill")


def _packed(modules: KernelModules) -> PoolForward:
    """Decode of one token a sequence, in place."""
    run = packed_decode(modules.load(f"{_FILES}.kda_decode").helion_fused_recurrent_kda_packed_decode, bounded=True)

    def call(
        inputs: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        _powers_of_two("sglang/helion_kda_packed_decode", pool.shape[3], pool.shape[2])
        return run(inputs, pool, slots, rows, recipe)

    return call


def _powers_of_two(name: str, key: int, value: int) -> None:
    """Its own check, in a line that names the kernel."""
    if key & (key - 1) or value & (value - 1):
        raise ProviderError(f"{name} can't run K={key}, V={value}; it needs powers of two")


def _verify(modules: KernelModules) -> PoolForward:
    """A window in one call."""
    kernel = modules.load(f"{_FILES}.kda_verify").helion_kda_verify

    def run(x: Packed, pool: Tensor, slots: Tensor, states: Tensor, rows: Tensor) -> Tensor:
        o: Tensor = kernel(
            q=x.q,
            k=x.k,
            v=x.v,
            a=x.a,
            b=x.b,
            A_log=x.A_log,
            dt_bias=x.dt_bias,
            ssm_states=pool,
            cache_indices=slots,
            query_start_loc=x.cu_seqlens,
            intermediate_states_buffer=states,
            intermediate_state_indices=rows,
            cache_steps=states.shape[1],
            lower_bound=x.bound,
        )
        return o

    return window(run)

"""``ours/chunk-triton`` and ``ours/recurrent-triton``: the kernels behind the contract, and as calls on a pool.

They run the presets that they compile, to the letter: a recipe that only has a preset's name is refused, as are decays
with a lower bound under a preset whose diagonal looks at later tokens. Importing this module doesn't import Triton.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from types import ModuleType

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..contract import Forward, KdaInputs, SnapshotRow, SnapshotSource, StateKernel
from ..precision import Precision, round_to
from ..providers.adapt import from_pool, interior, recorded
from ..providers.provider import Capabilities, Decay, PoolForward, PoolResult
from ..recipe import Recipe, preset
from ..recurrent import tap_points
from .tables import CHUNK, integers, layout, slots, taps

MISSING = "needs an NVIDIA GPU and triton: pip install triton (its wheels are for Linux)"

CHUNK_RECIPES = frozenset({"exact", "sglang", "sglang-direct", "sglang-gdn"})
RECURRENT_RECIPES = frozenset({"exact", "sglang", "sglang-direct", "sglang-small-grid", "sglang-gdn", "vllm", "fla"})

_DTYPES = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16}
_KEYS = (16, 32, 64, 128)

CAN = Capabilities(
    claims=("sglang", "sglang-direct"),
    decays=frozenset(Decay),
    widest_key=128,
    grouped_values=True,
    note="K a power of two from 16 to 128, V a multiple of 16; sglang without a lower bound",
)


def available() -> bool:
    """Whether triton is installed; whether its kernels run on this machine is :func:`runs_here`."""
    return importlib.util.find_spec("triton") is not None


def runs_here() -> bool:
    """Triton is installed and there is a GPU: without one only its interpreter could run, on the smallest shapes."""
    return available() and torch.cuda.is_available()


def compiles(kernel: StateKernel, recipe: Recipe) -> bool:
    """Whether ``kernel`` is there and has this very recipe, not only its name."""
    return available() and recipe.name in (kernel.recipes or ()) and recipe == preset(recipe.name)


def _launch(name: str) -> ModuleType:
    """The module with the kernels.

    Raises:
        ValueError: Triton isn't installed.
    """
    if not available():
        raise ValueError(f"{name} {MISSING}")
    from . import launch

    return launch


def _refuse(name: str, form: str, x: KdaInputs, recipe: Recipe) -> None:
    """What the kernels don't compile.

    Raises:
        ValueError: with what was given and what is allowed.
    """
    claimed = preset(recipe.name)
    changed = [f.name for f in fields(recipe) if getattr(recipe, f.name) != getattr(claimed, f.name)]
    if changed:
        raise ValueError(
            f"{name} compiles the preset {recipe.name!r} only; this recipe has another {', '.join(changed)}: "
            "use the emulator"
        )
    key, value = x.k.shape[2], x.v.shape[2]
    if key not in _KEYS or value % 16 or not 16 <= value <= 256:
        raise ValueError(f"{name} can't run K={key}, V={value}; K is one of {_KEYS}, V a multiple of 16 up to 256")
    if form == "chunk" and recipe.decay_on == "products" and not x.per_head:
        raise ValueError(f"{name} compiles {recipe.name!r} for one decay a head; use 'sglang', or the emulator")
    looks_ahead = x.lower_bound is not None and recipe.diagonal_form(True) != "direct"
    if form == "chunk" and looks_ahead and recipe.decay_on != "products":
        raise ValueError(
            f"{name} can't run {recipe.name!r} with a lower bound: its reference {recipe.diagonal_form(True)!r} may be a "
            "later token; use 'sglang-direct', or the emulator"
        )


def _prepared(x: KdaInputs, recipe: Recipe) -> KdaInputs:
    """Contiguous tensors in the activation dtype, which the values are in already; parameters in fp32.

    All begin at a multiple of 16 bytes, where compiled programs differ: one program, one set of bits.
    """
    names = dict.fromkeys(("q", "k", "v", "a", "b"), _DTYPES[recipe.activation])
    names |= {"A_log": torch.float32, "dt_bias": torch.float32}
    return replace(x, **{name: _aligned(getattr(x, name).to(kind).contiguous()) for name, kind in names.items()})


def _aligned(x: Tensor) -> Tensor:
    return x.clone() if x.data_ptr() % 16 else x


def chunk_on_pool(
    inputs: KdaInputs, pool: Tensor, at: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
) -> PoolResult:
    """The chunk form on states in ``pool`` [slots, HV, V, K] at one slot a sequence, in place; any number of snapshots."""
    name = "ours/chunk-triton"
    launch = _launch(name)
    _refuse(name, "chunk", inputs, recipe)
    if inputs.v.is_cuda and widths(inputs) != _given(inputs):
        return widened(inputs, pool, at, rows, recipe, launch)
    return _chunk_call(launch, inputs, pool, at, rows, recipe, None)


def _chunk_call(
    launch: ModuleType, inputs: KdaInputs, pool: Tensor, at: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe,
    scale: float | None,
) -> PoolResult:  # fmt: skip
    x, pack = _prepared(inputs, recipe), layout(inputs.offsets, inputs.v.device)
    wanted = interior(rows)
    places = [_chunk(inputs, row) for row in wanted]
    distinct = list(dict.fromkeys(places))
    taken = taps(distinct, pack.chunks.shape[0], pool.shape[1:], pool.device)
    bf16, where = recipe.activation is Precision.BF16, slots(at, at, pool.device)
    late = recipe.decay_on == "products"
    o = launch.chunk_forward(x, pack, pool, where, taken, bf16, scale=scale, on_products=late)
    states = {row: taken.states[distinct.index(place)] for row, place in zip(wanted, places, strict=True)}
    return PoolResult(o, {row: _as_source(state, row, recipe) for row, state in states.items()})


def _given(inputs: KdaInputs) -> tuple[int, int]:
    return inputs.k.shape[2], inputs.v.shape[2]


def widths(inputs: KdaInputs) -> tuple[int, int]:
    """K and V that the chunk form's tiles are right for on a GPU.

    With fewer than 64 keys the bf16 form was wrong there (error 0.2 to 0.9 at K = 16 and 32; right in the interpreter).
    The cause isn't known. What changes in kind: the update of the state is a product of K rows, which Triton 3.6 compiles
    for mma.sync between products for wgmma; from 64 rows on all are wgmma.
    """
    key, value = _given(inputs)
    return max(key, 64), -(-value // 32) * 32


def widened(
    inputs: KdaInputs, pool: Tensor, at: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe, launch: ModuleType
) -> PoolResult:
    """The chunk form with channels of zeros beside the given ones, on copies of the slots.

    A zero adds nothing to a norm or a product, so the given channels have the values that they would have without.
    """
    (key, value), (more_key, more_value) = _given(inputs), widths(inputs)
    wide = {name: pad(getattr(inputs, name), (0, more_key - key)) for name in ("q", "k")}
    wide["v"] = pad(inputs.v, (0, more_value - value))
    if not inputs.per_head:
        wide |= {name: pad(getattr(inputs, name), (0, more_key - key)) for name in ("a", "dt_bias")}
    own = pad(pool[list(at)], (0, more_key - key, 0, more_value - value))
    done = _chunk_call(launch, replace(inputs, **wide), own, range(len(at)), rows, recipe, key**-0.5)
    pool[list(at)] = own[:, :, :value, :key]
    taps = {row: state[:, :value, :key] for row, state in done.taps.items()}
    return PoolResult(done.o[..., :value].contiguous(), taps)


def _chunk(inputs: KdaInputs, row: SnapshotRow) -> int:
    """Number of the row's chunk in the pack."""
    before = inputs.lengths()[: row.sequence]
    return sum(-(-length // CHUNK) for length in before) + row.chunk


def _as_source(state: Tensor, row: SnapshotRow, recipe: Recipe) -> Tensor:
    """The accumulator, or what an engine stores of it for its output pass: here that is the operand of the products."""
    return round_to(state, recipe.chunk_state) if row.source is SnapshotSource.CHUNK_STATE else state


def recurrent_on_pool(
    inputs: KdaInputs, pool: Tensor, at: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
) -> PoolResult:
    """The recurrent form, likewise. States stay in fp32 between the tokens of one call."""
    name = "ours/recurrent-triton"
    launch = _launch(name)
    _refuse(name, "recurrent", inputs, recipe)
    x, pack = _prepared(inputs, recipe), layout(inputs.offsets, inputs.v.device)
    wanted = interior(rows)
    points = tap_points(inputs, wanted, recipe)
    distinct = list(dict.fromkeys(points))
    tokens = inputs.q.shape[0]
    taken = taps(distinct, tokens, pool.shape[1:], pool.device)
    none, beta = integers([-1] * tokens, pool.device), recipe.recurrent_beta is Precision.BF16
    o = launch.recurrent_forward(x, pack, pool, slots(at, at, pool.device), taken, none, beta)
    return PoolResult(o, {row: taken.states[distinct.index(point)] for row, point in zip(wanted, points, strict=True)})


def _pure(call: PoolForward) -> Forward:
    """``call`` on an fp32 pool of its own."""
    return from_pool(call, CAN)


CHUNK_TRITON = StateKernel("ours/chunk-triton", "chunk", frozenset(SnapshotSource), CHUNK_RECIPES, _pure(chunk_on_pool))
RECURRENT_TRITON = StateKernel(
    "ours/recurrent-triton",
    "recurrent",
    frozenset({SnapshotSource.ACCUMULATOR, SnapshotSource.FINAL}),
    RECURRENT_RECIPES,
    _pure(recurrent_on_pool),
)

ALL = (CHUNK_TRITON, RECURRENT_TRITON)
ON_POOL = {CHUNK_TRITON.name: chunk_on_pool, RECURRENT_TRITON.name: recurrent_on_pool}


@contextmanager
def expose_chunk() -> Iterator[dict[str, Tensor]]:
    """What the chunk form hands to its state pass, by the names of ``intermediates``, from one call in the block."""
    launch = _launch(CHUNK_TRITON.name)
    found: dict[str, Tensor] = {}
    with recorded(launch, "operands", True) as made:
        yield found
    for call in made:
        found.update({name: getattr(call, name).float() for name in ("qk", "u", "w", "k_decayed", "q_decayed")})


EXPOSED = {CHUNK_TRITON.name: expose_chunk}


def claim(inputs: KdaInputs) -> str:
    """The bf16 preset that a call computes."""
    return "sglang" if inputs.lower_bound is None else "sglang-direct"

"""Each way to roll back against plain decoding, over accept patterns, layers, requests and pool dtypes."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import EXACT, SGLANG
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.speculation.methods import METHODS, Rollback
from tests.kernels.cases import GROUPED_GDN, GROUPED_KDA, KDA, Layer
from tests.kernels.speculation.story import Pattern, Story, method, null_untouched, story

WIDTH = 4
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
COPIES = ("slots", "copy", "replay")

#: Every length with every count of kept tokens, in both requests, drafts and draftless decode mixed.
SWEEP: Pattern = tuple(
    ((length, WIDTH + 1 - other), (kept, min(kept_other, WIDTH + 1 - other)))
    for (length, kept), (other, kept_other) in zip(
        [(n, k) for n in range(1, WIDTH + 1) for k in range(1, n + 1)],
        [(n, k) for n in range(1, WIDTH + 1) for k in range(1, n + 1)],
        strict=True,
    )
)


def follow(tale: Story, way: Rollback, pattern: Pattern, kernel: StateKernel, dtype: torch.dtype) -> None:
    """Run the pattern; at each step outputs, state and conv history must have the bits of fp32-live decoding that is
    rounded at the same windows."""
    computed, stored = [0] * tale.rows, tale.temporal.to(dtype)
    for lengths, kept in pattern:
        outputs = way.step(tale.step(computed, lengths, kept, WIDTH))
        after = stored.clone()
        for layer, row in product(range(tale.shape.layers), range(tale.rows)):
            end = computed[row] + kept[row]
            o, state = tale.decode(kernel, layer, row, computed[row], end, stored[layer, row].float())
            assert torch.equal(outputs[layer][row, : kept[row]], o)
            after[layer, row] = state.to(dtype)
            assert torch.equal(way.conv()[layer, row], tale.history(layer, row, end))
        assert torch.equal(way.temporal().to(dtype), after)
        stored, computed = after, [n + k for n, k in zip(computed, kept, strict=True)]
    assert null_untouched(way.pools)


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", COPIES)
def test_copies_and_replay_have_the_bits_of_decoding_rounded_at_the_same_windows(name: str, dtype: torch.dtype) -> None:
    tale = story()
    follow(tale, method(name, tale, WIDTH, dtype, RECURRENT_CPU), SWEEP, RECURRENT_CPU, dtype)


@pytest.mark.parametrize("layer", [KDA, GROUPED_KDA, GROUPED_GDN], ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", sorted(METHODS))
def test_layers_of_every_kind_keep_their_outputs(name: str, layer: Layer) -> None:
    """Torch's kernel, whose operations the read-only verify repeats: while nothing is rebuilt, all have its bits."""
    tale = story(layer=layer, recipe=SGLANG)
    way = method(name, tale, WIDTH, torch.float32, RECURRENT_TORCH)
    follow(tale, way, SWEEP[:1] if name == "recover" else SWEEP[:6], RECURRENT_TORCH, torch.float32)


counts = st.integers(1, WIDTH).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))
patterns = st.lists(st.tuples(counts, counts), min_size=1, max_size=6).map(
    lambda steps: tuple((tuple(n for n, _ in rows), tuple(k for _, k in rows)) for rows in steps)
)


@given(patterns, st.sampled_from(COPIES), st.sampled_from(DTYPES))
@settings(max_examples=25)
def test_any_accept_pattern(pattern: Pattern, name: str, dtype: torch.dtype) -> None:
    tale = story(layers=1)
    follow(tale, method(name, tale, WIDTH, dtype, RECURRENT_CPU), pattern, RECURRENT_CPU, dtype)


@given(patterns, st.integers(WIDTH, 16))
@settings(max_examples=25)
def test_a_lagging_ring_with_an_fp32_pool_has_the_bits_of_plain_decoding(pattern: Pattern, capacity: int) -> None:
    tale = story(layers=1)
    way = method("replay", tale, WIDTH, torch.float32, RECURRENT_CPU, capacity)
    follow(tale, way, pattern, RECURRENT_CPU, torch.float32)


def test_a_reduced_pool_depends_on_how_tokens_were_grouped() -> None:
    """The same four tokens, kept one at a time or at once: the pool rounds four times or once."""
    tale, found = story(rows=1, layers=1, recipe=EXACT), []
    for kept in ((1, 1, 1, 1), (4,)):
        way = method("copy", tale, WIDTH, torch.bfloat16, RECURRENT_CPU)
        computed = 0
        for n in kept:
            way.step(tale.step([computed], [WIDTH], (n,), WIDTH))
            computed += n
        found.append(way.temporal())
    assert not torch.equal(*found)

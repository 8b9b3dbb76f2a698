"""Bytes against the seed's figures, against a count element by element, and against inverted formulas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.capacity.answer import answer
from replaycheck.capacity.budget import Before, budget_for, length_for
from replaycheck.capacity.geometry import Geometry, geometry_named, geometry_of
from replaycheck.capacity.sizes import Layout, sizes
from replaycheck.capacity.text import lines, size
from replaycheck.errors import UsageError
from replaycheck.schedule.speculation.method import Rollback
from replaycheck.schema.arm import PoolDtype

K3 = geometry_named("kimi-k3")
#: K ≠ V and other sizes that are all different, so that no two can be swapped.
ODD = Geometry("odd", 3, 6, 32, 48, 5, 2, 40, "made up")


def test_the_two_published_figures() -> None:
    """About 400 MB of KDA state; about 12 GB wasted with 4 sequences a rank and 7 drafts (review of vLLM PR 51855)."""
    found = answer(K3, Layout(PoolDtype.FP32, 7), sequences=4, dp=16, ep=16)
    assert found.sizes.temporal == 69 * 96 * 128 * 128 * 4 == 434_110_464
    assert found.wasted == 4 * 7 * 434_110_464 == 12_155_092_992
    assert found.freed < found.wasted_pages and found.freed > 0.9 * found.wasted


def test_sizes_are_the_elements_counted() -> None:
    found = sizes(ODD, Layout(PoolDtype.BF16, 3, tp=2, ring=9))
    heads = 3 * 3
    assert found.temporal == heads * 48 * 32 * 2
    assert found.conv == heads * 4 * (32 + 32 + 48) * 2
    assert found.conv_window == heads * (4 + 3) * (32 + 32 + 48) * 2
    assert found.records == heads * 4 * (48 * 4 + 32 * 2 + 32 * 2)
    assert found.ring == heads * 9 * (32 * 2 + 48 * 2 + 32 * 4 + 4)
    assert found.token == 2 * 40 * 2
    assert found.by_method[Rollback.SLOTS] == 4 * (found.temporal + found.conv_window)
    assert found.by_method[Rollback.RECOVER] == found.temporal + found.conv_window + found.records
    assert found.by_method[Rollback.COPY] == 5 * found.temporal + found.conv + found.conv_window
    assert found.by_method[Rollback.REPLAY] == found.temporal + found.conv + found.ring + found.conv_window


def test_records_are_what_the_kernels_allocate() -> None:
    """The formula against real tensors: one layer, one request."""
    from replaycheck_kernels.recipe import SGLANG
    from replaycheck_kernels.speculation.cases import KEY, VALUE, case
    from replaycheck_kernels.speculation.verify import verify

    made = case(SGLANG, 4, (4,), heads=2, value_heads=2, layers=1)
    records = verify(made.windows[0], made.pools.temporal[0, made.slots], SGLANG).records
    held = sum(x.numel() * x.element_size() for x in (records.correction, records.key, records.decay))
    assert held == sizes(Geometry("one", 1, 2, KEY, VALUE, 4, 0, 0, ""), Layout(drafts=3)).records


def test_tensor_parallelism_splits_states_and_not_the_latent() -> None:
    whole, part = sizes(K3, Layout(drafts=7)), sizes(K3, Layout(drafts=7, tp=8))
    assert part.temporal * 8 == whole.temporal and part.records * 8 == whole.records and part.token == whole.token


@given(st.floats(0.01, 2), st.integers(1, 64), st.integers(1, 100), st.integers(1, 100))
def test_a_budget_yields_the_gain_it_was_made_for(gain: float, n: int, freed_to: int, more: int) -> None:
    states = Before(freed_to + more, freed_to)
    budget = budget_for(gain, n, states)
    assert (budget - n * states.freed_to) / (budget - n * states.native) - 1 == pytest.approx(gain, rel=1e-9)


@given(st.floats(0.01, 2), st.integers(1, 100), st.integers(1, 100), st.integers(1, 9))
def test_a_length_yields_the_gain_it_was_made_for(gain: float, freed_to: int, more: int, token: int) -> None:
    states = Before(freed_to + more, freed_to)
    length = length_for(gain, states, token)
    if length is None:
        assert states.native / states.freed_to - 1 < gain * (1 + 1e-9)
    else:
        grown = (states.native + length * token) / (states.freed_to + length * token) - 1
        assert grown == pytest.approx(gain, rel=1e-9)


def test_without_attention_no_length_yields_a_gain() -> None:
    assert length_for(0.1, Before(8, 1), 0) is None


def test_a_degree_that_does_not_divide_is_refused() -> None:
    with pytest.raises(UsageError, match="--tp 5 doesn't divide the 96 heads"):
        sizes(K3, Layout(tp=5))


def test_a_ring_smaller_than_a_window_is_refused() -> None:
    with pytest.raises(UsageError, match="--ring 7 is smaller than the window of 8"):
        sizes(K3, Layout(drafts=7, ring=7))


CONFIG = {
    "num_hidden_layers": 3,
    "linear_attn_config": {
        "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4, "kda_layers": [1, 3], "full_attn_layers": [2],
    },
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "num_experts": 256,
}  # fmt: skip


def test_a_config_with_experts_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    found = geometry_of(tmp_path)
    assert (found.layers, found.heads, found.key, found.value, found.conv_width) == (2, 4, 16, 16, 4)
    assert (found.attention_layers, found.latent) == (1, 40)


def test_a_config_without_a_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "kv_lora_rank"}))
    with pytest.raises(UsageError, match=r"config.json: field 'kv_lora_rank' is missing"):
        geometry_of(tmp_path)


def test_the_text_has_the_figures_and_fits_a_terminal() -> None:
    text = "\n".join(lines(answer(K3, Layout(drafts=7), 4, 16, 16, 0.1097)))
    assert "7 × 434.1 MB × 4 = 12.16 GB (11.32 GiB)" in text and "+10.97 %" in text and "A gain alone" in text
    assert max(map(len, text.splitlines())) <= 125


def test_sizes_in_words() -> None:
    assert [size(n) for n in (999_999_999, 1_000_000_000, 1_500_000, 512)] == [
        "1000.0 MB",
        "1.00 GB",
        "1.5 MB",
        "0.5 kB",
    ]

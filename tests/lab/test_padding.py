"""Padding on tensors: no column of it reaches a convolution, a state, the attention cache or a position."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replaycheck.schema.arm import Arm, Compiler, Kernel, Padding, PoolDtype, Side
from replaycheck.state_probes.groups import GROUPS, chain
from replaycheck.subjects.lab import columns as lab_columns
from replaycheck.subjects.lab.columns import columns_of
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput, Tap
from tests.lab.runs import run_arms, same_logits, same_restores
from tests.schedule.trees import arm

TOKENS = tuple((7 * i * i + 3 * i + 1) % 96 + 32 for i in range(200))


def on(side: Side, columns: int = 16, rows: int = 1, pool: PoolDtype = PoolDtype.BF16) -> Arm:
    return arm(Compiler.WARM, pool=pool).model_copy(update={"padding": Padding(side=side, columns=columns, rows=rows)})


def same(a: RowOutput, b: RowOutput) -> bool:
    pairs = [(a.logits, b.logits), (a.final.temporal, b.final.temporal), (a.final.conv, b.final.conv)]
    pairs += [(x.temporal, y.temporal) for x, y in zip(a.taps, b.taps, strict=True)]
    return all(torch.equal(x, y) for x, y in pairs) and len(a.final.pages) == len(b.final.pages)


@pytest.mark.parametrize("form", ["chunk", "recurrent"])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 63, 64, 65, 128, 130])
@torch.no_grad()
def test_a_padded_row_has_the_bits_of_the_row_in_first_and_later_turns(sglang: Network, form: str, length: int) -> None:
    sglang.reset()
    before = sglang.forward([RowInput(TOKENS[:37], 0, form, sglang.empty_state())])[0].final
    taps = (Tap(1, "accumulator", 64, 64),) if length > 64 and form == "chunk" else ()
    for state, start in ((sglang.empty_state(), 0), (before, 37)):
        row = RowInput(TOKENS[start : start + length], start, form, state, taps)
        plain = sglang.forward([row])[0]
        for left, right in ((1, 0), (0, 1), (3, 0), (64, 0), (0, 63), (5, 7)):
            assert same(sglang.forward([replace(row, left=left, right=right)])[0], plain), (left, right)


@torch.no_grad()
def test_no_bit_depends_on_which_token_padding_is(sglang: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [RowInput(TOKENS[:9], 0, "chunk", sglang.empty_state(), left=4, right=2)]
    one = sglang.forward(rows)[0]
    monkeypatch.setattr(lab_columns, "PAD", 77)
    assert columns_of(rows, sglang.device).ids[:4] == [77] * 4
    assert same(sglang.forward(rows)[0], one)


@torch.no_grad()
def test_padding_takes_no_page_of_the_attention_cache(sglang: Network) -> None:
    sglang.reset()
    sglang.forward([RowInput(TOKENS[:9], 0, "chunk", sglang.empty_state(), left=4, right=50)])
    assert sglang.arena.take(1)[0] == 9


def test_columns_are_taken_out_and_put_back_as_zeros() -> None:
    rows = [RowInput((5, 6), 0, "chunk", None, left=1), RowInput((7,), 0, "chunk", None, right=2)]  # type: ignore[arg-type]
    columns = columns_of(rows, torch.device("cpu"))
    assert columns.ids == [0, 5, 6, 7, 0, 0]
    x = torch.arange(1.0, 7.0)[:, None]
    assert columns.take(x).flatten().tolist() == [2, 3, 4]
    assert columns.put(columns.take(x)).flatten().tolist() == [0, 2, 3, 4, 0, 0]
    whole = columns_of([replace(rows[0], left=0)], torch.device("cpu"))
    assert whole.take(x) is x
    assert whole.put(x) is x


@pytest.mark.parametrize("side", Side, ids=str)
@pytest.mark.parametrize("pool", PoolDtype, ids=str)
def test_a_padded_warm_run_is_split_rounded_without_padding(sglang: Network, side: Side, pool: PoolDtype) -> None:
    arms = [on(side, 16, 4, pool), arm(Compiler.SPLIT_ROUNDED, pool=pool), arm(Compiler.WARM, pool=pool)]
    padded, rounded, plain = run_arms(sglang, GROUPS["batch"], arms)
    assert padded.proven_hits == padded.expected_hits > 0
    assert same_logits(padded, rounded)
    assert same_restores(padded, rounded)
    assert same_logits(padded, plain)
    assert padded.label_mismatches == padded.content_mismatches == 0


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.sampled_from((0, 1, 2, 3, 30, 59, 60, 61, 62)), min_size=4, max_size=6),
    padding=st.builds(Padding, side=st.sampled_from(Side), columns=st.integers(1, 70), rows=st.integers(1, 3)),
    kernel=st.sampled_from(Kernel),
)
def test_any_padding_of_any_conversation_changes_no_bit(
    sglang: Network, lengths: list[int], padding: Padding, kernel: Kernel
) -> None:
    group = chain(*lengths[: len(lengths) // 2 * 2])
    warm = arm(Compiler.WARM, kernels=(kernel, kernel), pool=PoolDtype.FP16)
    rounded = warm.model_copy(update={"compiler": Compiler.SPLIT_ROUNDED})
    found = run_arms(sglang, group, [warm.model_copy(update={"padding": padding}), rounded])
    assert same_logits(*found)
    assert same_restores(*found)


@pytest.mark.parametrize("side", Side, ids=str)
def test_a_dropped_mask_shows_in_labels_states_and_logits(sglang: Network, side: Side) -> None:
    wrong, right = run_arms(sglang, GROUPS["conversation"], [on(side), on(side, 32)], "mask-dropped")
    (good,) = run_arms(sglang, GROUPS["conversation"], [arm(Compiler.SPLIT_ROUNDED, pool=PoolDtype.BF16)])
    for bad in (wrong, right):
        assert bad.label_mismatches > 0
        assert not same_logits(bad, good)
        assert not same_restores(bad, good)
        assert [len(turn.logits) for turn in bad.turns] == [len(turn.logits) for turn in good.turns]

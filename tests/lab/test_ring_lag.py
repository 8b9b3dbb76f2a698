"""A lagging ring in the lab: replayed raw inputs have the recurrent kernel's bits, and a flush that is skipped shows."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler, PoolDtype, Rollback
from replaycheck.state_probes.groups import WINDOWS, chain
from replaycheck.state_probes.lab import difference
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.lab.ring import pushed, replayed
from replaycheck.subjects.lab.state import SequenceState
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.recipe import SGLANG
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.speculation.window import take
from tests.kernels.cases import GROUPED_KDA, KDA, random_inputs, random_states
from tests.schedule.speculation.groups import spec_arm
from tests.schedule.speculation.test_lag import NO_BUFFER, lagging, skipped_flush


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_pushed_windows_are_replayed_with_the_bits_of_one_call(data: st.DataObject) -> None:
    """Rows with rings of unlike fill, some empty: windows of random length of which a random part is kept."""
    layer = data.draw(st.sampled_from([KDA, GROUPED_KDA]))
    kernel = data.draw(st.sampled_from([RECURRENT_TORCH, RECURRENT_CPU]))
    key, value = data.draw(st.sampled_from([(16, 24), (32, 48), (64, 16)]))
    rows, steps = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 4))
    seed = data.draw(st.integers(0, 999))
    rings: list[KdaInputs | None] = [None] * rows
    checkpoints = random_states(rows, key, value, seed, layer.value_heads)
    wanted = checkpoints.clone()
    for step in range(steps):
        lengths = [data.draw(st.integers(1, 5)) for _ in range(rows)]
        x = random_inputs(lengths, key, value, recipe=SGLANG, seed=seed + step, layer=layer)
        x = replace(x, A_log=_first(layer, key, seed).A_log, dt_bias=_first(layer, key, seed).dt_bias)
        for row, length in enumerate(lengths):
            kept = data.draw(st.integers(0, length))
            if kept:
                rings[row] = pushed(rings[row], x, row, kept)
                tokens = torch.arange(x.offsets[row], x.offsets[row] + kept)
                wanted[row] = kernel(take(x, tokens, [kept]), wanted[row : row + 1], (), SGLANG).final[0]
    before = checkpoints.clone()
    assert torch.equal(replayed(checkpoints, rings, kernel, SGLANG), wanted)
    assert torch.equal(checkpoints, before)


def _first(layer: object, key: int, seed: int) -> KdaInputs:
    return random_inputs([1], key, 8, recipe=SGLANG, seed=seed, layer=layer)  # type: ignore[arg-type]


def _difference(network: Network, warm: Schedule, other: Schedule) -> str | None:
    network.reset()
    return difference(*execute([ArmRun(warm, network), ArmRun(other, network)]))


def test_a_skipped_flush_leaves_a_state_that_is_13_tokens_old(sglang: Network) -> None:
    group = chain(40, 13, 9, 3)
    for pool in (PoolDtype.FP32, PoolDtype.BF16):
        warm, rounded = (
            compile_schedule(group, lagging(compiler, 16, NO_BUFFER, pool))
            for compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED)
        )
        assert _difference(sglang, warm, rounded) is None
        sglang.reset()
        (wrong,) = execute([ArmRun(skipped_flush(warm), sglang)])
        (right,) = execute([ArmRun(rounded, sglang)])
        assert wrong.label_mismatches > 0
        assert not (wrong.restores[0].temporal == right.restores[0].temporal).all()
        assert (wrong.restores[0].conv == right.restores[0].conv).all()


def test_a_lag_rounds_less_often_than_a_fold_at_each_commit(sglang: Network) -> None:
    """Otherwise a bf16 pool wouldn't show where a ring is folded."""
    lag = compile_schedule(WINDOWS, lagging(Compiler.WARM, 16, pool=PoolDtype.BF16))
    each = compile_schedule(WINDOWS, spec_arm(Compiler.SPLIT_ROUNDED, Rollback.REPLAY, PoolDtype.BF16))
    assert "differ" in str(_difference(sglang, lag, each))


def test_a_copy_of_a_slot_has_its_bytes_in_memory_of_its_own_and_no_ring(sglang: Network) -> None:
    empty = sglang.empty_state()
    pool = Pool(4, empty, torch.float32, torch.bfloat16, "t")
    pool.store(1, SequenceState(empty.conv + 1, empty.temporal + 2, empty.pages, b"one"))
    ring = (random_inputs([3], recipe=SGLANG),)
    pool.lag(1, SequenceState(empty.conv + 5, empty.temporal + 7, empty.pages, b"two", ring=ring))
    pool.copy(1, 2)
    held, copied = pool.load(1), pool.load(2)
    assert held.ring is ring and copied.ring is None and held.identity != copied.identity
    assert float(held.temporal.max()) == 2 and float(held.conv.max()) == 5
    for mine, theirs in ((held.temporal, copied.temporal), (held.conv, copied.conv)):
        assert torch.equal(mine, theirs) and mine.data_ptr() != theirs.data_ptr()
    assert copied.temporal.stride() == held.temporal.stride()

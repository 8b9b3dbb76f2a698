"""RecoverSSM: a read-only verify, lossless records, and a rebuild within the derived bound of the sequential state."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.error_model import predict_for
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.recipe import EXACT, SGLANG, VLLM, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.speculation.bound import association_bound, excess
from replaycheck_kernels.speculation.commit import Align, CommitPlan, Decays, magnitude, plan_commit, rebuild
from replaycheck_kernels.speculation.methods import Recover
from replaycheck_kernels.speculation.verify import Records, Verified, each_position, verify
from replaycheck_kernels.speculation.window import Windows, windows
from tests.kernels.cases import (
    BOUNDED,
    GROUPED_GDN,
    GROUPED_KDA,
    KDA,
    REGIMES,
    Layer,
    only,
    random_inputs,
    random_states,
)
from tests.kernels.speculation.story import HISTORY, method, null_untouched, story

WIDTH = 8
LENGTHS = (8, 1, 5, 2)


def verified(
    layer: Layer, recipe: Recipe, regime: str = "kimi", seed: int = 0
) -> tuple[Windows, torch.Tensor, Verified, Decays]:
    x = random_inputs(LENGTHS, 32, 48, regime, recipe, seed, layer=layer)
    window, initial = windows(x, WIDTH), random_states(len(LENGTHS), 32, 48, seed + 1, layer.value_heads)
    return window, initial, verify(window, initial, recipe), Decays(x.A_log, x.dt_bias, x.lower_bound)


@pytest.mark.parametrize("recipe", [EXACT, SGLANG, replace(VLLM, recurrent_norm="rsqrt")], ids=lambda r: r.name)
@pytest.mark.parametrize("layer", [KDA, BOUNDED, GROUPED_KDA, GROUPED_GDN], ids=lambda layer: layer.name)
def test_verify_has_the_bits_of_the_recurrent_kernel_and_writes_nothing(layer: Layer, recipe: Recipe) -> None:
    window, initial, done, _ = verified(layer, recipe)
    before = initial.clone()
    o, _ = each_position(RECURRENT_TORCH, window, initial, recipe)
    for row, length in enumerate(LENGTHS):
        assert torch.equal(done.o[row, :length], o[row, :length])
    assert torch.equal(initial, before)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("layer", [KDA, BOUNDED, GROUPED_KDA, GROUPED_GDN], ids=lambda layer: layer.name)
def test_a_rebuild_is_within_the_association_of_fp32_sums(layer: Layer, regime: str) -> None:
    """For every count of kept tokens in every row, against the sequential fp32 state."""
    worst = 0.0
    for recipe in (EXACT, SGLANG):
        window, initial, done, decays = verified(layer, recipe, regime)
        _, states = each_position(RECURRENT_TORCH, window, initial, recipe)
        for kept in range(1, WIDTH + 1):
            n = window.lengths.clamp(max=kept)
            size = magnitude(initial, done.records, n, decays, recipe)
            rebuilt = rebuild(initial, done.records, n, decays, recipe)
            worst = max(worst, excess(rebuilt, states[kept - 1], association_bound(n, size)))
    # A bound that a thousand roundings never come near would show nothing.
    assert 0.01 < worst <= 1


@given(st.data(), st.sampled_from([KDA, BOUNDED, GROUPED_KDA, GROUPED_GDN]), st.sampled_from(sorted(REGIMES)))
@settings(max_examples=30, deadline=None)
def test_any_accept_pattern_is_rebuilt_within_the_bound(data: st.DataObject, layer: Layer, regime: str) -> None:
    """Random windows, counts of kept tokens, sizes of heads and recipes."""
    lengths = tuple(data.draw(st.lists(st.integers(1, WIDTH), min_size=1, max_size=4)))
    kept = torch.tensor([data.draw(st.integers(1, length)) for length in lengths])
    key, value = data.draw(st.sampled_from([(16, 24), (32, 48), (64, 16)]))
    recipe, seed = data.draw(st.sampled_from([EXACT, SGLANG])), data.draw(st.integers(0, 999))
    x = random_inputs(lengths, key, value, regime, recipe, seed, layer=layer)
    window, initial = windows(x, max(lengths)), random_states(len(lengths), key, value, seed, layer.value_heads)
    records, decays = verify(window, initial, recipe).records, Decays(x.A_log, x.dt_bias, x.lower_bound)
    _, states = each_position(RECURRENT_TORCH, window, initial, recipe)
    sequential = torch.stack(list(states), 1)[torch.arange(len(lengths)), kept - 1]
    size = magnitude(initial, records, kept, decays, recipe)
    rebuilt = rebuild(initial, records, kept, decays, recipe)
    assert excess(rebuilt, sequential, association_bound(kept, size)) <= 1
    assert excess(rebuilt * float("nan"), sequential, association_bound(kept, size)) == float("inf")


def test_the_bound_is_about_1e6_of_a_state() -> None:
    window, initial, done, decays = verified(KDA, EXACT)
    n = torch.full_like(window.lengths, WIDTH).minimum(window.lengths)
    allowed = association_bound(n, magnitude(initial, done.records, n, decays, EXACT))[0]
    state = rebuild(initial, done.records, n, decays, EXACT)[0].double()
    assert 2e-7 < float(allowed.norm() / state.norm()) < 5e-6


@pytest.mark.parametrize("layer", [KDA, BOUNDED, GROUPED_GDN], ids=lambda layer: layer.name)
def test_a_rebuild_is_as_near_to_the_oracle_as_the_recurrent_kernel(layer: Layer) -> None:
    x = random_inputs(LENGTHS, 32, 48, recipe=SGLANG, layer=layer)
    _, initial, done, decays = verified(layer, SGLANG)
    found = rebuild(initial, done.records, torch.tensor(LENGTHS), decays, SGLANG)
    for row in range(len(LENGTHS)):
        truth = ORACLE_KERNEL(only(x, row), initial[row : row + 1], (), SGLANG).final[0]
        error = float((found[row].double() - truth).norm() / truth.norm())
        assert error < predict_for(only(x, row), SGLANG, "recurrent").state


def test_a_bf16_correction_breaks_the_bound() -> None:
    """A seeded fault: correction records in bf16 lose 2^-9 a term."""
    window, initial, done, decays = verified(KDA, EXACT)
    lossy = replace(done.records, correction=done.records.correction.bfloat16())
    _, states = each_position(RECURRENT_TORCH, window, initial, EXACT)
    size = magnitude(initial, done.records, window.lengths, decays, EXACT)
    rebuilt = rebuild(initial, lossy, window.lengths, decays, EXACT)
    assert excess(rebuilt, states[-1], association_bound(window.lengths, size)) > 100


def test_unused_records_may_hold_anything() -> None:
    window, initial, done, decays = verified(KDA, SGLANG)
    n = torch.tensor([3, 1, 0, 2])

    def poisoned(x: torch.Tensor) -> torch.Tensor:
        return torch.stack(
            [
                torch.cat([r[:, : int(k)], torch.full_like(r[:, int(k) :], float("nan"))], 1)
                for r, k in zip(x, n, strict=True)
            ]
        )

    records = Records(*(poisoned(x) for x in (done.records.correction, done.records.key, done.records.decay)))
    found = rebuild(initial, records, n, decays, SGLANG)
    assert torch.equal(found, rebuild(initial, done.records, n, decays, SGLANG))
    assert torch.equal(found[2], initial[2]) and window.rows == 4


def test_records_lose_nothing() -> None:
    window, _, done, _ = verified(GROUPED_KDA, SGLANG)
    assert done.records.key.dtype is torch.bfloat16 and done.records.correction.dtype is torch.float32
    raw = window.inputs.k.unflatten(0, (window.rows, window.width)).transpose(1, 2)
    for row, length in enumerate(LENGTHS):
        assert torch.equal(done.records.key[row, :, :length].float(), raw[row, :, :length])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["fp32", "bf16", "fp16"])
def test_the_method_follows_decoding_window_by_window(dtype: torch.dtype) -> None:
    """From each checkpoint as stored: the committed state is one cast of a value within the bound, conv is exact."""
    tale, width = story(recipe=SGLANG), 4
    way = method("recover", tale, width, dtype, RECURRENT_TORCH)
    computed, generator = [0, 0], torch.Generator().manual_seed(3)
    for _ in range(9):
        lengths = torch.randint(1, width + 1, (2,), generator=generator).tolist()
        kept = tuple(int(torch.randint(1, n + 1, (1,), generator=generator)) for n in lengths)
        before = way.temporal().float()
        step = tale.step(computed, lengths, kept, width)
        outputs = way.step(step)
        for layer in range(2):
            done, n = verify(step.layers[layer], before[layer], SGLANG), step.kept_tensor()
            x = step.layers[layer].inputs
            size = magnitude(before[layer], done.records, n, Decays(x.A_log, x.dt_bias), SGLANG)
            slack = association_bound(n, size)
            for row in range(2):
                o, state = tale.decode(
                    RECURRENT_TORCH, layer, row, computed[row], computed[row] + kept[row], before[layer, row]
                )
                assert torch.equal(outputs[layer][row, : kept[row]], o)
                low, high = ((state.double() + sign * slack[row]).float().to(dtype) for sign in (-1, 1))
                found = way.temporal()[layer, row]
                assert bool(((low <= found) & (found <= high)).all())
                assert torch.equal(way.conv()[layer, row], tale.history(layer, row, computed[row] + kept[row]))
        computed = [a + b for a, b in zip(computed, kept, strict=True)]
    assert null_untouched(way.pools)


@pytest.mark.parametrize("block", [4, 5, 16])
def test_aligned_blocks_hold_the_state_at_their_end(block: int) -> None:
    """Windows of 4 over blocks of 4, 5 and 16: every block that was completed holds exactly its boundary's state."""
    tale, width = story(recipe=EXACT, tokens=48), 4
    way = method("recover", tale, width, torch.float32, RECURRENT_TORCH)
    assert isinstance(way, Recover)
    blocks = 48 // block + 1
    way.align = Align(torch.arange(1, 2 * blocks + 1).view(2, blocks), torch.zeros(2, dtype=torch.int64), block)
    way.start(tale.temporal, tale.conv)
    computed, kept_cycle = [0, 0], [(4, 1), (3, 4), (1, 2), (2, 3)]
    for i in range(12):
        kept = kept_cycle[i % 4]
        way.step(tale.step(computed, (4, 4), kept, width))
        computed = [a + b for a, b in zip(computed, kept, strict=True)]
    table = way.align.table
    for row in range(2):
        for p in range(computed[row] // block):
            end = (p + 1) * block
            _, truth = tale.decode(RECURRENT_TORCH, 1, row, 0, end, tale.temporal[1, row])
            found = way.pools.temporal[1, table[row, p]]
            # Twelve rebuilds in a row, each within about 1e-6; a state one token off differs by more than 1e-1.
            assert float((found - truth).norm() / truth.norm()) < 1e-5
            assert torch.equal(way.pools.conv[1, table[row, p], :HISTORY], tale.history(1, row, end))


def reference_plan(
    nc: int, a: int, qlen: int, source: int, table: list[int], block: int, width: int
) -> tuple[int, ...]:
    """A worked table in integers: length, final, boundary, boundary length."""
    cl = min(max(a, 0), qlen, width)
    if source <= 0 or cl == 0:
        return 0, 0, 0, 0
    final = table[min(max(nc + cl - 1, 0) // block, len(table) - 1)]
    edge = (nc // block + 1) * block
    crosses = nc + cl >= edge
    return cl, final, table[edge // block - 1] if crosses else 0, edge - nc if crosses else 0


WORKED = [
    # nc, accepted, final column, boundary length, boundary column (None: no boundary inside the window)
    (2044, 4, 0, 4, 0),
    (2046, 4, 1, 2, 0),
    (2047, 1, 0, 1, 0),
    (2048, 1, 1, 0, None),
    (8180, 4, 3, 0, None),
    (8188, 4, 3, 4, 3),
    (8190, 4, 4, 2, 3),
    (8192, 1, 4, 0, None),
]


def test_the_worked_table_of_plans() -> None:
    rows = len(WORKED)
    table = torch.arange(1, 5 * rows + 1).view(rows, 5)
    computed, accepted = (torch.tensor([row[i] for row in WORKED]) for i in (0, 1))
    source = table.gather(1, (computed[:, None] - 1) // 2048)[:, 0]
    plan = plan_commit(accepted, torch.full((rows,), 8), source, 8, Align(table, computed, 2048))
    for i, (_, kept, final, length, boundary) in enumerate(WORKED):
        assert int(plan.length[i]) == kept and int(plan.final[i]) == int(table[i, final])
        assert int(plan.boundary[i]) == (0 if boundary is None else int(table[i, boundary]))
        assert int(plan.boundary_length[i]) == length


@given(st.data())
@settings(max_examples=150)
def test_plans_equal_the_integer_oracle(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 8))
    block = data.draw(st.integers(width, 20))
    rows = data.draw(st.integers(1, 4))
    draw = {
        "nc": st.integers(0, 3 * block),
        "a": st.integers(-1, width + 2),
        "q": st.integers(0, width),
        "source": st.integers(0, 3),
    }
    values = {name: [data.draw(kind) for _ in range(rows)] for name, kind in draw.items()}
    table = torch.arange(1, rows * 6 + 1).view(rows, 6)
    align = Align(table, torch.tensor(values["nc"]), block)
    plan = plan_commit(*(torch.tensor(values[name]) for name in ("a", "q", "source")), width, align)
    for r in range(rows):
        wanted = reference_plan(
            values["nc"][r], values["a"][r], values["q"][r], values["source"][r], table[r].tolist(), block, width
        )
        assert wanted == tuple(int(x[r]) for x in (plan.length, plan.final, plan.boundary, plan.boundary_length))


def test_a_block_smaller_than_a_window_is_refused() -> None:
    one = torch.ones(1, dtype=torch.int64)
    with pytest.raises(ValueError, match="4 tokens is smaller than the speculation window of 8"):
        plan_commit(one, one, one, 8, Align(torch.ones(1, 2, dtype=torch.int64), one, 4))


def test_without_align_the_state_stays_in_its_slot() -> None:
    source = torch.tensor([3, 0, 5])
    plan = plan_commit(torch.tensor([2, 2, 0]), torch.tensor([4, 4, 4]), source, 4)
    assert isinstance(plan, CommitPlan)
    assert plan.length.tolist() == [2, 0, 0] and plan.final.tolist() == [3, 0, 0] and not plan.boundary.any()


def test_the_oracles_recipe_rebuilds_in_fp64() -> None:
    """In fp64 the identity itself shows: 13 orders of magnitude, not 7."""
    from replaycheck_kernels.recipe import ORACLE

    x = random_inputs((8,), 32, 48)
    double = replace(x, **{n: getattr(x, n).double() for n in ("q", "k", "v", "a", "b", "A_log", "dt_bias")})
    initial = random_states(1, 32, 48).double()
    done = verify(windows(double, 8), initial, ORACLE)
    found = rebuild(initial, done.records, torch.tensor([8]), Decays(double.A_log, double.dt_bias), ORACLE)
    truth = ORACLE_KERNEL(x, initial, (), ORACLE).final
    assert float((found - truth).abs().max()) < 1e-13 and RECURRENT_CPU.form == "recurrent"

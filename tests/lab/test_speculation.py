"""Speculation through the lab: what a rollback leaves is what decoding the kept tokens leaves, bit for bit.

RecoverSSM sums in another order than decoding: against a reference that recovers, too, it is exact as well; against decoding
the state of a window lies within the bound that is derived in ``replaycheck_kernels.speculation.bound``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from replaycheck.compare.record import ArmRecording
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Kept
from replaycheck.schema.arm import Arm, Compiler, PoolDtype, Rollback
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import chain, windowed
from replaycheck.subjects.lab import rollback as lab_rollback
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.subjects.lab.rollback import Verify
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.recipe import EXACT, ORACLE, VLLM
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.registry import ours
from replaycheck_kernels.speculation import commit
from replaycheck_kernels.speculation.backend import TORCH
from replaycheck_kernels.speculation.bound import association_bound, excess
from replaycheck_kernels.speculation.commit import CommitPlan, Decays
from replaycheck_kernels.speculation.verify import Records
from tests.lab.runs import same_logits, same_restores
from tests.schedule.speculation.groups import GROUPS, TURN, boundary, spec_arm
from tests.schedule.speculation.test_schedules import PLAN_FAULTS

WARM, ROUNDED, SPLIT = Compiler.WARM, Compiler.SPLIT_ROUNDED, Compiler.SPLIT
FP32, BF16, FP16 = PoolDtype.FP32, PoolDtype.BF16, PoolDtype.FP16
SEQUENTIAL = (Rollback.SLOTS, Rollback.COPY, Rollback.REPLAY)
"""Methods whose states have the bits of decoding."""
POOLS = {method: (FP32, FP16 if method is Rollback.REPLAY else BF16) for method in Rollback}
"""vLLM's methods, slots and recover, store no fp16 states."""

Found = dict[tuple[int, str], ArmRecording]


def run(network: Network, groups: Sequence[Group], arms: Sequence[Arm]) -> Found:
    """All arms of all groups in one lockstep and one thread, by (group, arm)."""
    torch.set_num_threads(1)
    network.arena = network.new_arena()
    wanted = [(index, arm) for index in range(len(groups)) for arm in arms]
    done = execute([ArmRun(compile_schedule(groups[index], arm), network) for index, arm in wanted])
    return {(index, arm.name): recording for (index, arm), recording in zip(wanted, done, strict=True)}


def both(methods: Sequence[Rollback] = tuple(Rollback), policy: Policy = TURN) -> list[Arm]:
    """Each method's warm arm and its reference, in the method's pools."""
    return [
        spec_arm(compiler, method, pool, policy)
        for method in methods
        for pool in POOLS[method]
        for compiler in (WARM, ROUNDED)
    ]


def assert_exact(found: Found, arms: Sequence[Arm], groups: int) -> None:
    for index in range(groups):
        for warm, rounded in zip(arms[::2], arms[1::2], strict=True):
            a, b = found[index, warm.name], found[index, rounded.name]
            assert same_logits(a, b), (index, warm.name)
            assert same_restores(a, b)
            assert a.expected_hits == a.proven_hits == len(a.restores)
            assert a.label_mismatches == 0
            assert a.kernels == b.kernels
            assert all(np.isfinite(turn.logits).all() for turn in a.turns)


def assert_decoded(found: Found, groups: int, policy: Policy = TURN) -> None:
    """With an fp32 pool, the bits of decoding token by token."""
    for index, method in product(range(groups), SEQUENTIAL):
        plain = found[index, spec_arm(SPLIT, None, policy=policy).name]
        assert same_logits(found[index, spec_arm(WARM, method, policy=policy).name], plain), (index, method)


@pytest.fixture(scope="module")
def matrix(sglang: Network) -> Found:
    """Every method and pool on answers with each accepted count, and decoding in three ways."""
    plain = [spec_arm(SPLIT, None), spec_arm(WARM, None), spec_arm(WARM, None, BF16)]
    return run(sglang, list(GROUPS.values()), [*plain, *both()])


def test_warm_equals_its_reference_in_every_pool(matrix: Found) -> None:
    assert_exact(matrix, both(), len(GROUPS))
    assert min(len(recording.restores) for recording in matrix.values() if recording.expected_hits) > 0


def test_with_an_fp32_pool_speculation_is_decoding(matrix: Found) -> None:
    assert_decoded(matrix, len(GROUPS))


def test_a_reduced_pool_rounds_once_a_window_and_not_once_a_token(matrix: Found) -> None:
    window, token = matrix[0, spec_arm(WARM, Rollback.COPY, BF16).name], matrix[0, spec_arm(WARM, None, BF16).name]
    assert not same_logits(window, token)
    assert same_logits(matrix[0, spec_arm(WARM, Rollback.SLOTS, BF16).name], window)
    # Every draft is rejected: a window keeps one token, as a decode step does.
    assert same_logits(matrix[2, spec_arm(WARM, Rollback.COPY, BF16).name], matrix[2, token.arm])


def test_a_recording_says_which_kernel_verified(matrix: Found) -> None:
    answer = {method: matrix[0, spec_arm(WARM, method).name].kernels["answer"] for method in Rollback}
    assert answer.pop(Rollback.RECOVER) == {"ours/verify-torch"}
    assert set(answer.values()) == {frozenset({"ours/recurrent-cpu"})}


def test_windows_round_a_chunk_end_are_exact(sglang: Network) -> None:
    """Windows of 4 that start 1 to 4 tokens before position 128 and keep 1 to 4 tokens."""
    groups = [boundary(accepted, gap) for accepted, gap in product((0, 1, 3), (1, 2, 4))]
    arms = [spec_arm(c, m, BF16) for m in Rollback for c in (WARM, ROUNDED)]
    live = [spec_arm(SPLIT, None), *(spec_arm(WARM, method) for method in SEQUENTIAL)]
    found = run(sglang, groups, [*arms, *live])
    assert_exact(found, arms, len(groups))
    assert_decoded(found, len(groups))


@pytest.mark.parametrize(
    ("policy", "methods"),
    [
        (SglangPolicy(cache="sglang-extra-buffer", track_interval=64), tuple(Rollback)),
        (VllmPolicy(cache="vllm-align", block=16, retain="all"), (Rollback.SLOTS, Rollback.RECOVER)),
    ],
    ids=lambda value: value.slug if not isinstance(value, tuple) else "",
)
def test_states_inside_windows_are_exact_and_hit(
    sglang: Network, policy: Policy, methods: tuple[Rollback, ...]
) -> None:
    arms = [spec_arm(c, m, BF16, policy) for m in methods for c in (WARM, ROUNDED)]
    found = run(sglang, [boundary(3, 2)], arms)
    assert_exact(found, arms, 1)
    for warm in arms[::2]:
        assert found[0, warm.name].restores[0].position in (128, 136)


def test_in_float64_every_method_is_exact_too(model: Path) -> None:
    network = Network(model, ORACLE, ours(ORACLE, "cpu"))
    arms = [spec_arm(c, m, BF16) for m in Rollback for c in (WARM, ROUNDED)]
    assert_exact(run(network, [GROUPS["one window"]], arms), arms, 1)


SMALL = windowed(chain(5, 14, 2, 2), {"a0": [(3, 1), (2, 0), (4, 2), (3, 3)], "a1": [(2, 1)]})


@pytest.mark.parametrize("name", PLAN_FAULTS)
def test_a_wrong_rollback_shows_in_the_bits_and_in_the_labels(sglang: Network, name: str) -> None:
    arms = [spec_arm(WARM, method, pool) for method in Rollback for pool in (FP32, BF16)]
    right = [compile_schedule(SMALL, arm) for arm in arms]
    sglang.arena = sglang.new_arena()
    good = execute([ArmRun(schedule, sglang) for schedule in right])
    bad = execute([ArmRun(PLAN_FAULTS[name](schedule), sglang) for schedule in right])
    for a, b in zip(good, bad, strict=True):
        assert not same_logits(a, b), a.arm
        assert a.label_mismatches == 0 < b.label_mismatches


def test_the_windows_bits_do_not_depend_on_mates_and_drafts(sglang: Network) -> None:
    check_invariance(sglang, list(Rollback))


class _Bounds:
    """A backend that notes the size of each layer's terms as it rebuilds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layers: list[Tensor] = []
        monkeypatch.setattr(lab_rollback, "backend", lambda device: replace(TORCH, rebuild=self.rebuild))

    def rebuild(self, pool: Tensor, records: Records, plan: CommitPlan, decays: Decays, *rest: Any) -> None:
        mine = Records(records.correction[0], records.key[0], records.decay[0])
        rule = Decays(decays.A_log[0], decays.dt_bias[0], decays.lower_bound)
        self.layers.append(commit.magnitude(pool[0, plan.source], mine, plan.length, rule, EXACT))
        TORCH.rebuild(pool, records, plan, decays, *rest)


TOKENS = tuple((5 * i * i + 7 * i + 3) % 96 + 32 for i in range(78))


def _excesses(model: Path, bounds: _Bounds) -> list[float]:
    """How far windows of 8 are from sequential states, by kept tokens: the worst layer, in units of the bound."""
    network = Network(model, EXACT, {"chunk": CHUNK_EMULATOR, "recurrent": RECURRENT_TORCH})
    state = network.forward([RowInput(TOKENS[:70], 0, "chunk", network.empty_state())])[0].final
    found = []
    for kept in range(1, 9):
        bounds.layers.clear()
        verify = Verify(Rollback.RECOVER, Kept.all(kept), kept)
        recovered = network.forward([RowInput(TOKENS[70:], 70, "recurrent", state, verify=verify)])[0]
        decoded = network.forward([RowInput(TOKENS[70 : 70 + kept], 70, "recurrent", state)])[0]
        assert torch.equal(recovered.logits, decoded.logits)
        assert torch.equal(recovered.final.conv, decoded.final.conv)
        assert len(bounds.layers) == len(decoded.final.temporal)
        pairs = zip(recovered.final.temporal, decoded.final.temporal, bounds.layers, strict=True)
        found.append(
            max(excess(a[None], b[None], association_bound(torch.tensor([kept]), size)) for a, b, size in pairs)
        )
    return found


@torch.no_grad()
def test_a_recovered_state_lies_within_the_bound_of_decoding_in_every_layer(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window's own logits have the bits of decoding: what differs is what the next window starts from."""
    found = _excesses(model, _Bounds(monkeypatch))
    assert found[0] == 0.0  # one token: the same two products and one sum
    assert all(0.0 < share <= 1.0 for share in found[1:])


def own_decay(checkpoint: Tensor, u: Tensor, keys: Tensor, factors: Tensor, lengths: Tensor) -> Tensor:
    """A rebuild that decays each token's term by its own decay, too."""
    return _accumulate(checkpoint, u, keys * factors, factors, lengths)


_accumulate = commit._accumulate


@torch.no_grad()
def test_a_rebuild_that_applies_a_tokens_own_decay_is_far_outside_the_bound(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_accumulate", own_decay)
    assert min(_excesses(model, _Bounds(monkeypatch))) > 100.0


def test_recover_stays_near_decoding_where_nothing_is_rounded(model: Path) -> None:
    """With fp32 activations only the order of sums differs; a fault of one token moves logits ten thousand times as far."""
    network = Network(model, EXACT, {"chunk": CHUNK_EMULATOR, "recurrent": RECURRENT_TORCH})
    arms = [spec_arm(SPLIT, None), spec_arm(WARM, Rollback.RECOVER)]
    plain, recovered = run(network, [GROUPS["each count"]], arms).values()
    schedule = PLAN_FAULTS["accepted off by one"](compile_schedule(GROUPS["each count"], arms[1]))
    wrong = execute([ArmRun(schedule, network)])[0]
    assert 0.0 < _largest(recovered, plain) < 1e-4 * _largest(wrong, plain)


def _largest(a: ArmRecording, b: ArmRecording) -> float:
    return max(float(np.abs(x.logits - y.logits).max()) for x, y in zip(a.turns, b.turns, strict=True))


def test_another_providers_kernels_do_not_recover() -> None:
    limited = lab_kernels(KernelChoice("tests.lab.limited_kernels:factory"), VLLM)
    reason = limited.cannot(spec_arm(WARM, Rollback.RECOVER))
    assert reason is not None and "RecoverSSM's verify and rebuild are ours" in reason

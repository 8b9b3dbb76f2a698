"""``bench state``: its operations are right, its bytes are counted, graphs see new plans, targets follow from times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from replaycheck.bench import state as module
from replaycheck.bench import state_calls as ours
from replaycheck.bench import state_sglang, state_vllm
from replaycheck.bench.clock import Call, Times
from replaycheck.bench.state import Engines, Found, Measurement, bench_state
from replaycheck.bench.state_graph import PLANS, Step, replays
from replaycheck.bench.state_world import KIMI_K3_TP8, RECIPE, Geometry, World, draw, records_of
from replaycheck.schema.bench import Bench
from replaycheck_kernels.registry import KERNELS
from replaycheck_kernels.speculation.bound import association_bound, excess
from replaycheck_kernels.speculation.commit import Align, Decays, magnitude
from replaycheck_kernels.speculation.verify import Records, Verified, each_position

TINY = Geometry(layers=2, heads=2, key=16, value=8, width=3, history=3)


@pytest.fixture
def world() -> World:
    made = draw(TINY, 4, "cpu", 0)
    ours.recover_verify(made)()
    return made


def test_a_checkpoint_of_the_real_geometry_has_54_mb_a_request() -> None:
    assert KIMI_K3_TP8.layers * KIMI_K3_TP8.state_bytes == 69 * 12 * 128 * 128 * 4 == 54_263_808


@pytest.mark.parametrize("aligned", [False, True])
def test_the_timed_commit_leaves_the_states_of_the_accepted_tokens(world: World, aligned: bool) -> None:
    align = world.align() if aligned else None
    before = world.pool.clone()
    ours.commit(world, align)()
    ends = world.slots if align is None else align.table.gather(1, _column(world, align)[:, None])[:, 0]
    for layer, window in enumerate(world.windows):
        start = before[layer, world.slots]
        _, states = each_position(KERNELS["ours/recurrent-torch"], window, start, RECIPE)
        wanted = torch.stack(list(states))[world.accepted - 1, torch.arange(world.rows)]
        rule = Decays(world.decays.A_log[layer], world.decays.dt_bias[layer], world.decays.lower_bound)
        size = magnitude(start, records_of(world.records, layer), world.accepted, rule, RECIPE)
        assert excess(world.pool[layer, ends], wanted, association_bound(world.accepted, size)) <= 1


def _column(world: World, align: Align) -> Tensor:
    return (align.computed + world.accepted - 1) // align.block


def test_the_native_verify_keeps_a_state_for_every_position(world: World) -> None:
    """Its time is that of the states' stores, too: all of them, in slots that differ."""
    call, wide = ours.native_verify(world)
    call()
    _, states = each_position(KERNELS["ours/recurrent-torch"], world.windows[1], world.pool[1, world.slots], RECIPE)
    expected = torch.stack(list(states), 1)
    assert torch.equal(wide[1, 1:13].unflatten(0, (4, 3)), expected)
    call()  # a benchmark repeats it: checkpoints must not have been written over
    assert torch.equal(wide[1, 1:13].unflatten(0, (4, 3)), expected)
    before = world.pool.clone()
    back, moved = ours.copy_back(world, wide)
    back()
    kept = torch.stack(list(states), 1)[torch.arange(4), world.accepted - 1]
    assert torch.equal(world.pool[1, world.slots], kept) and torch.equal(world.pool[:, ::2], before[:, ::2])
    assert moved == 2 * world.pool[:, world.slots].nbytes


@pytest.mark.parametrize("aligned", [False, True])
def test_bytes_of_a_commit_are_those_of_what_it_reads_and_writes(world: World, aligned: bool) -> None:
    align = world.align() if aligned else None
    plan = ours.backend("cpu").plan(world.accepted, world.lengths, world.slots, TINY.width, align)
    states = 4 + 4 + int((plan.boundary > 0).sum())
    kept = int(world.accepted.sum())
    of_token = world.records.correction[0, 0, :, 0].nbytes + 2 * world.records.key[0, 0, :, 0].nbytes
    of_slot = world.pool[0, 0].nbytes + world.conv[0, 0, : TINY.history].nbytes
    assert ours.commit_bytes(world, align) == 2 * (states * of_slot + kept * of_token)
    assert not aligned or states > 8, "an aligned commit has boundary states"


def test_the_timed_copy_moves_each_slot_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(ours, "backend", lambda device: _Copier(seen))
    call, moved = ours.slot_copy(TINY, 5, "cpu", 0)
    call()
    pools, convs, plan, history = seen
    assert history == TINY.history and pools[0] is pools[1] and convs[0] is convs[1]
    assert sorted([*plan.source.tolist(), *plan.destination.tolist()]) == list(range(1, 11))
    assert moved == 2 * 2 * 5 * (2 * 8 * 16 * 4 + 3 * TINY.channels * 4)


class _Copier:
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def copy(self, *given: object) -> None:
        self.seen.extend(given)


def test_a_replay_that_reads_its_plan_again_equals_eager_calls(world: World) -> None:
    found = replays(world, lambda call: call)
    assert (found.equal, found.changed) == (PLANS, PLANS)


@pytest.mark.parametrize("frozen", ["lengths", "accepted", "computed", "source"])
def test_a_replay_with_the_plan_of_its_capture_is_seen(world: World, frozen: str) -> None:
    def capture(call: Call) -> Call:
        assert isinstance(call, Step)
        fixed = {
            "lengths": lambda: replace(call, lengths=call.lengths.clone()),
            "accepted": lambda: replace(call, accepted=call.accepted.clone()),
            "computed": lambda: replace(call, align=replace(call.align, computed=call.align.computed.clone())),
            "source": lambda: replace(call, copies=replace(call.copies, source=call.copies.source.clone())),
        }
        return fixed[frozen]()

    assert replays(world, capture).equal < PLANS


def test_a_commit_is_held_against_float64(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.005 < ours.beyond_float64(world) <= 1
    world.records.correction.mul_(1 + 2.0**-9)
    right = ours.exact
    monkeypatch.setattr(ours, "exact", lambda start, records, *rest: right(start, _less(records), *rest))
    assert ours.beyond_float64(world) > 1, "a correction of eight bits"


def _less(records: Records) -> Records:
    return Records(records.correction / (1 + 2.0**-9), records.key, records.decay)


def _measurement(device: str = "cpu") -> Measurement:
    return Measurement(device, 2, 0, lambda _: None, Found())


def test_a_call_that_fails_gets_a_note_and_no_time() -> None:
    bench = _measurement()

    def broken() -> None:
        raise RuntimeError("out of shared memory\nand more")

    assert list(bench.time({"good": lambda: None, "bad": broken})) == ["good"]
    assert bench.found.notes == ["bad: out of shared memory"]


class _Vllm:
    """Ours in vLLM's place."""

    def native_verify(self, windows: object, pool: Tensor, slots: Tensor) -> tuple[Call, Tensor]:
        return lambda: None, pool

    def recover_verify(self, windows: Any, pool: Tensor, slots: Tensor) -> tuple[Call, Verified]:
        done = ours.TORCH.verify(windows[-1], pool[-1], slots, RECIPE)
        return lambda: None, Verified(done.o.bfloat16(), done.records)

    def commit(self, pool: Tensor, conv: Tensor, *rest: Any) -> Call:
        records, decays, accepted, slots, align = rest
        made = replace(draw(TINY, 4, "cpu", 0), pool=pool, conv=conv, records=records, decays=decays)
        return ours.commit(replace(made, accepted=accepted, slots=slots), align)


class _Sglang:
    """Ours in SGLang's place."""

    def native_verify(self, windows: Any, pool: Tensor, slots: Tensor) -> tuple[Call, Tensor]:
        call, wide = ours.native_verify(replace(draw(TINY, 4, "cpu", 0), windows=windows, pool=pool, slots=slots))
        call()
        return lambda: None, wide[:, 1:13].unflatten(1, (4, 3)).clone()

    def copy_back(self, pool: Tensor, scratch: Tensor, slots: Tensor, accepted: Tensor) -> Call:
        return lambda: None


def _in_order(seconds: Mapping[str, float]) -> Callable[..., list[Times]]:
    """Times of the calls in the order in which they are asked for, over all calls of ``in_turn``."""
    rest = iter(seconds.values())

    def in_turn(calls: Iterable[Call], runs: int, device: str) -> list[Times]:
        return [Times((next(rest),) * runs, 0.0) for _ in calls]

    return in_turn


def test_targets_of_a_gpu_follow_from_the_times(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "captured", lambda call: call)
    bench, vllm = _measurement("cuda"), _Vllm()
    seconds = {
        ours.VERIFY: 110e-6,
        ours.NATIVE: 90e-6,
        state_vllm.NATIVE: 100e-6,
        state_vllm.RECOVER: 150e-6,
        state_sglang.NATIVE: 80e-6,
        ours.BACK: 20e-6,
        "plain copy": 10e-6,
        state_sglang.BACK: 40e-6,
    }
    monkeypatch.setattr(module, "in_turn", _in_order(seconds))
    module._verify(world, Engines(vllm, _Sglang()), bench)  # type: ignore[arg-type]
    seconds = {ours.COMMIT: 120e-6, "plain copy": 60e-6, state_vllm.COMMIT: 80e-6}
    monkeypatch.setattr(module, "in_turn", _in_order(seconds))
    module._commit(world, True, vllm, bench)  # type: ignore[arg-type]
    found = {(each.subject, each.quantity): each.median for each in bench.found.figures}
    assert found[ours.VERIFY, "4 requests: time"] == pytest.approx(110)
    assert found[state_sglang.BACK, "4 requests: time, of a plain copy of its bytes"] == pytest.approx(4)
    assert found[ours.NATIVE, f"4 requests: states, from {state_sglang.NATIVE}"] == 0
    assert found[state_vllm.RECOVER, f"4 requests: more than {state_vllm.NATIVE}"] == pytest.approx(50)
    assert found[ours.COMMIT, "4 requests, aligned: time, of a plain copy of its bytes"] == pytest.approx(2)
    assert found[ours.COMMIT, f"4 requests, aligned: states, from {state_vllm.COMMIT}"] == 0
    verify, commit = bench.found.targets
    assert verify.found == pytest.approx(10) and verify.wanted == 13.66 and verify.met
    assert commit.found == pytest.approx(1.5) and commit.wanted == 1.0 and not commit.met


def test_a_commit_of_vllm_that_differs_is_seen(world: World) -> None:
    theirs = state_vllm.Theirs.commit(_Vllm(), world, None)  # type: ignore[arg-type]
    assert theirs.pool is not None and theirs.conv is not None
    theirs.pool[0, 1] += 0.1
    theirs.conv[0, 1] += 1
    states, share = state_vllm.agreement_of_commit(world, None, theirs, "x")
    assert states.median > 1e-3 and share.median > 0


def test_on_the_cpu_only_ratios_are_kept_and_what_is_not_there_is_said() -> None:
    bench = _measurement()
    bench_state((2,), Engines(), bench, TINY, ())
    assert {each.unit for each in bench.found.figures} == {"%", "×"} and bench.found.targets == []
    assert any("no graphs" in note for note in bench.found.notes)


def test_the_verb_from_end_to_end(replaycheck: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "bench"
    outcome = replaycheck("bench", "state", "--requests", 2, "--runs", 2, "--out", out, "--json")
    assert outcome.code == 0, outcome.err
    found = Bench.model_validate(json.loads(outcome.out))
    assert Bench.model_validate_json((out / "bench.json").read_text()) == found and found.kind == "state"
    assert {each.subject for each in found.figures} == {ours.VERIFY, ours.COMMIT, ours.BACK, ours.COPY}
    assert any(note.startswith("vllm: its kernels need a GPU") for note in found.notes)
    assert json.loads((out / "environment.json").read_text())["inputs"]["requests"] == "2"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--kernels", "fla"], 2, "ours, vllm, sglang only"),
        (["--requests", 0], 2, "--requests"),
        (["--runs", 1], 2, "--runs"),
    ],
)
def test_what_it_refuses(replaycheck: Callable[..., Any], arguments: list[object], code: int, words: str) -> None:
    outcome = replaycheck("bench", "state", *arguments)
    assert (outcome.code, outcome.out) == (code, "") and words in outcome.err


def test_a_gpu_that_is_not_there_is_the_environment(
    replaycheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = replaycheck("bench", "state", "--device", "cuda")
    assert outcome.code == 4 and "sees no GPU" in outcome.err

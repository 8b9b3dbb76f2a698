"""Free runs of the lab: each arm continues its own answers, under the schedules of the forced run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replaycheck.assets import suite_file
from replaycheck.compare.divergence import divergences
from replaycheck.compare.free_sums import FreeSums
from replaycheck.compare.logits import top1
from replaycheck.compare.record import ArmRecording
from replaycheck.faults.fault import find_fault
from replaycheck.replay.free import not_free, runs_freely
from replaycheck.replay.worker import Work, replay_groups
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm, Cell, Compiler, Effect, Kernel, PoolDtype, Rollback
from replaycheck.schema.frames import to_arrow, to_frame
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import GROUPS, TWINS, chain, group, turn
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.subjects.lab.network import Network
from replaycheck.traces.suite import parse_suite
from tests.lab.runs import run_arms, same_logits
from tests.schedule.trees import arm, fork

BF16 = PoolDtype.BF16
TREES = {**GROUPS, "fork": fork()}


def freely(network: Network, tree: Group, arms: Sequence[Arm], fault: str | None = None) -> list[ArmRecording]:
    """Free recordings, as :func:`run_arms` makes forced ones."""
    network.arena = network.new_arena()
    schedules = [replace(compile_schedule(tree, each), experiment="free") for each in arms]
    if fault:
        schedules = [find_fault(fault).on_schedule(schedule) for schedule in schedules]
    return execute([ArmRun(schedule, network) for schedule in schedules])


def answers(recording: ArmRecording) -> list[list[int]]:
    return [said.tokens.tolist() for said in recording.turns]


def rewritten(tree: Group, recording: ArmRecording) -> Group:
    """The group with an arm's own answers in place of the trace's: a turn's first request decides."""
    said: dict[tuple[str, str], list[int]] = {}
    for request, mine in zip(tree.requests, recording.turns, strict=True):
        said.setdefault((request.trace, request.turn), mine.tokens.tolist())
    traces = []
    for trace in tree.traces:
        turns = tuple(
            each.model_copy(update={"tokens": (each.tokens[0], *said[trace.id, each.id])})
            if (trace.id, each.id) in said
            else each
            for each in trace.turns
        )
        traces.append(trace.model_copy(update={"turns": turns}))
    return tree.model_copy(update={"traces": tuple(traces)})


@pytest.mark.parametrize("name", sorted(TREES))
def test_warm_says_what_split_rounded_says_at_every_position(sglang: Network, name: str) -> None:
    warm, rounded = freely(sglang, TREES[name], [arm(c, pool=BF16) for c in (Compiler.WARM, Compiler.SPLIT_ROUNDED)])
    assert warm.proven_hits == warm.expected_hits
    assert answers(warm) == answers(rounded)
    assert same_logits(warm, rounded)
    assert [a.history for a in warm.turns] == [b.history for b in rounded.turns]


@pytest.mark.parametrize("kernels", [(Kernel.CHUNK, Kernel.RECURRENT), (Kernel.RECURRENT, Kernel.CHUNK)], ids=str)
@pytest.mark.parametrize("policy", ["grid64", "prompt", "all"])
def test_so_it_does_with_unlike_kernels_and_prefilled_answers(
    sglang: Network, policy: str, kernels: tuple[Kernel, Kernel]
) -> None:
    arms = [arm(c, policy, kernels, pool) for pool in PoolDtype for c in (Compiler.WARM, Compiler.SPLIT_ROUNDED)]
    found = freely(sglang, fork(), arms)
    for warm, rounded in zip(found[::2], found[1::2], strict=True):
        assert answers(warm) == answers(rounded)
        assert same_logits(warm, rounded)


@pytest.mark.parametrize(
    "policy",
    [
        SglangPolicy(cache="sglang-extra-buffer", track_interval=64, pipeline=2),
        VllmPolicy(cache="vllm-align", block=64, retain="all"),
    ],
    ids=lambda policy: policy.slug,
)
def test_so_it_does_with_two_steps_in_flight_and_under_engines_caches(sglang: Network, policy: Policy) -> None:
    """A token past each answer is run and discarded; it is said by then."""
    arms = [arm(c, pool=BF16).model_copy(update={"policy": policy}) for c in (Compiler.WARM, Compiler.SPLIT_ROUNDED)]
    warm, rounded = freely(sglang, TWINS, arms)
    assert warm.proven_hits == warm.expected_hits > 0
    assert answers(warm) == answers(rounded)
    assert same_logits(warm, rounded)


@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        ("conversation", Compiler.WARM),
        ("beam", Compiler.WARM),
        ("preempted", Compiler.WARM),
        ("batch", Compiler.WARM),
        ("fork", Compiler.COLD),
    ],
)
def test_it_is_the_forced_run_of_its_own_answers(sglang: Network, name: str, compiler: Compiler) -> None:
    """Histories, forks and states hold what the arm said: the same text forced gives the same bits."""
    free = freely(sglang, TREES[name], [arm(compiler, pool=BF16)])[0]
    own = rewritten(TREES[name], free)
    assert own != TREES[name]
    forced = run_arms(sglang, own, [arm(compiler, pool=BF16)])[0]
    assert answers(free) == answers(forced)
    assert same_logits(free, forced)


def test_each_token_is_the_best_one_of_the_first_request_that_got_there(sglang: Network) -> None:
    """The fifth request asks for the second turn again: it is fed with the answer that is there."""
    tree = GROUPS["conversation"]
    found = freely(sglang, tree, [arm(Compiler.WARM)])[0]
    for said in found.turns[:4]:
        assert said.tokens.tolist() == top1(said.logits).tolist()
    assert found.turns[4].tokens.tolist() == found.turns[1].tokens.tolist()


def test_an_answer_that_a_later_turn_needed_first_is_the_traces(sglang: Network) -> None:
    turns = [turn("u", None, "user", 30), turn("a", "u", "assistant", 8), turn("v", "a", "user", 5)]
    tree = group([*turns, turn("b", "v", "assistant", 6)], ["b", "a"])
    found = freely(sglang, tree, [arm(Compiler.WARM)])[0]
    assert found.turns[1].tokens.tolist() == list(turns[1].tokens[1:])
    assert found.turns[0].tokens.tolist() == top1(found.turns[0].logits).tolist()


def work(model: Path, fault: str | None = None) -> tuple[Work, Cell]:
    arms = tuple(arm(c, pool=BF16) for c in (Compiler.SPLIT_ROUNDED, Compiler.WARM))
    cell = Cell(effect=Effect.EXACT, reference=arms[0].name, candidate=arms[1].name)
    faults = (fault,) if fault else ()
    return Work(arms, (cell,), model, "sglang", faults, KernelChoice(), experiments=("forced", "free")), cell


def test_a_seeded_fault_parts_the_answers_and_pairs_end_there(model: Path) -> None:
    """A stored state is cleared before it is restored. Pairs go up to the first other token, and no later turn follows."""
    tree = chain(100, 30, 20, 30, 9, 30)
    plan, cell = work(model, "stored-cleared")
    found = replay_groups(plan, [tree])[0]
    pairs = to_frame(found.tables["pairs"])
    free, forced = pairs[pairs["experiment"] == "free"], pairs[pairs["experiment"] == "forced"]
    said = to_frame(found.tables["observations"])
    said = said[said["experiment"] == "free"].set_index(["arm", "position"])["token"]
    reference, candidate = (said[each.name] for each in plan.arms)
    first = int(reference.index[(reference != candidate).to_numpy()][0])
    assert free["position"].max() == first
    assert set(free["position"]) == {at for at in forced["position"] if at <= first}
    assert len(free) < len(forced)
    parted = to_frame(divergences(found.tables["pairs"], found.tables["observations"], plan.cells))
    event = parted[parted["experiment"] == "free"].iloc[0]
    assert (event["kind"], event["position"], event["censored"]) == ("argmax", first, False)
    assert (event["token_a"], event["token_b"]) == (reference[first], candidate[first])
    restored = free["position"] - free["offset_from_restore"]
    assert event["offset_from_restore"] == first - restored.dropna().iloc[0]
    sums = FreeSums()
    sums.add(found.tables["pairs"], to_arrow("divergences", parted))
    seen = sums.finish([cell.name])[cell.name]
    assert (seen.positions, seen.branches, seen.diverged) == (len(free), 1, 1)
    assert seen.first_divergence == event["offset_from_restore"]
    clean = replay_groups(work(model)[0], [tree])[0]
    assert to_frame(clean.tables["pairs"])["bits_equal"].all()
    assert clean.tables["pairs"].num_rows == 2 * len(forced)


def test_windows_and_answers_in_one_extend_are_left_out_by_name() -> None:
    plain, extend = arm(Compiler.WARM), arm(Compiler.WARM, answer=Kernel.CHUNK)
    verify = plain.model_copy(update={"rollback": Rollback.COPY})
    again = plain.model_copy(update={"repeat": 1})
    assert runs_freely([plain, extend, verify, again]) == (plain,)
    cells = [Cell(effect=Effect.STATE, reference=plain.name, candidate=each.name) for each in (extend, verify)]
    suite = parse_suite(suite_file("quick"))
    assert not_free(suite, [plain, extend, verify], cells) == ()
    free = suite.model_copy(update={"experiments": ("forced", "free")})
    lines = not_free(free, [plain, extend, verify], cells)
    assert len(lines) == 2
    assert "extend" in lines[0] and "drafts" in lines[1]


def test_the_forced_run_is_the_same_with_and_without_a_free_one(model: Path) -> None:
    plan, _ = work(model)
    both, alone = (replay_groups(each, [fork()])[0] for each in (plan, replace(plan, experiments=("forced",))))
    for table in ("observations", "pairs"):
        rows = to_frame(both.tables[table])
        forced = rows[rows["experiment"] == "forced"].drop(columns="experiment").reset_index(drop=True)
        plain = to_frame(alone.tables[table]).drop(columns="experiment")
        assert forced.astype(str).equals(plain.astype(str))
    assert both.record == alone.record
    assert both.tables["restores"].equals(alone.tables["restores"])
    assert np.isin(["free", "forced"], to_frame(both.tables["pairs"])["experiment"]).all()

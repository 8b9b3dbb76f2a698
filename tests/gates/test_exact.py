"""The gates of ``exact``: each passes a clean run, and each fails on the fault that it is there for, and says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replaycheck.compare.casts import cast
from replaycheck.compare.record import ArmRecording, StateAt
from replaycheck.errors import InternalError
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import GateResult, ProbeResult, Result
from tests import synthetic_result as made
from tests import synthetic_run as syn

POOL = PoolDtype.FP16
Recordings = dict[str, ArmRecording]


def warm(found: Recordings) -> ArmRecording:
    return next(one for name, one in found.items() if name.startswith("warm"))


def logit_bit(found: Recordings) -> Recordings:
    turn = warm(found).turns[-1]
    logits = turn.logits.copy()
    logits[2, 5] = np.nextafter(logits[2, 5], np.float32(9))
    return syn.in_warm(found, turns=(*warm(found).turns[:-1], replace(turn, logits=logits)))


def in_first_restore(change: Callable[[StateAt], StateAt]) -> made.Change:
    def changed(found: Recordings) -> Recordings:
        first, *others = warm(found).restores
        return syn.in_warm(found, restores=(change(first), *others))

    return changed


def via_bf16(state: StateAt) -> StateAt:
    return replace(state, temporal=cast(cast(state.temporal, PoolDtype.BF16), POOL))


def conv_bytes(layer: int) -> Callable[[StateAt], StateAt]:
    def change(state: StateAt) -> StateAt:
        conv = state.conv.copy()
        conv[layer, 0] ^= 1
        return replace(state, conv=conv)

    return change


def bf16_written(found: Recordings) -> Recordings:
    shares = warm(found).written[0].bf16_share.copy()
    shares[1, 0] = 1.0
    return syn.in_warm(found, written=(replace(warm(found).written[0], label="interior", bf16_share=shares),))


def other_tail(found: Recordings) -> Recordings:
    return syn.in_warm(found, kernels={"history": frozenset({"recurrent"}), "answer": frozenset({"recurrent"})})


FAULTS: dict[str, tuple[made.Change, str, float, str]] = {
    "logits-bits": (logit_bit, "logits-bits", 1, "exact/"),
    "restored-state": (in_first_restore(via_bf16), "restored-state", 1e-4, "exact/"),
    "conv-bytes": (in_first_restore(conv_bytes(1)), "conv-bytes", 1, "exact/"),
    "conv-bytes of layer 0, against split, too": (in_first_restore(conv_bytes(0)), "conv-bytes", 2, "exact/"),
    "provenance": (bf16_written, "provenance", 1, "interior, layer 2, head 0"),
    "same-kernel": (other_tail, "same-kernel", 2, "exact/"),
    "labels": (lambda found: syn.in_warm(found, label_mismatches=3), "labels", 3, "warm/"),
    "hits": (lambda found: syn.in_warm(found, proven_hits=4), "hits", 2, "warm/"),
}


def gate(result: Result, name: str) -> GateResult:
    return next(gate for gate in result.gates if gate.name == name)


@pytest.mark.parametrize(("change", "name", "least", "worst"), FAULTS.values(), ids=FAULTS)
def test_each_gate_fails_on_its_fault_alone(
    tmp_path: Path, change: made.Change, name: str, least: float, worst: str
) -> None:
    result = made.whole(tmp_path / "run", change)
    judged = gate(result, name)
    assert judged.verdict == "fail"
    assert judged.value.value is not None
    assert judged.value.value >= least
    assert worst in judged.worst
    assert judged.worst in judged.sentence
    assert [other.name for other in result.gates if other.verdict != "pass"] == [name]
    assert result.summary.exit_code == 1


def test_conv_bytes_after_a_reduced_pool_may_differ_from_split_past_layer_0(tmp_path: Path) -> None:
    """The synthetic fault is seen by the exact cell only, hence one state and not two."""
    result = made.whole(tmp_path / "run", in_first_restore(conv_bytes(1)))
    assert gate(result, "conv-bytes").value.value == 1


def test_conv_bytes_after_an_fp32_pool_must_be_those_of_split_in_every_layer(tmp_path: Path) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run, in_first_restore(conv_bytes(1)), PoolDtype.FP32)
    assert gate(made.judged(run, pool=PoolDtype.FP32), "conv-bytes").value.value == 2


def test_a_bf16_pool_alone_is_nothing_that_provenance_is_about(tmp_path: Path) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run, pool=PoolDtype.BF16)
    result = made.judged(run, pool=PoolDtype.BF16)
    found = gate(result, "provenance")
    assert (found.verdict, found.value.value) == ("not-judged", None)
    assert found.sentence == "Not judged: every pool is bf16, so its states fit bf16 as they should."
    assert (result.summary.not_judged, result.summary.exit_code) == (1, 0)


def test_a_run_whose_only_gate_is_about_something_else_is_vacuous(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'schema = "replaycheck.gates/1"\nname = "mine"\n'
        '[[gate]]\nname = "only"\nmetric = "bf16-like-states"\nbound = 0\nwhy = "a test"\n'
        'admitted_by = "bf16-snapshot"\nmin_traces = 1\n'
    )
    run = made.started(tmp_path / "run")
    made.fill(run, pool=PoolDtype.BF16)
    result = made.judged(run, pool=PoolDtype.BF16, gates=[str(file)])
    assert [each.verdict for each in result.gates] == ["not-judged"]
    assert result.summary.verdict == "vacuous"


@pytest.mark.parametrize(
    ("name", "values", "judged_by"),
    [
        ("double-rounding", {"mismatches": 1}, "double-rounding"),
        ("kernels/chunk/sglang/strong-decay", {"error": 3e-3, "predicted": 1e-3, "ratio": 3.0}, "kernel-oracle"),
    ],
)
def test_probe_gates_fail_on_a_bad_probe(
    tmp_path: Path, name: str, values: dict[str, float | int | str | None], judged_by: str
) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run)
    bad = ProbeResult(name=name, verdict="fail", sentence="bad", values=values)
    others = [probe for probe in made.PROBES if probe.name != name]
    judged = gate(made.judged(run, [*others, bad]), judged_by)
    assert (judged.verdict, judged.worst) == ("fail", name)


def test_probes_that_did_not_run_are_vacuous_and_broken_ones_our_error(tmp_path: Path) -> None:
    run = made.started(tmp_path / "run")
    made.fill(run)
    result = made.judged(run, [])
    assert [one.name for one in result.gates if one.verdict == "vacuous"] == ["double-rounding", "kernel-oracle"]
    broken = ProbeResult(name="double-rounding", verdict="fail", sentence="", values={"mismatches": None})
    with pytest.raises(InternalError, match="mismatches = None"):
        made.judged(run, [broken])


def test_no_proven_hit_makes_the_run_fail_by_hits_and_the_cells_vacuous(tmp_path: Path) -> None:
    result = made.whole(tmp_path / "run", lambda found: syn.in_warm(found, proven_hits=0))
    assert gate(result, "hits").verdict == "fail"
    assert gate(result, "logits-bits").verdict == "vacuous"
    assert result.summary.exit_code == 1


def test_no_hit_expected_is_vacuous_not_pass(tmp_path: Path) -> None:
    result = made.whole(tmp_path / "run", lambda found: syn.in_warm(found, proven_hits=0, expected_hits=0))
    assert gate(result, "hits").verdict == "vacuous"
    assert result.summary.exit_code == 5


def test_zero_of_n_carries_its_upper_bound(tmp_path: Path) -> None:
    judged = gate(made.whole(tmp_path / "run"), "logits-bits")
    assert judged.value.value == 0
    assert judged.value.n == 45
    assert judged.value.high == pytest.approx(45 * (1 - 0.05 ** (1 / 45)))
    assert "0 of 45 positions" in judged.sentence

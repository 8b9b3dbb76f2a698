"""Each signature finds its fault, says where it is, and is silent about what the evidence doesn't prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from replaycheck.diagnose.findings import Evidence, findings
from replaycheck.schema.gaps import Where
from replaycheck.schema.result import Estimate, GateResult, ProbeResult
from tests.diagnose.conftest import restore

Spoil = Callable[[Callable[[str, str, int, int], bool]], Evidence]
WithRestores = Callable[..., Evidence]


def codes(evidence: Evidence) -> list[str]:
    return [finding.code for finding in findings(evidence)]


def sentence(evidence: Evidence) -> str:
    (finding,) = findings(evidence)
    return finding.sentence


def test_clean_evidence_has_no_finding(clean: Evidence) -> None:
    assert findings(clean) == ()


def test_rounded_snapshots_are_named_with_pools_kind_layers_and_heads(spoil: Spoil) -> None:
    evidence = spoil(lambda pool, label, layer, head: pool != "bf16" and label == "interior")
    text = sentence(evidence)
    assert text.startswith("In the fp32 and fp16 pools: snapshots inside an extend")
    assert ": snapshots inside an extend that doesn't end on the grid (label interior), in " in text
    assert "all 2 KDA layers (0, 2), both heads (fp32: all 20 states and fp16: all 20 states)" in text
    assert "Clean are snapshots at the end of an extend off the grid (label final: 0 of 40 states), " in text
    assert "and the bf16 pool (warm equals split-rounded bit for bit at all 50 positions)." in text


def test_one_head_of_one_layer_is_named_alone(spoil: Spoil) -> None:
    evidence = spoil(lambda pool, label, layer, head: (pool, label, layer, head) == ("fp32", "final", 2, 1))
    text = sentence(evidence)
    assert text.startswith("In the fp32 pool: ")
    assert "in KDA layer 2, head 1 (fp32: 5 of 20 states)" in text
    assert "(label final: 0" not in text


def test_the_bf16_pool_is_called_clean_only_if_the_exact_comparison_proves_it(spoil: Spoil) -> None:
    evidence = spoil(lambda pool, label, layer, head: pool == "fp32" and label == "interior")
    damaged = tuple(c.model_copy(update={"bits_differ": 1}) if c.name == "exact/bf16" else c for c in evidence.cells)
    assert "the bf16 pool (" in sentence(evidence)
    assert "the bf16 pool (" not in sentence(replace(evidence, cells=damaged))
    assert "the bf16 pool (" not in sentence(replace(evidence, cells=()))


def test_a_kind_of_snapshot_that_wasnt_audited_isnt_called_clean(spoil: Spoil) -> None:
    evidence = spoil(lambda pool, label, layer, head: pool == "fp32" and label == "interior")
    unseen = replace(evidence, audits=tuple(row for row in evidence.audits if row.label != "final"))
    assert "label final" not in sentence(unseen)


def test_extends_that_end_on_the_grid_are_told_apart_where_the_label_does(spoil: Spoil) -> None:
    evidence = spoil(lambda pool, label, *_: pool == "fp32" and label == "interior")
    audits = tuple(
        r.model_copy(update={"label": "interior-grid"}) if r.label == "decode" else r for r in evidence.audits
    )
    text = sentence(replace(evidence, audits=audits))
    assert "snapshots inside an extend that doesn't end on the grid (label interior)" in text
    assert "snapshots inside an extend that ends on the grid (label interior-grid: 0 of 20 states)" in text


def test_pairs_of_kernels_without_the_fault_are_named_clean(spoil: Spoil) -> None:
    evidence = spoil(lambda pool, *_: pool == "fp32")
    assert "as kernels" not in sentence(evidence)
    arms = tuple(a.model_copy(update={"history": "recurrent"}) if a.pool == "fp16" else a for a in evidence.arms)
    assert "all arms with recurrent-chunk as kernels of history and tail" in sentence(replace(evidence, arms=arms))


def test_bf16_values_in_a_bf16_pool_are_no_finding(spoil: Spoil) -> None:
    assert findings(spoil(lambda pool, *_: pool == "bf16")) == ()


def test_an_unexplained_state_error_is_reported_at_its_first_restore_only(with_restores: WithRestores) -> None:
    evidence = with_restores(
        {"restore": "0/1@64"},
        {"restore": "0/2@128", "layer": 2, "rel_error": 1e-3, "max_error": 2e-3},
        {"restore": "0/3@1000", "layer": 0, "rel_error": 0.5, "max_error": 1.0},
    )
    (finding,) = findings(evidence)
    assert finding.code == "RC102"
    assert "the largest relative error is 0.001" in finding.sentence
    assert "1 first faulty restores in 1 cells and 1 traces" in finding.sentence
    assert "0/2@128" in finding.evidence[0]


def test_a_state_error_that_bf16_bits_explain_isnt_called_unexplained(
    spoil: Spoil, with_restores: WithRestores
) -> None:
    rounded = spoil(lambda pool, label, *_: pool == "fp32" and label == "interior")
    restores = with_restores({"rel_error": 1e-3, "max_error": 2e-3}).restores
    assert codes(replace(rounded, restores=restores)) == ["RC101"]


def test_conv_bytes_of_the_first_layer_are_a_fault_of_position(with_restores: WithRestores) -> None:
    evidence = with_restores({"conv_equal": False, "max_error": 1.0, "rel_error": 0.1}, {"layer": 2})
    assert codes(evidence) == ["RC202"]


def test_conv_bytes_of_a_deeper_layer_alone_prove_no_position_fault(with_restores: WithRestores) -> None:
    assert codes(with_restores({}, {"layer": 2, "conv_equal": False})) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"label_mismatches": 2}, "RC201"),
        ({"proven_hits": 3}, "RC301"),
        ({"kernels": {"history": ("recurrent",)}}, "RC601"),
    ],
    ids=["label of another position", "missing hit", "other kernel"],
)
def test_what_one_warm_arm_shows(clean: Evidence, change: dict[str, object], code: str) -> None:
    arms = tuple(a.model_copy(update=change) if a.name == "warm/fp16" else a for a in clean.arms)
    assert codes(replace(clean, arms=arms)) == [code]


def test_kernels_that_one_arm_doesnt_show_arent_different(clean: Evidence) -> None:
    arms = tuple(a.model_copy(update={"kernels": {}}) if a.name == "warm/fp16" else a for a in clean.arms)
    assert codes(replace(clean, arms=arms)) == []


def test_a_failed_kernel_probe_is_found_and_a_failed_state_probe_isnt_blamed_on_a_kernel(clean: Evidence) -> None:
    failed = [ProbeResult(name=name, verdict="fail", sentence="s", values={}) for name in ("kernel-chunk", "cast")]
    assert codes(replace(clean, probes=(failed[0],))) == ["RC110"]
    assert codes(replace(clean, probes=(failed[1],))) == []


def test_a_vacuous_cell_is_found_with_its_reason(clean: Evidence) -> None:
    cells = (clean.cells[0].model_copy(update={"vacuous": True, "why_vacuous": "no proven hit"}), *clean.cells[1:])
    assert "1 of 3 cells prove nothing: no proven hit" in sentence(replace(clean, cells=cells))


def test_an_inconclusive_gate_means_too_few_traces(clean: Evidence) -> None:
    gate = GateResult(
        name="g",
        file="exact",
        metric="m",
        scope="",
        verdict="inconclusive",
        value=Estimate(value=0, n=3, method="count"),
        bound=0,
        worst="",
        why="w",
        fault="f",
        fault_value=1,
        sentence="3 traces, and 64 are needed.",
    )
    assert codes(replace(clean, gates=(gate,))) == ["RC902"]


def test_every_finding_carries_the_command_that_repeats_it(spoil: Spoil) -> None:
    (finding,) = findings(spoil(lambda pool, *_: pool == "fp32"))
    assert finding.reproduce == "replaycheck run --seed 0"


def bad_restores(evidence: Evidence, **more: object) -> Evidence:
    """Two faulty restores of the exact fp16 cell, in two traces; the worse one is the second's."""
    rows = [
        restore(cell="exact/fp16", trace="calm", restore="0/1@64", rel_error=1e-3, max_error=1e-3, **more),
        restore(cell="exact/fp16", trace="bad", restore="1/2@128", rel_error=0.5, max_error=1.0, **more),
        restore(cell="exact/fp16", trace="bad", restore="1/3@300", rel_error=0.9, max_error=9.0, **more),
        restore(cell="exact/fp32", trace="other", restore="0/4@64", rel_error=0.9, max_error=99.0, **more),
    ]
    return replace(evidence, restores=pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("change", "code"), [({"label_mismatches": 2}, "RC201"), ({"kernels": {"history": ("recurrent",)}}, "RC601")]
)
def test_the_place_is_the_worst_first_faulty_restore_of_the_arms_that_are_meant(
    clean: Evidence, change: dict[str, object], code: str
) -> None:
    arms = tuple(a.model_copy(update=change) if a.name == "warm/fp16" else a for a in clean.arms)
    spoilt = bad_restores(replace(clean, arms=arms))
    (finding,) = (found for found in findings(spoilt) if found.code == code)
    assert finding.place == Where(trace="bad", branch=1, turn=2)


def test_a_rounded_state_is_placed_and_one_that_no_restore_shows_has_no_place(spoil: Spoil) -> None:
    rounded = spoil(lambda pool, label, *_: pool == "fp16" and label == "interior")
    (finding,) = (found for found in findings(bad_restores(rounded)) if found.code == "RC101")
    assert finding.place == Where(trace="bad", branch=1, turn=2)
    (unseen,) = findings(rounded)
    assert unseen.place is None

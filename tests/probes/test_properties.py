"""Every property passes for an honest kernel and notices the mistake that it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replaycheck.probes.properties import NAMES, probe
from replaycheck.probes.subject import Subject
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import SnapshotSource
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.providers import Capabilities
from tests.probes import bad_kernels as bad

MISTAKES = {
    "error/beta-raw": (bad.subject(bad.beta_raw), "broken", "the recipe predicts"),
    "error/more-rounding": (bad.subject(bad.more_rounding), "broken", "mild decay"),
    "recipe/inverse-in-fp32": (bad.subject(bad.rounding(inverse=Precision.FP32)), "broken", "departs at o: "),
    "recipe/beta-in-bf16": (bad.subject(bad.rounding(beta=Precision.BF16)), "broken", "departs at o: "),
    "recipe/recurrent": (
        bad.subject(bad.rounding(recurrent_beta=Precision.BF16), kernel=RECURRENT_CPU),
        "broken",
        "departs at o: ",
    ),
    "spans/overflow": (bad.subject(bad.overflowing), "broken", "not finite"),
    "spans/clamped": (bad.subject(bad.clamped), "broken", "beyond it: strong decay"),
    "activation/beta-raw": (bad.subject(bad.beta_raw), "broken", "beta raw, without its sigmoid"),
    "activation/no-bias": (bad.subject(bad.no_bias), "broken", "decay without dt_bias"),
    "layout/returned": (bad.subject(bad.returned_transposed), "broken", "returned transposed"),
    "layout/read": (bad.subject(bad.read_transposed), "broken", "read transposed"),
    "restore/one-chunk-late": (bad.subject(bad.one_chunk_late), "broken", "restored at every boundary"),
    "restore/from-chunk-state": (bad.subject(bad.from_chunk_state), "broken", "isn't the accumulator"),
    "snapshot/from-chunk-state": (bad.subject(bad.from_chunk_state), "broken", "bits must be the same"),
    "snapshot/one-chunk-late": (bad.subject(bad.one_chunk_late), "broken", "bits must be the same"),
    "asking/other-kernel": (bad.subject(bad.other_when_asked), "broken", "bits must be the same"),
    "restore/reads-a-rounded-pool": (
        bad.subject(pool=bad.pool_call(bad.much_too_coarse)),
        "broken",
        "restored from a reduced pool: differs",
    ),
    "error/store-via-bf16": (bad.subject(pool=bad.pool_call(bad.much_too_coarse)), "broken", "in reduced pools"),
    "stores/via-bf16": (bad.subject(pool=bad.pool_call(bad.via_bf16)), "broken", "aren't one cast"),
    "stores/rounded-final": (bad.subject(bad.rounded_final), "broken", "aren't fp32 accumulators"),
    "untouched/neighbour": (bad.subject(pool=bad.pool_call(neighbour=True)), "broken", "isn't its own"),
    "untouched/argument": (bad.subject(bad.writes_arguments), "broken", "argument v"),
    "untouched/nan": (bad.subject(bad.nan_spreads), "broken", "sequence of NaN"),
    "fp16-range/saturates": (bad.subject(pool=bad.pool_call(bad.saturating)), "broken", "overflow"),
    "fp16-range/flushes": (bad.subject(pool=bad.pool_call(bad.flushing)), "broken", "subnormal"),
    "repeat/race": (bad.subject(bad.unlike_itself), "broken", "bits must be the same"),
    "alone/noise": (bad.subject(bad.pack_noise), "noise", "other bits"),
    "alone/other-sequence": (bad.subject(bad.pack_fault), "broken", "differs by"),
    "batch/noise": (bad.subject(bad.batch_noise), "noise", "other bits in 4 of 8 cases"),
    "batch/fault": (bad.subject(bad.batch_fault), "broken", "differs by 0.34"),
    "future/middle": (bad.subject(bad.changed(recipe=bad.middle), recipe="vllm"), "noise", "other bits"),
    "future/mean": (bad.subject(bad.future_mean), "broken", "a prefix with tokens after it"),
    "off-grid/starts-empty": (bad.subject(bad.starts_empty), "broken", "cut off the grid"),
    "forms/beta-raw": (bad.subject(bad.beta_raw), "noise", "not a bug by itself"),
}


@pytest.mark.parametrize(("kernel", "verdict", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_property_notices_the_mistake_that_it_is_for(
    kernel: Subject, verdict: str, words: str, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id.partition("/")[0]
    cell = probe(name, kernel)
    assert cell.verdict == verdict, cell.sentence
    assert words in cell.sentence


def test_every_property_has_a_mistake() -> None:
    assert {case.partition("/")[0] for case in MISTAKES} == set(NAMES)


HONEST = {
    "chunk": bad.subject(),
    "chunk-in-place": bad.subject(pool=bad.HONEST_POOL),
    "chunk-on-slots": bad.subject(pool=bad.honest_slots),
    "recurrent": bad.subject(kernel=RECURRENT_CPU),
    "exact-recipe": bad.subject(recipe="exact"),
}


POOLS = ("error", "restore", "stores", "untouched", "fp16-range")


@pytest.mark.parametrize("kernel", HONEST.values(), ids=HONEST)
def test_an_honest_kernel_has_nothing_broken(kernel: Subject, request: pytest.FixtureRequest) -> None:
    names = POOLS if "chunk-" in request.node.callspec.id else NAMES
    verdicts = {name: probe(name, kernel) for name in names}
    assert [cell for cell in verdicts.values() if cell.verdict == "broken"] == []
    for name in ("restore", "snapshot", "asking", "stores", "untouched", "fp16-range", "repeat", "alone", "batch"):
        assert name not in names or verdicts[name].verdict == "exact", name
    assert verdicts["error"].verdict == "noise"


def test_a_recurrent_kernel_is_exact_off_the_grid_and_a_chunk_kernel_isnt() -> None:
    assert probe("off-grid", HONEST["recurrent"]).verdict == "exact"
    cell = probe("off-grid", HONEST["chunk"])
    assert cell.verdict == "noise"
    assert cell.number is not None and cell.predicted is not None and 0 < cell.number < cell.predicted


def test_noise_has_a_number_and_what_predicts_it() -> None:
    cell = probe("error", HONEST["chunk"])
    assert cell.number is not None and cell.predicted is not None
    assert 0.3 * cell.predicted < cell.number < cell.predicted


def test_the_smallest_example_names_lengths_token_element_and_both_values() -> None:
    example = probe("error", bad.subject(bad.beta_raw)).example
    assert "length 1:" in example
    cell = probe("restore", bad.subject(bad.one_chunk_late))
    assert cell.example.startswith("kimi decay, length 66, restored at 64: o differs from token 0 on (")
    assert "worst o[" in cell.example and "was expected" in cell.example


def test_what_a_kernel_cannot_do_is_said_with_the_reason() -> None:
    recurrent = HONEST["recurrent"]
    final = replace(recurrent.found.kernel, sources=frozenset({SnapshotSource.FINAL}))
    subject = replace(recurrent, found=replace(recurrent.found, kernel=final))
    assert {probe(name, subject).verdict for name in ("snapshot", "asking")} == {"can't"}
    cell = probe("restore", subject)
    assert (cell.verdict, cell.sentence.partition(":")[0]) == ("exact", "call cut at every boundary")
    no_fp16 = bad.subject(can=replace(bad.CAN, pool_dtypes=bad.CAN.pool_dtypes[:2]))
    assert probe("fp16-range", no_fp16).sentence == "it has no fp16 pool"


def test_decays_that_cannot_overflow_are_no_evidence() -> None:
    short = replace(bad.subject(), sizes=replace(bad.subject().sizes, lengths=(2, 1, 2, 2)))
    cell = probe("spans", short)
    assert cell.verdict == "can't"
    assert "overflow needs more than 88" in cell.sentence


def test_a_refusal_of_the_kernel_is_no_fault() -> None:
    """The contract's ValueError begins with the kernel's name; another ValueError is a crash."""
    assert probe("error", bad.subject(bad.raising("bad/kernel can't run K=32"))).verdict == "can't"
    cell = probe("error", bad.subject(bad.raising("shapes don't fit")))
    assert (cell.verdict, cell.sentence) == ("broken", "crashed: ValueError: shapes don't fit")


def test_a_form_that_does_not_run_is_not_this_kernels_fault() -> None:
    chunk, other = bad.subject(), bad.subject(bad.crashing, kernel=RECURRENT_CPU)
    both = replace(chunk, provider=replace(chunk.provider, kernels=(chunk.found, other.found)))
    cell = probe("forms", both)
    assert (cell.verdict, cell.sentence) == ("can't", "bad/kernel doesn't run: RuntimeError: illegal memory access")


def test_only_a_chunk_state_makes_restore_noise() -> None:
    chunk = HONEST["chunk"]
    stored = replace(chunk.found.kernel, sources=frozenset({SnapshotSource.CHUNK_STATE, SnapshotSource.FINAL}))
    subject = replace(chunk, found=replace(chunk.found, kernel=stored))
    assert "call cut at every boundary: same bits" in probe("restore", subject).sentence
    cells = {name: probe(name, subject) for name in ("restore", "snapshot")}
    assert {cell.verdict for cell in cells.values()} == {"noise"}
    assert all(cell.number is not None and 1e-4 < cell.number < 3e-3 for cell in cells.values())


def test_a_kernel_that_raises_is_broken_and_says_what_it_raised() -> None:
    cell = probe("error", bad.subject(bad.crashing))
    assert (cell.verdict, cell.sentence) == ("broken", "crashed: RuntimeError: illegal memory access")


def test_a_kernel_of_equal_widths_is_probed_square() -> None:
    can = Capabilities((), devices=frozenset({"cpu"}), equal_widths=True)
    cell = probe("layout", bad.subject(can=can))
    assert cell.verdict == "noise" and "can't do K ≠ V" in cell.sentence

"""A bound under what the reported log-probabilities can show judges a number format: it is refused, never passed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge_gate
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.gates.tables import InMemory
from replaycheck.replay.assemble import conv_counts
from replaycheck.replay.parts import RunTables
from replaycheck.replay.precision import with_precision
from replaycheck.schema.result import GateResult
from replaycheck.schema.semantics import LogprobSemantics
from replaycheck.schema.tables import OBSERVATIONS
from tests import synthetic_result as made

GATES = """schema = "replaycheck.gates/1"
name = "mine"

[[gate]]
name = "tail"
metric = "tail-quantile"
bound = {bound}
why = "A test's."
admitted_by = "restore-late"
min_traces = 1
"""


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """Of a clean run in which every cell agrees in every bit."""
    result = made.whole(tmp_path / "run")
    run = made.started(tmp_path / "again")
    made.fill(run)
    return Evidence.of(result, conv_counts(run), RunTables(run))


def judged(folder: Path, evidence: Evidence, bound: str) -> GateResult:
    path = folder / "mine.toml"
    path.write_text(GATES.format(bound=bound))
    loaded: LoadedGates = load_gates(str(path))
    return judge_gate(loaded, loaded.gates.gate[0], evidence)


def test_a_bound_under_the_precision_of_four_decimals_is_refused(tmp_path: Path, evidence: Evidence) -> None:
    coarse = replace(evidence, precision="4 decimals")
    found = judged(tmp_path, coarse, "0.00005")
    assert found.verdict == "inconclusive"
    assert "log-probabilities in 4 decimals can't show less than 0.0001" in found.sentence
    assert judged(tmp_path, coarse, "10").verdict != "inconclusive"


def test_the_same_bound_judges_where_logits_are_fp32_and_zero_always_does(tmp_path: Path, evidence: Evidence) -> None:
    exact = judged(tmp_path, replace(evidence, precision="fp32"), "0.00005")
    assert "can't show less" not in exact.sentence
    assert "can't show less" not in judged(tmp_path, replace(evidence, precision="4 decimals"), "0").sentence


def test_a_subjects_own_numbers_are_looked_at_and_logits_are_not() -> None:
    values = np.round(np.random.default_rng(0).normal(-3, 1, 500), 4)
    columns = {name: pa.nulls(500, OBSERVATIONS.field(name).type) for name in OBSERVATIONS.names}
    table = pa.table(columns | {"logprob": pa.array(values)}, schema=OBSERVATIONS)
    unknown = LogprobSemantics(precision=None)
    assert with_precision(unknown, InMemory({"observations": table})).precision == "4 decimals"
    assert with_precision(LogprobSemantics(), InMemory({"observations": table})).precision == "fp32"


def test_a_subject_of_unknown_precision_is_taken_at_its_word(tmp_path: Path) -> None:
    result = made.whole(tmp_path / "run")
    unknown = result.model_copy(update={"logprobs": LogprobSemantics(precision=None)})
    assert Evidence.of(unknown, (), InMemory()).precision == "fp64"
    assert Evidence.of(result, (), InMemory()).precision == "fp32"


def test_runs_of_other_precision_are_not_unlike() -> None:
    assert LogprobSemantics(precision="4 decimals").unlike(LogprobSemantics()) == {}

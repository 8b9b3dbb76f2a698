"""Gate files and their admission: errors name file and key, and a gate that can't fail may not judge."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from replaycheck.errors import ExitCode, UsageError
from replaycheck.gates.admission import (
    admission_path,
    admit,
    check_admission,
    gate_digest,
    read_admission,
    write_admission,
)
from replaycheck.gates.judge import exit_code, judge
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.replay.rejudge import rejudge
from replaycheck.replay.store import Run
from replaycheck.schema.gate import Admission, Scope
from tests import synthetic_result as made

GATE = """
[[gate]]
name = "bits"
metric = "positions-bits-differ"
scope = { effect = "exact", pool = ["fp16"] }
bound = 0
why = "equal by construction"
admitted_by = "bf16-snapshot"
min_traces = 2
"""
HEAD = 'schema = "replaycheck.gates/1"\nname = "mine"\n'


def written(path: Path, text: str) -> LoadedGates:
    path.write_text(text)
    return load_gates(str(path))


@pytest.fixture
def mine(tmp_path: Path) -> LoadedGates:
    return written(tmp_path / "mine.toml", HEAD + GATE)


def admitted(loaded: LoadedGates, value: float = 3.0) -> LoadedGates:
    records = {gate.name: admit(gate, 0.0, value) for gate in loaded.gates.gate}
    write_admission(loaded, records, "m1", "s1", {"torch": "2"})
    return replace(loaded, admission=read_admission(admission_path(loaded.path)))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("bound = 0", "", "line 4: gate[0]: give bound, or floor and factor"),
        ("bound = 0", "bound = nan", "gate[0].bound"),
        ("bound = 0", "limit = 0\nbound = 0", "gate[0].limit"),
        ("exact", "magic", "gate[0].scope.effect"),
        ("fp16", "fp8", "gate[0].scope.pool"),
        ("positions-bits-differ", "vibes", "metric 'vibes' is unknown; allowed are 'positions-bits-differ'"),
        ("positions-bits-differ", "missing-hits", "leave out scope.effect"),
        ("bound = 0", "bound = = 0", "line 8"),
        ("replaycheck.gates/1", "replaycheck.gates/9", "schema"),
        ('"bits"', '"Bits!"', "gate[0].name"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(UsageError, match=re.escape(expected)) as caught:
        written(path, (HEAD + GATE).replace(old, new, 1))
    assert str(path) in str(caught.value)


def test_a_scope_that_a_probe_would_ignore_is_refused(tmp_path: Path) -> None:
    text = (HEAD + GATE).replace("positions-bits-differ", "kernel-error-ratio").replace('effect = "exact", ', "")
    with pytest.raises(UsageError, match=r"leave out scope\.pool"):
        written(tmp_path / "mine.toml", text)


def test_twins_empty_files_and_absent_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is there twice"):
        written(tmp_path / "a.toml", HEAD + GATE + GATE)
    with pytest.raises(UsageError, match=r"gate"):
        written(tmp_path / "b.toml", HEAD)
    with pytest.raises(UsageError, match="can't be read"):
        load_gates(str(tmp_path / "none.toml"))
    with pytest.raises(
        UsageError,
        match=r"gate file 'exactly' is unknown \(did you mean 'exact'\?\); those that ship are 'ci', 'exact'",
    ):
        load_gates("exactly")


def test_a_file_of_256_kib_is_read_and_a_larger_one_refused(tmp_path: Path) -> None:
    fits = HEAD + GATE + "#" * (2**18 - len(HEAD + GATE))
    assert written(tmp_path / "fits.toml", fits).gates.gate[0].name == "bits"
    with pytest.raises(UsageError, match="has more than 262,144 bytes"):
        written(tmp_path / "larger.toml", fits + "#")


@pytest.mark.parametrize(
    ("old", "new", "over"),
    [
        ("bound = 0", "bound = 0", False),
        ('effect = "exact", ', "", False),
        ("bound = 0", 'floor = "run"\nfactor = 1', True),
        ("exact", "state", True),
    ],
)
def test_a_gate_over_a_floor_or_outside_of_exact_cells_judges_noise(
    tmp_path: Path, old: str, new: str, over: bool
) -> None:
    assert written(tmp_path / "mine.toml", (HEAD + GATE).replace(old, new)).over_noise is over


def test_a_free_run_is_for_metrics_that_read_one(tmp_path: Path) -> None:
    free = (HEAD + GATE).replace('effect = "exact"', 'effect = "exact", experiment = "free"')
    with pytest.raises(UsageError, match="doesn't look at experiments"):
        written(tmp_path / "bits.toml", free)
    worst = written(tmp_path / "worst.toml", free.replace("positions-bits-differ", "worst-trace"))
    assert worst.gates.gate[0].scope.experiment == "free"


@pytest.mark.parametrize("factor", ["1", "0.5"])
def test_a_ratio_needs_a_factor_above_1(tmp_path: Path, factor: str) -> None:
    ratio = (
        (HEAD + GATE)
        .replace("positions-bits-differ", "ratio-to-floor")
        .replace("bound = 0", 'floor = "num"\nfactor = F')
    )
    assert written(tmp_path / "fits.toml", ratio.replace("F\n", "1.01\n")).gates.gate[0].factor == 1.01
    with pytest.raises(UsageError, match=rf"takes a factor above 1, the ratio of no difference; given {factor}"):
        written(tmp_path / "mine.toml", ratio.replace("F\n", f"{factor}\n"))


def test_shipped_gates_name_the_faults_that_exist_for_them() -> None:
    loaded = load_gates("exact")
    assert loaded.shipped
    assert {gate.name: gate.admitted_by for gate in loaded.gates.gate} == {
        "logits-bits": "bf16-snapshot",
        "restored-state": "bf16-snapshot",
        "conv-bytes": "conv-late",
        "provenance": "bf16-snapshot",
        "same-kernel": "tail-kernel",
        "labels": "restore-late",
        "hits": "lost-checkpoint",
        "double-rounding": "via-bf16",
        "kernel-oracle": "beta-raw",
    }


def test_a_record_is_written_beside_the_file_and_admits_it(mine: LoadedGates) -> None:
    loaded = admitted(mine)
    assert admission_path(mine.path).name == "mine.admission.json"
    assert check_admission(loaded, "m1", "s1") == ()
    assert load_gates(str(mine.path)).admission == loaded.admission


@pytest.mark.parametrize(("clean", "faulty"), [(0.0, 0.0), (0.0, None), (None, 3.0), (1.0, 3.0)])
def test_a_fault_that_does_not_exceed_the_bound_admits_nothing(
    mine: LoadedGates, clean: float | None, faulty: float | None
) -> None:
    with pytest.raises(UsageError, match="isn't admitted"):
        admit(mine.gates.gate[0], clean, faulty)


def weak(record: Admission) -> Admission:
    gates = {name: gate.model_copy(update={"value": 0.0}) for name, gate in record.gates.items()}
    return record.model_copy(update={"gates": gates})


STALE = {
    "no record": (lambda record: None, "no record shows that its gates can fail"),
    "other model": (lambda record: record.model_copy(update={"model_digest": "m2"}), "another model"),
    "other suite": (lambda record: record.model_copy(update={"suite_digest": "s2"}), "another suite"),
    "gate without record": (lambda record: record.model_copy(update={"gates": {}}), "has no record of admission"),
    "weak fault": (weak, "doesn't tell its fault"),
}


@pytest.mark.parametrize(("change", "expected"), STALE.values(), ids=STALE)
def test_a_shipped_file_is_refused_and_a_users_warned(mine: LoadedGates, change: object, expected: str) -> None:
    loaded = admitted(mine)
    loaded = replace(loaded, admission=change(loaded.admission))  # type: ignore[operator]
    assert expected in check_admission(loaded, "m1", "s1")[0]
    with pytest.raises(UsageError, match="run 'replaycheck selftest'") as caught:
        check_admission(replace(loaded, shipped=True), "m1", "s1")
    assert expected in str(caught.value)


def test_a_weak_fault_is_told_with_its_numbers(mine: LoadedGates) -> None:
    loaded = admitted(mine)
    loaded = replace(loaded, admission=weak(loaded.admission))  # type: ignore[arg-type]
    said = "doesn't tell its fault 'bf16-snapshot' (0) from a clean run (0) at the bound 0"
    assert said in check_admission(loaded, "m1", "s1")[0]


def test_the_digest_of_a_gate_is_the_same_in_every_version(mine: LoadedGates) -> None:
    """Another one would make every record that users have stale."""
    assert gate_digest(mine.gates.gate[0]) == "841a7fc4e84e1548d1740d43f7c11a6d"
    free = mine.gates.gate[0].model_copy(update={"scope": Scope(experiment="free")})
    assert gate_digest(free) != gate_digest(free.model_copy(update={"scope": Scope()}))


def test_a_changed_gate_is_stale(mine: LoadedGates) -> None:
    admitted(mine)
    changed = written(mine.path, (HEAD + GATE).replace("min_traces = 2", "min_traces = 3"))
    assert gate_digest(changed.gates.gate[0]) != gate_digest(mine.gates.gate[0])
    assert "was changed after it was admitted" in check_admission(changed)[0]


def test_too_few_traces_are_inconclusive_but_a_failure_stays_one(tmp_path: Path, mine: LoadedGates) -> None:
    made.whole(tmp_path / "run")
    assert rejudge(tmp_path / "run", [str(mine.path)]).gates[0].verdict == "pass"
    strict = written(tmp_path / "strict.toml", (HEAD + GATE).replace("min_traces = 2", "min_traces = 3"))
    judged = rejudge(tmp_path / "run", [str(strict.path)])
    assert (judged.gates[0].verdict, judged.summary.exit_code) == ("inconclusive", 6)
    low = written(tmp_path / "low.toml", (HEAD + GATE).replace("bound = 0", "bound = -1").replace("= 2", "= 3"))
    assert rejudge(tmp_path / "run", [str(low.path)]).gates[0].verdict == "fail"


def test_a_scope_without_a_cell_is_vacuous(tmp_path: Path) -> None:
    made.whole(tmp_path / "run")
    loaded = written(tmp_path / "other.toml", (HEAD + GATE).replace("fp16", "bf16"))
    judged = rejudge(tmp_path / "run", [str(loaded.path)])
    assert (judged.gates[0].verdict, judged.summary.exit_code) == ("vacuous", 5)


def test_no_gate_at_all_is_vacuous(tmp_path: Path) -> None:
    run: Run = made.started(tmp_path / "run")
    made.fill(run)
    assert made.judged(run, gates=()).summary.verdict == "vacuous"
    assert judge([], None) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], 0),
        ([0, 6], 6),
        ([6, 5], 5),
        ([5, 1, 6], 1),
        ([1, 2], 2),
        ([2, 4], 4),
        ([4, 3, 1], 3),
    ],
)
def test_precedence_of_exit_codes(codes: list[int], expected: int) -> None:
    assert exit_code(map(ExitCode, codes)) == expected


def test_a_record_is_written_anew_for_what_was_seen_and_not_for_versions_alone(mine: LoadedGates) -> None:
    seen = {gate.name: admit(gate, 0.0, 3.0) for gate in mine.gates.gate}
    path = write_admission(mine, seen, "m1", "s1", {"torch": "2"})
    first = path.read_bytes()
    write_admission(mine, seen, "m1", "s1", {"torch": "3"})
    assert path.read_bytes() == first
    write_admission(mine, seen, "m2", "s1", {"torch": "3"})
    assert path.read_bytes() != first
    path.write_text("{")
    write_admission(mine, seen, "m1", "s1", {"torch": "2"})
    assert path.read_bytes() == first

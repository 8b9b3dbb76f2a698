"""A failing case becomes small, fails in the same check, and the search goes on where it was killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck.diagnose.again import Case
from replaycheck.diagnose.shrink import edits
from replaycheck.diagnose.shrink.failure import Check, checks, main_check
from replaycheck.diagnose.shrink.models import reduced
from replaycheck.diagnose.shrink.progress import FILE, Progress, Smallest, load, save
from replaycheck.diagnose.shrink.search import Search
from replaycheck.diagnose.shrink.write import write_reproduction
from replaycheck.errors import UsageError
from replaycheck.model.config import load_config
from replaycheck.schema.suite import expand
from replaycheck.traces.checks import check_group
from replaycheck.traces.read import read_groups
from replaycheck.traces.suite import parse_suite

CaseOf = Callable[..., Case]


def progress_of(case: Case, check: Check) -> Progress:
    config = load_config(case.work.model)
    smallest = Smallest(
        group=case.group,
        reference=case.reference,
        candidate=case.candidate,
        layers=tuple(range(config.num_layers)),
        heads=tuple(range(config.kda_heads)),
    )
    return Progress(
        run="r",
        cell=case.candidate.name,
        check=check,
        tokens_before=case.tokens,
        smallest=smallest,
        tests=0,
        passed=(),
    )


def searched(case: Case, folder: Path) -> Search:
    check = main_check(checks(case))
    assert check is not None
    search = Search(case, progress_of(case, check), folder)
    search.run()
    return search


def test_a_late_token_needs_one_chunk_one_layer_and_one_head(case_of: CaseOf, tmp_path: Path) -> None:
    case = case_of("token-late")
    search = searched(case, tmp_path)
    small = search.case(search.smallest)
    assert (len(search.smallest.layers), len(search.smallest.heads)) == (1, 1)
    assert small.tokens <= 70 < case.tokens
    assert Check.LOGITS in checks(small)
    assert search.progress.finished


def test_what_isnt_needed_goes_from_the_arms(case_of: CaseOf, tmp_path: Path) -> None:
    case = case_of("commit-late")
    search = searched(case, tmp_path)
    smallest = search.smallest
    found = write_reproduction(search.case(smallest), tmp_path, shipped_model=False)
    assert expand(parse_suite(found.suite))[0] == (smallest.reference, smallest.candidate)
    assert smallest.candidate.rollback is not None
    assert smallest.candidate.pool == "fp32"
    assert len(smallest.group.traces[0].events) == 1


def test_a_killed_search_goes_on_and_ends_alike(case_of: CaseOf, tmp_path: Path) -> None:
    case = case_of("token-late")
    whole = searched(case, tmp_path)
    other = tmp_path / "other"
    other.mkdir()

    class Killed(Exception):
        pass

    said = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            raise Killed

    search = Search(case, progress_of(case, Check.LOGITS), other, say)
    with pytest.raises(Killed):
        search.run()
    found = load(other, "r")
    assert found is not None
    assert 0 < found.tests < whole.progress.tests
    again = Search(case, found, other)
    again.run()
    assert again.smallest == whole.smallest


def test_the_progress_of_another_run_is_refused(case_of: CaseOf, tmp_path: Path) -> None:
    save(tmp_path, progress_of(case_of("token-late"), Check.LOGITS))
    assert load(tmp_path, "r") is not None
    with pytest.raises(UsageError, match="belongs to another run"):
        load(tmp_path, "other")
    assert json.loads((tmp_path / FILE).read_text())["run"] == "r"


def test_the_suite_that_is_written_has_the_one_cell(case_of: CaseOf, tmp_path: Path) -> None:
    case = case_of("mask-dropped")
    found = write_reproduction(case, tmp_path, shipped_model=False)
    arms, cells = expand(parse_suite(found.suite))
    assert [arm.name for arm in arms] == [case.reference.name, case.candidate.name]
    assert len(cells) == 1
    assert read_groups(found.trace) == (case.group,)
    assert found.line.endswith(f"--model {case.work.model} --fault mask-dropped")


def test_a_model_with_fewer_layers_and_heads_keeps_what_they_compute(
    case_of: CaseOf, tiny: Path, tmp_path: Path
) -> None:
    import torch

    from replaycheck.model.checkpoint import load_weights

    small = reduced(tiny, [2, 3], [1], tmp_path / "small")
    config, weights, whole = load_config(small), load_weights(small), load_weights(tiny)
    assert (config.layer_kinds, config.kda_heads) == (("mla", "kda"), 1)
    assert torch.equal(
        weights["model.layers.0.self_attn.kv_b_proj.weight"], whole["model.layers.2.self_attn.kv_b_proj.weight"]
    )
    width = config.kda_head_dim
    for name in ("q_proj", "f_b_proj"):
        kept = weights[f"model.layers.1.self_attn.{name}.weight"]
        assert torch.equal(kept, whole[f"model.layers.3.self_attn.{name}.weight"][width:])


def test_a_case_that_cant_be_run_fails_in_nothing(case_of: CaseOf) -> None:
    case = case_of("commit-late")
    place = next(place for place in edits.turns_of(case.group) if place[1] == "a0")
    broken = edits.shortened(case.group, place, 3)
    assert list(check_group(broken))
    assert checks(case.with_group(broken)) == frozenset()


def test_requests_take_their_turns_and_events_with_them(case_of: CaseOf) -> None:
    group = case_of("commit-late").group
    less = edits.with_requests(group, group.requests[:1])
    assert [turn.id for turn in less.traces[0].turns] == ["u0", "a0"]
    assert not list(check_group(less))


def test_turns_below_a_turn_that_goes_continue_the_one_above(case_of: CaseOf) -> None:
    group = case_of("token-late").group
    middle = next(turn for turn in group.traces[0].turns if turn.parent)
    less = edits.without_turn(group, (group.traces[0].id, middle.id))
    assert all(turn.parent != middle.id for turn in less.traces[0].turns)

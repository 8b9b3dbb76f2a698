"""A whole sweep on a tiny model: the command, its record, its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import jsonschema
import pytest

from replaycheck.schema.sweep import Sweep
from replaycheck.state_probes.groups import chain
from replaycheck.state_probes.tiny import write_tiny
from replaycheck.traces.write import dump_group


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two short turns, and a random model with bits to lose."""
    folder = tmp_path_factory.mktemp("sweep")
    write_tiny(folder / "model", 0)
    (folder / "traces.jsonl").write_text(dump_group(chain(150, 9, 70, 6)) + "\n", encoding="utf-8")
    return ["--traces", str(folder / "traces.jsonl"), "--model", str(folder / "model"), "--workers", "1"]


@pytest.fixture(scope="module")
def made(inputs: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sweep]:
    """One sweep with everything on, through the command line."""
    from click.testing import CliRunner

    from replaycheck.cli.sweep import command

    out = tmp_path_factory.mktemp("out") / "sweep"
    options = ["--checkpoint-interval", "64,512,end", "--pool", "fp32,bf16", "--activation", "inside,outside"]
    done = CliRunner().invoke(command, [*options, "--answers", "decoded", "--out", str(out), "--json", *inputs])
    assert done.exit_code == 0, done.output
    return out, Sweep.model_validate(json.loads(done.stdout))


def test_stdout_is_the_record_that_is_kept(made: tuple[Path, Sweep], replaycheck: Callable) -> None:
    out, sweep = made
    kept = json.loads((out / "sweep.json").read_text())
    assert Sweep.model_validate(kept) == sweep
    jsonschema.validate(kept, json.loads(replaycheck("schema", "sweep").out))


def test_there_is_a_row_for_each_choice(made: tuple[Path, Sweep]) -> None:
    _, sweep = made
    found = [(row.activation, row.interval, row.pool) for row in sweep.rows]
    assert found == list(product(("inside", "outside"), ("64", "512", "end"), ("fp32", "bf16")))
    assert all(row.hits == 1 for row in sweep.rows)


def test_an_fp32_pool_has_no_state_effect_and_a_bf16_pool_has_one(made: tuple[Path, Sweep]) -> None:
    _, sweep = made
    for row in sweep.rows:
        if row.pool == "fp32":
            assert row.state.bits_differ == 0 and row.state.max == 0.0
            assert row.total == row.grid and row.state_error == 0.0
        else:
            assert row.state.bits_differ > 0 and row.state_error is not None and row.state_error > 0


def test_activating_outside_moves_a_prefilled_text_away_from_the_decoded_one(made: tuple[Path, Sweep]) -> None:
    """Cold prefills the first answer, split keeps it as decoded: other cuts, and with outside another activation."""
    _, sweep = made
    inside, outside = (next(row for row in sweep.rows if row.activation == at) for at in ("inside", "outside"))
    assert inside.grid.bits_differ > 0
    assert outside.grid.p99 is not None and inside.grid.p99 is not None
    assert outside.grid.p99 != inside.grid.p99
    assert [row.pool for row in sweep.activations] == ["fp32", "bf16"]
    assert all(row.difference.bits_differ > 0 for row in sweep.activations)


def test_the_page_has_a_plot_for_each_activation_and_no_script(made: tuple[Path, Sweep]) -> None:
    out, _ = made
    page = (out / "sweep.html").read_text()
    assert page.count("<svg") == 2 and page.count('role="img"') == 2
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<tr>") > 12


def test_the_table_fits_its_columns(inputs: list[str], replaycheck: Callable) -> None:
    done = replaycheck("sweep", "--checkpoint-interval", "64,512", "--pool", "fp32", *inputs)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("sweep of suite quick: model model")
    head, first, second = (line.split() for line in lines[2:5])
    assert head[0] == "interval" and first[:3] == ["64", "fp32", "1"] and second[:3] == ["512", "fp32", "0"]


def test_a_dry_run_prints_the_arms_and_runs_nothing(inputs: list[str], replaycheck: Callable, tmp_path: Path) -> None:
    done = replaycheck("sweep", "--dry-run", "--checkpoint-interval", "64", "--out", tmp_path / "no", *inputs)
    assert done.code == 0 and "warm" in done.out and "groups, 7 arms, 7 cells" in done.out
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--checkpoint-interval", "100"), "100"),
        (("--pool", "int8"), "int8"),
        (("--activation", "beside"), "beside"),
        (("--answers", "guessed"), "guessed"),
        (("--recipe", "nope"), "nope"),
        (("--activation", "outside", "--kernels", "tests.lab.limited_kernels:factory"), "--activation outside"),
    ],
)
def test_bad_options_are_exit_code_2_and_named(
    options: tuple[str, ...], named: str, inputs: list[str], replaycheck: Callable
) -> None:
    done = replaycheck("sweep", *options, *inputs)
    assert (done.code, done.out) == (2, "")
    assert named in done.err


def test_a_folder_that_holds_a_run_is_refused(
    made: tuple[Path, Sweep], inputs: list[str], replaycheck: Callable
) -> None:
    done = replaycheck("sweep", "--checkpoint-interval", "64", "--pool", "fp32", "--out", made[0], *inputs)
    assert done.code == 2 and "already holds a run" in done.err

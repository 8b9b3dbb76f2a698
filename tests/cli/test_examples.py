"""Each example in a verb's help works as it stands: it is run here, or parsed where it takes minutes, a GPU or a server.

The folders that examples name are copies of one small run, made once from two shards, whose `merge` is an example itself.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from replaycheck.cli.main import cli, invoke
from tests.docs.blocks import ROOT, Block, Line, command_lines
from tests.docs.commands import wrong
from tests.suites import suite_text

SUITE = suite_text("small", "small.jsonl")

#: Not run, and why not. An example belongs to the first entry that it begins with.
PARSED = {
    "replaycheck run": "minutes; its options are dry-run below",
    "replaycheck floor --preset": "minutes",
    "replaycheck floor --condition": "joined shards don't know the model and the traces",
    "replaycheck sweep --checkpoint": "minutes",
    "replaycheck sweep --dry-run": "dry-run below",
    "replaycheck selftest --quick": "minutes",
    "replaycheck selftest --gates": "minutes",
    "replaycheck selftest --fault": "minutes",
    "replaycheck bisect": "minutes",
    "replaycheck probe": "minutes",
    "replaycheck bench": "minutes",
    "replaycheck view": "a server",
    "replaycheck model train": "a corpus",
    "replaycheck model golden": "20 s",
    "replaycheck model verify": "minutes, a server",
    "replaycheck model export": "gguf, an extra",
    "replaycheck trace synth --suite": "minutes: answers are sampled from the model",
    "replaycheck subject check examples": "run by tests/docs",
}

#: Copies of the one run.
RUNS = ("reports/before", "reports/after", "reports/baseline", "reports/new", "reports/20260101T120000Z-1a2b")


def examples(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, list[str]]]:
    """Each verb with the examples of its help."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None
            yield from examples(inner, each, context)
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    yield context.command_path, [line for line in lines if line.startswith("replaycheck ")]


EXAMPLES = dict(examples(cli, "replaycheck"))
RUN = {
    verb: ready
    for verb, lines in EXAMPLES.items()
    if (ready := [line for line in lines if not line.startswith(tuple(PARSED))])
}


def parsed(text: str) -> Line:
    """One example as a line of a page, which tests/docs knows how to check."""
    (line,) = command_lines(Block(Path("help"), 1, "sh", text))
    return line


@pytest.mark.parametrize("verb", EXAMPLES)
def test_every_example_could_be_run(verb: str) -> None:
    assert [said for line in EXAMPLES[verb] for said in wrong(parsed(line))] == []


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two shards of a small run, and reports/whole, which `merge` made of them."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "small.toml").write_text(SUITE, encoding="utf-8")
    with (ROOT / "traces" / "ci.jsonl").open("rb") as handle:
        (folder / "small.jsonl").write_bytes(handle.readline() + handle.readline())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for number in (1, 2):
            asked = ["run", "small.toml", "--shard", f"{number}/2", "--workers", "1", "--out", f"shard{number}"]
            assert invoke(asked) == 0
        assert invoke(["merge", "shard1", "shard2", "--out", "reports/whole"]) == 0
    return folder


@pytest.fixture
def beside_runs(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the runs that examples name."""
    for name in RUNS:
        shutil.copytree(shards / "reports" / "whole", tmp_path / name)
    for name in ("shard1", "shard2", "small.toml", "small.jsonl"):
        (tmp_path / name).symlink_to(shards / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", RUN)
def test_examples_run(verb: str, beside_runs: Path, replaycheck: Callable) -> None:
    for text in RUN[verb]:
        words = [word.replace("/tmp/", f"{beside_runs}/") for word in parsed(text).words[1:]]
        began = time.process_time()
        outcome = replaycheck(*words)
        assert outcome.code == 0, f"{text}: {outcome.err}"
        assert outcome.out, f"{text}: it says nothing"
        assert time.process_time() - began < 20, f"{text}: not an example to try at once"


@pytest.mark.parametrize(
    "words",
    ["run small.toml --cluster auto --dry-run", "floor small.toml --dry-run"],
    ids=lambda words: words.split()[0],
)
@pytest.mark.usefixtures("beside_runs")
def test_a_dry_run_starts_nothing(words: str, replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def replayed(*given: object) -> None:
        raise AssertionError("it replays")

    monkeypatch.setattr("replaycheck.replay.dry.replay_jobs", replayed)
    outcome = replaycheck(*words.split())
    assert outcome.code == 0, outcome.err
    assert "2 groups, " in outcome.out


def test_what_the_table_leaves_out_is_an_example() -> None:
    every = [line for lines in EXAMPLES.values() for line in lines]
    assert [prefix for prefix in PARSED if not any(line.startswith(prefix) for line in every)] == []

"""Statistics and likeness of real traces, where the environment says that they are, held against the files themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replaycheck.traces.importers import Context, Options, choose, import_groups
from replaycheck.traces.like import Likeness, draw_groups, measure
from replaycheck.traces.relations import Kind
from replaycheck.traces.stats import TraceStats
from replaycheck.traces.write import write_groups

TREES = 12


def imported(path: Path, **options: Any) -> TraceStats:
    found = TraceStats(policies=())
    for group in import_groups(choose("auto", [path]), Context(Options(**options))):
        found.add(group)
    return found


def answers(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The assistant's messages of an OASST tree."""
    if message["role"] == "assistant":
        yield message
    for reply in message["replies"]:
        yield from answers(reply)


def test_statistics_of_oasst_trees_are_those_of_the_file(samples: Path) -> None:
    path = samples / "oasst" / "en_48_tree.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()[:TREES]
    trees = [list(answers(json.loads(line)["prompt"])) for line in lines]
    found = imported(path, max_traces=TREES)
    assert (found.groups, found.requests) == (TREES, sum(map(len, trees)))
    assert sorted(found.counts["turns"].elements()) == sorted(map(len, trees))
    assert found.kinds[Kind.FIRST] == TREES
    # A letter is a token; one outside ASCII may become several or none.
    plain = Counter(len(each["text"]) for tree in trees for each in tree if each["text"].isascii())
    assert plain.total() > 0.9 * found.requests
    assert plain <= found.counts["output"]


def test_statistics_of_a_weka_session_are_those_of_the_file(samples: Path) -> None:
    path = samples / "weka" / "trace_0504.json"
    requests = json.loads(path.read_text(encoding="utf-8"))["requests"]
    found = imported(path)
    assert found.requests == len(requests)
    assert sorted(found.counts["prompt"].elements()) == sorted(each["in"] for each in requests)
    residues = [each["in"] % 64 for each in requests]
    assert found.near_grid == sum(residue in (63, 0, 1) for residue in residues)


def test_traces_like_real_ones_have_their_distributions_and_none_of_their_words(samples: Path, tmp_path: Path) -> None:
    path, source = samples / "oasst" / "en_48_tree.jsonl", tmp_path / "source.jsonl"
    write_groups(source, import_groups(choose("auto", [path]), Context(Options(max_traces=TREES))))
    stats, pools = measure(source, 0)
    drawn, texts = TraceStats(policies=()), []
    for group in draw_groups(pools, 150, 0.25, 0):
        drawn.add(group)
        texts += [turn.text for trace in group.traces for turn in trace.turns]
    tests = Likeness(stats, drawn, 0.25).tests()
    # 150 traces have about 900 requests: 0.1 is over twice the 5 % point, 1.36 / sqrt(900), of a statistic whose source is
    # taken as it is.
    assert all((tests[name].distance or 0) < 0.1 for name in ("output", "new"))
    assert (tests["turns"].distance or 0) < 0.15
    words = {word for line in path.read_text(encoding="utf-8").splitlines()[:TREES] for word in _long(line)}
    assert words and not words & {word for text in texts for word in text.split()}


def _long(line: str) -> Iterator[str]:
    """Words of 14 letters and more of a tree's texts: too rare to be drawn by chance."""
    for each in answers(json.loads(line)["prompt"]):
        yield from (word for word in each["text"].split() if len(word) >= 14 and word.isalpha() and word.isascii())

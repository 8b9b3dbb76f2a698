"""Shorter turns keep their structure; anonymised traces keep lengths and hashes; every group says where it comes from."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces.importers import Options
from replaycheck.traces.importers.fit import kept_length
from replaycheck.traces.tree import request_paths
from tests.traces.importers import formats as made
from tests.traces.importers.conftest import Import, parents, texts

SESSION = made.weka(
    made.weka_request(0, 64 * 20 + 10, list(range(20))),
    made.weka_request(1, 64 * 30 + 40, [*range(20), *range(30, 40)]),
    made.weka_request(2, 64 * 5, list(range(5))),
)


def shape(group: Group) -> object:
    return [[(turn.id, turn.parent, turn.role) for turn in trace.turns] for trace in group.traces], group.requests


@pytest.mark.parametrize("options", [{"scale": 0.1}, {"max_tokens": 150}], ids=str)
def test_a_shorter_group_has_the_same_tree_and_each_text_is_a_start_of_the_whole_one(do: Import, options: dict) -> None:
    (whole,) = do("weka", SESSION)
    (short,) = do("weka", SESSION, **options)
    assert shape(short) == shape(whole)
    assert short.traces[0].events == whole.traces[0].events
    assert all(texts(whole)[id_].startswith(text) for id_, text in texts(short).items())
    assert short.source is not None and 0 < short.source.scale < 1


@pytest.mark.parametrize("most", [40, 41, 64, 300, 1000])
def test_the_longest_path_has_at_most_max_tokens_and_nearly_so_many(do: Import, most: int) -> None:
    (group,) = do("weka", SESSION, max_tokens=most)
    longest = max(path.end for path in request_paths(group))
    assert longest <= most
    # A path here has at most four turns; each may lose up to one character by rounding, and small ones keep one.
    assert longest >= 0.75 * most


def test_what_fits_is_left_as_it_is(do: Import) -> None:
    assert do("openai", made.FILES["openai"], max_tokens=100) == do("openai", made.FILES["openai"])


def test_a_path_with_too_many_turns_is_dropped(do: Import) -> None:
    said = [made.message(role, "words") for _ in range(4) for role in ("user", "assistant")]
    (group,) = do("openai", [{"messages": said}], max_tokens=14)
    assert len(group.requests) == 2
    assert do.dropped["request whose turns alone are longer than --max-tokens 14"] == 2


@given(st.integers(0, 10**7), st.floats(1e-6, 1))
def test_a_turn_keeps_its_share_and_never_its_last_character(characters: int, scale: float) -> None:
    kept = kept_length(characters, scale)
    assert (kept == 0) == (characters == 0)
    assert kept <= characters
    assert abs(kept - characters * scale) < 1  # the least is one of a fraction of one


def test_max_traces_stops_and_says_so(do: Import) -> None:
    assert len(do("openai", made.FILES["openai"] * 5, max_traces=2)) == 2  # type: ignore[operator]
    assert "everything after --max-traces groups; not counted further" in do.dropped
    assert len(do("openai", made.FILES["openai"] * 2, max_traces=2)) == 2  # type: ignore[operator]
    assert do.dropped == {}


@pytest.mark.parametrize("name", made.FILES)
def test_an_anonymised_group_keeps_lengths_and_structure_and_no_text(name: str, do: Import) -> None:
    groups = do(name, made.FILES[name])
    hidden = do(name, made.FILES[name], anonymise=True)
    for a, b in zip(groups, hidden, strict=True):
        assert a.source is not None and b.source is not None
        assert b.source.anonymised and b.source.text == "generated"
        assert [parents(a, i) for i in range(len(a.traces))] == [parents(b, i) for i in range(len(b.traces))]
        for before, after in zip(a.traces, b.traces, strict=True):
            assert [len(turn.tokens) for turn in before.turns] == [len(turn.tokens) for turn in after.turns]
            for one, other in zip(before.turns, after.turns, strict=True):
                # Made text stays: it is the hashes. Words of a letter or two may come out again by chance.
                private = a.source.text == "private" and not (
                    one.role == "assistant" and name in ("dag_jsonl", "mtbench")
                )
                assert (one.text != other.text) == private or len(one.text) < 3


def test_no_name_of_the_source_is_left_in_an_anonymised_group(do: Import) -> None:
    records = made.claude_session()
    for record in records:
        if "message" in record:
            record["message"]["model"] = "secret-model"
    (group,) = do("claude-code", records, anonymise=True)
    assert "secret" not in group.model_dump_json()


def test_a_group_says_where_it_comes_from(do: Import) -> None:
    path = do.file(made.FILES["openai"])
    (group,) = do("auto", path)
    assert group.source is not None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert (group.source.format, group.source.sha256, group.source.licence) == ("openai", digest, "unknown")
    assert group.source.text == "private"
    assert do("weka", made.FILES["weka"])[0].source.text == "generated"  # type: ignore[union-attr]


def test_names_are_distinct_over_files_groups_and_traces(do: Import) -> None:
    (do.folder / "a").mkdir()
    one, other = do.file(SESSION, "x.json"), do.file(SESSION, "a/x.json")
    groups = do("weka", one, other)
    assert [group.group for group in groups] == ["x-0001", "x-f2-0001"]
    assert len({trace.id for group in groups for trace in group.traces}) == 2


def test_a_text_that_spells_a_special_token_drifts(do: Import) -> None:
    do("openai", {"messages": [made.message("user", "Say <|end|>"), made.message("assistant", "<|no|>")]})
    assert (do.context.log.checked, do.context.log.drifted) == (2, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scale": 0.0}, "scale 0 was asked for; give a share above 0 and up to 1"),
        ({"scale": 1.01}, "scale 1.01 was asked for; give a share above 0 and up to 1"),
        ({"group_size": 0}, "groups of 0 requests were asked for; give 1 or more"),
        ({"tails": "mine"}, "tails 'mine' are unknown; allowed are 'own' or 'next'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Options(**options)

"""What is wrong with a record, said for its author: where, what was given, what is allowed, what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from replaycheck.schema.problems import Problem, problems
from replaycheck.schema.trace import Group

GROUP: dict[str, Any] = {
    "schema": "replaycheck.trace/1",
    "group": "g",
    "vocabulary": "bytes",
    "traces": [{"id": "t", "turns": [{"id": "u", "parent": None, "role": "user", "text": "", "tokens": [1]}]}],
    "requests": [{"trace": "t", "turn": "u"}],
}


def changed(*path: Any, value: Any) -> str:
    """The group as JSON with one value replaced; ``...`` takes the key out."""
    group = json.loads(json.dumps(GROUP))
    place = group
    for part in path[:-1]:
        place = place[part]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(group)


def refused(text: str) -> list[str]:
    with pytest.raises(ValidationError) as error:
        Group.model_validate_json(text)
    return [str(each) for each in problems(error.value, "do this")]


TURN = ("traces", 0, "turns", 0)
SAID = [
    (changed("group", value=...), "group: is missing; do this"),
    (changed("colour", value=7), "colour: is no known key (given 7); do this"),
    (
        changed(*TURN, "role", value="robot"),
        "traces[0].turns[0].role: 'robot' isn't allowed; allowed: 'system', 'user', 'assistant' or 'tool'; do this",
    ),
    (
        changed("traces", 0, "events", value=[{"turn": "u"}]),
        "traces[0].events[0]: {'turn': 'u'} has no 'kind'; do this",
    ),
    (
        changed("requests", 0, "turn", value="a b"),
        "requests[0].turn: 'a b' doesn't match '^[A-Za-z0-9][A-Za-z0-9._-]*$'; do this",
    ),
    (changed("requests", value=[]), "requests: has 0 items, needs at least 1; do this"),
    ("{", "malformed JSON, EOF while parsing an object at column 1; do this"),
    (changed(*TURN, "text", value=5), "traces[0].turns[0].text: 5 should be a valid string; do this"),
    (
        changed(*TURN, "sampled", value={"model": "m", "seed": 0, "limit": 0, "temperature": float("nan")}),
        "traces[0].turns[0].sampled.temperature: nan isn't a finite number; do this",
    ),
]


@pytest.mark.parametrize(("text", "said"), SAID, ids=[said[:50] for _, said in SAID])
def test_a_problem_is_said_in_one_sentence(text: str, said: str) -> None:
    assert refused(text) == [said]


def test_an_unknown_kind_lists_the_known_ones() -> None:
    [said] = refused(changed("traces", 0, "events", value=[{"kind": "nap", "turn": "u"}]))
    assert said.startswith("traces[0].events[0]: kind 'nap' is unknown; allowed: 'branch', 'rewind', 'speculation', ")


def test_a_long_value_is_cut() -> None:
    [said] = refused(changed("requests", 0, "turn", value="é" * 500))
    assert len(said) < 200


def test_a_list_is_not_called_too_short_when_its_item_is_refused() -> None:
    assert refused(changed("requests", value=[{}])) == [
        "requests[0].trace: is missing; do this",
        "requests[0].turn: is missing; do this",
    ]


def test_a_problem_of_the_whole_record_has_no_field() -> None:
    assert str(Problem("", "is empty")) == "is empty"

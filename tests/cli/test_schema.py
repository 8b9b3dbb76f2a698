"""The schema verb prints JSON Schemas that judge real files as the readers do."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable

import jsonschema
import pytest

from replaycheck import assets
from replaycheck.cli.schema import SCHEMAS
from replaycheck.errors import choices
from replaycheck.schema.trace import Group
from replaycheck.traces.write import dump_group


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_is_a_json_schema(name: str, replaycheck: Callable) -> None:
    schema = json.loads(replaycheck("schema", name).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False


def test_without_a_name_all_are_printed(replaycheck: Callable) -> None:
    assert set(json.loads(replaycheck("schema").out)) == set(SCHEMAS)


def test_a_written_group_fits_its_schema(quick_groups: list[Group], replaycheck: Callable) -> None:
    schema = json.loads(replaycheck("schema", "trace").out)
    group = json.loads(dump_group(quick_groups[2]))
    jsonschema.validate(group, schema)
    group["traces"][0]["events"][0]["kind"] = "nap"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(group, schema)


def test_the_presets_fit_their_schema(replaycheck: Callable) -> None:
    schema = json.loads(replaycheck("schema", "suite").out)
    for path in assets.presets().values():
        jsonschema.validate(tomllib.loads(path.read_text()), schema)


def test_an_unknown_name_gives_the_choices(replaycheck: Callable) -> None:
    outcome = replaycheck("schema", "nope")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"schema 'nope' is unknown; allowed are {choices(SCHEMAS)}; name one" in outcome.err
    assert "'trace', 'suite', 'gate', 'result'" in outcome.err

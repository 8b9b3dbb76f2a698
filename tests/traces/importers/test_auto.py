"""`auto` recognises every format by what is in it, says why, and refuses to guess; third parties add formats."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.traces.importers import Importer, SourceFile, registry
from replaycheck.traces.importers.registry import BUILT_IN, detect, find, importers
from tests.traces.importers.conftest import Import
from tests.traces.importers.formats import FILES, message, text


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_recognised(name: str, do: Import) -> None:
    found = detect(SourceFile(do.file(FILES[name])))
    assert (found.importer.name, bool(found.why)) == (name, True)
    assert do("auto", FILES[name])


def test_every_built_in_format_has_a_file_here() -> None:
    assert {"jsonl", *FILES} == set(BUILT_IN) == set(importers())


def test_two_formats_that_fit_are_an_error_that_lists_them(do: Import) -> None:
    both = {"messages": [message("user", "Hi.")], "conversations": [{"from": "human", "value": "Hi."}]}
    with pytest.raises(UsageError, match=r"2 formats are possible: 'openai' \(.*\); 'sharegpt' \(.*\); name one"):
        do("auto", [both])


def test_none_that_fits_is_an_error_that_lists_all(do: Import) -> None:
    with pytest.raises(UsageError, match=r"no format is recognised; name it, one of 'weka', 'mooncake'"):
        do("auto", {"a": 1})


def test_the_same_messages_are_anthropics_only_if_something_says_so(do: Import) -> None:
    plain = {"messages": [message("user", "Hi."), message("assistant", [text("Ho.")])]}
    assert detect(SourceFile(do.file(plain))).importer.name == "openai"
    assert detect(SourceFile(do.file({**plain, "system": "x"}))).importer.name == "anthropic"


def test_files_of_several_formats_are_imported_in_their_order(do: Import) -> None:
    groups = do("auto", FILES["openai"], FILES["weka"], FILES["sharegpt"])
    assert [group.archetype for group in groups] == ["imported-openai", "imported-weka", "imported-sharegpt"]


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"format 'nope' is unknown.*; allowed are 'auto', 'weka', .* or pkg.mod:IMPORTER"
    ):
        find("nope")
    with pytest.raises(EngineEnvironmentError, match="no module 'nowhere'"):
        find("nowhere:IMPORTER")
    with pytest.raises(UsageError, match="no such name"):
        find("json:IMPORTER")
    with pytest.raises(UsageError, match="is a function; it must be a replaycheck Importer"):
        find("json:dumps")


EXAMPLE = Path(__file__).parents[3] / "examples" / "importer.py"


@pytest.fixture
def pairs() -> Importer:
    """The importer of the example."""
    spec = importlib.util.spec_from_file_location("importer", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Importer = module.PAIRS
    return found


def test_a_package_adds_a_format(pairs: Importer, do: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("pairs", "importer:PAIRS", registry.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: pairs)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    (group,) = do("auto", {"q": "Why?", "a": "So."})
    assert (group.archetype, group.traces[0].turns[1].text) == ("imported-pairs", "So.")
    assert find("pairs") is pairs


def test_a_name_that_is_taken_is_refused(pairs: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = replace(pairs, name="weka")
    monkeypatch.setattr(EntryPoint, "load", lambda self: taken)
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("weka", "a:b", group)])
    with pytest.raises(UsageError, match=r"importer 'weka' of a:b is there already"):
        importers()


def test_the_documentation_shows_the_example_whole() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "importing.md").read_text(encoding="utf-8")
    assert EXAMPLE.read_text(encoding="utf-8") in page
    assert all(f"{name}" in page for name in BUILT_IN)

"""A misspelt name is answered with the nearest ones, and with few enough to read."""

from __future__ import annotations

import pytest

from replaycheck.cli.main import VERBS
from replaycheck.diagnose.codes import CODES
from replaycheck.faults.shipped import FAULTS
from replaycheck.names import MANY, MOST, all_of, did_you_mean, nearest


@pytest.mark.parametrize(
    ("given", "known", "first"),
    [
        ("rnu", VERBS, "run"),
        ("selftst", VERBS, "selftest"),
        ("RUN", VERBS, "run"),
        ("restor-late", FAULTS, "restore-late"),
        ("restore_late", FAULTS, "restore-late"),
        ("bf16-snapsho", FAULTS, "bf16-snapshot"),
        ("RC31", CODES, "RC310"),
        ("rc999", CODES, "RC909"),
    ],
)
def test_the_nearest_is_first(given: str, known: dict[str, object], first: str) -> None:
    assert nearest(given, known)[0] == first


def test_what_is_hardly_alike_isnt_suggested() -> None:
    assert nearest("--presett", ["--preset", "--resume", "--free", "--traces"]) == ("--preset",)
    assert nearest("nosuch", FAULTS) == ()
    assert nearest("", VERBS) == ()
    assert nearest("run", []) == ()


def test_few_are_suggested_and_those_that_begin_so_come_first() -> None:
    found = nearest("bf16", FAULTS)
    assert len(found) == MOST
    assert found[0].startswith("bf16")


def test_a_suggestion_of_every_name_says_nothing() -> None:
    assert did_you_mean("kimi", ["kimi-k3", "kimi-linear-48b"]) == ""
    assert did_you_mean("kimi", ["kimi-k3"]) == " (did you mean 'kimi-k3'?)"


@pytest.mark.parametrize(("number", "listed"), [(MANY, False), (MANY + 1, True)])
def test_many_names_are_left_to_the_command_that_lists_them(number: int, listed: bool) -> None:
    said = all_of(map(str, range(number)), "replaycheck explain")
    assert said.startswith(f"`replaycheck explain` lists all {number}" if listed else "choose '0', '1'")

"""Suite files: the shipped ones expand to what they say, and a wrong one is named with file and line or key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replaycheck import assets
from replaycheck.errors import UsageError
from replaycheck.schema.arm import Effect
from replaycheck.schema.suite import expand
from replaycheck.traces.suite import find_traces, gate_names, parse_suite

MATRIX = """
[[matrix]]
history = ["chunk"]
tail = ["chunk"]
answers = ["prefilled"]
pool = ["fp32"]
policy = { every = 64 }
"""
SUITE = 'schema = "replaycheck.suite/1"\nname = "mine"\ntraces = ["t.jsonl"]\ngates = ["g.toml"]\n' + MATRIX


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    (tmp_path / "t.jsonl").write_text("")
    path = tmp_path / "SUITE.toml"
    path.write_text(SUITE)
    return path


def read(path: Path) -> tuple[Path, ...]:
    """The traces of a suite file, as a run finds them."""
    return find_traces(parse_suite(path).traces, path)


def test_paths_are_relative_to_the_suite_file(suite_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert read(suite_file) == (suite_file.parent / "t.jsonl",)
    assert gate_names(("g.toml", "exact"), suite_file) == (str(suite_file.parent / "g.toml"), "exact")


def test_the_quick_preset_has_the_default_matrix() -> None:
    suite = parse_suite(assets.suite_file("quick"))
    arms, cells = expand(suite)
    assert (suite.name, suite.recipe, suite.traces, suite.gates) == ("quick", "sglang", ("suite:quick",), ("exact",))
    # Four pairs of kernels and three pools with answers decoded, as many prefilled, and one pair with prompt ends.
    exact = [cell for cell in cells if cell.effect is Effect.EXACT]
    assert len(exact) == (4 + 4 + 1) * 3
    assert len({arm.name for arm in arms}) == len(arms)


WRONG = [
    ("malformed", SUITE.replace('"mine"', "mine"), r":2:8: malformed TOML, Invalid value"),
    ("key twice", 'name = "a"\n' + SUITE, r":3:\d+: malformed TOML, Cannot overwrite a value"),
    ("no matrix", SUITE.replace(MATRIX, ""), r": matrix: is missing"),
    ("unknown key", "color = 1\n" + SUITE, r": color: is no known key"),
    ("unknown pool", SUITE.replace("fp32", "fp8"), r": matrix\[0\].pool\[0\]: 'fp8' isn't allowed; allowed: 'fp32', "),
    ("empty pool", SUITE.replace('["fp32"]', "[]"), r": matrix\[0\].pool: has 0 items, needs at least 1"),
    ("off the grid", SUITE.replace("64", "100"), r": matrix\[0\].policy: every = 100 isn't a multiple of the chunk"),
    (
        "answers and policy disagree",
        SUITE.replace("prefilled", "decoded"),
        r": matrix\[0\]: answers 'decoded' needs a policy with turn_end",
    ),
    ("no policy", SUITE.replace("every = 64", ""), r": matrix\[0\].policy: a policy needs every, prompt_end or"),
    ("no such trace", SUITE.replace("t.jsonl", "x.jsonl"), r"trace file '.*x.jsonl', named in .*SUITE.toml, isn't"),
    (
        "no such suite",
        SUITE.replace("t.jsonl", "suite:../x"),
        r"trace suite 'suite:\.\./x'|trace suite '\.\./x' is unk",
    ),
]


@pytest.mark.parametrize(("text", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_suite_is_named(text: str, message: str, suite_file: Path) -> None:
    suite_file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read(suite_file)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_bytes_that_are_no_text(suite_file: Path) -> None:
    suite_file.write_bytes(b'schema = "x"\nname = "\xff"\n')
    with pytest.raises(UsageError, match=r"SUITE.toml:2: byte 0xff isn't UTF-8"):
        read(suite_file)


def test_a_huge_file_is_refused(suite_file: Path) -> None:
    suite_file.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(UsageError, match="has more than 1048576 bytes"):
        read(suite_file)


def test_a_file_named_twice_is_taken_once(suite_file: Path) -> None:
    assert find_traces(["t.jsonl", "./t.jsonl"], suite_file) == (suite_file.parent / "t.jsonl",)


def test_names_of_the_command_line_are_relative_to_the_working_folder(
    suite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(suite_file.parent)
    assert find_traces(["t.jsonl"]) == (Path("t.jsonl"),)
    with pytest.raises(UsageError, match=r"trace file 'x\.jsonl' isn't there; give the path"):
        find_traces(["x.jsonl"])


def test_a_preset_that_does_not_ship() -> None:
    with pytest.raises(UsageError, match=r"preset 'nope' is unknown; those that ship are .*'quick'"):
        assets.suite_file("nope")

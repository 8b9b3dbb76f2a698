"""Text from outside can't steer a terminal."""

from __future__ import annotations

import os
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.text import columns, printable, shorten, wrapped


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(char)[0] != "C" and char not in "\u2028\u2029" for char in shown)
    assert len(shown) >= len(text)


@given(st.text(), st.integers(1, 30))
def test_shortened_text_fits(text: str, width: int) -> None:
    shown = shorten(text, width)
    whole = printable(text)
    assert shown == (whole if len(whole) <= width else whole[: width - 1] + "…")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tab\t", r"tab\t"),
        ("\x1b[0m", r"\x1b[0m"),
        ("\u202e", r"\u202e"),
        ("\U000e0001", r"\U000e0001"),
        ("é·—", "é·—"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(("terminal", "wide", "lines"), [(80, 80, 3), (20, 60, 4), (None, 100, 1)])
def test_lines_are_cut_for_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, terminal: int | None, wide: int, lines: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal is not None, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((terminal or 80, 24)))
    assert columns(100) == wide
    cut = wrapped("word " * 36 + "end", 4).splitlines()
    assert len(cut) == lines
    assert lines == 1 or (all(len(line) <= wide for line in cut) and all(line.startswith("    w") for line in cut[1:]))

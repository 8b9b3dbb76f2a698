"""Work in a thread beside the main one."""

from __future__ import annotations

from threading import Event

import pytest

from replaycheck.errors import UsageError
from replaycheck.replay.beside import beside


def test_it_runs_at_once_and_gives_its_result_when_asked() -> None:
    began, go = Event(), Event()

    def work() -> int:
        began.set()
        assert go.wait(10)
        return 7

    result = beside(work)
    assert began.wait(10)
    go.set()
    assert (result(), result()) == (7, 7)


def test_what_it_raises_is_raised_where_the_result_is_asked_for() -> None:
    def work() -> int:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        beside(work)()

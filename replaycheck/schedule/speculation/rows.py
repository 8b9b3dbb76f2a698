"""The verify rows of an arm's schedule, in place of decode rows: one row a window, drafts and all."""

from __future__ import annotations

from collections.abc import Iterator

from replaycheck.schedule.rows import Track
from replaycheck.schedule.steps import Part, RequestPlan, Row, RowKind
from replaycheck.schema.arm import Kernel

from .windows import Window


def verify_rows(plan: RequestPlan, index: int, track: Track, slot: int, windows: tuple[Window, ...]) -> Iterator[Row]:
    """One row a window, on the working slot ``slot``.

    A row runs tokens a … b − 1, of which the first 1 + accepted are the path's and the rest are drafts of the window;
    ``window`` is its index and ``accepted`` the number of drafts that stay.
    """
    for number, window in enumerate(windows):
        a = plan.prompt + window.offset
        yield Row(
            request=index,
            a=a,
            b=a + window.length,
            kind=RowKind.VERIFY,
            part=Part.ANSWER,
            kernel=Kernel.RECURRENT,
            scored=track.scored,
            source=slot,
            destination=slot,
            window=number,
            accepted=window.accepted,
        )

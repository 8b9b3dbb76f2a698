"""Worked examples of the engines' integers, by hand: the plan of a snapshot, a commit, a boundary copy.

Each row is inputs and what must come out. Rules and lines of the engines' source: docs/state-operations.md and the
docstrings of the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schedule.prefix.job import Piece
from replaycheck.schedule.prefix.sglang import prefill_track
from replaycheck.schedule.rows import snapshot
from replaycheck.schedule.speculation.integers import RecoverPlan, align_postprocess, recover_plan, track_step
from replaycheck.schedule.steps import Checkpoint, Part, Source, Written

from .found import Check, Found, broken, exact
from .subject import Subject

__all__ = ["COMMITS", "COPIES", "EXTENDS", "VERIFIES", "checks", "extend_plan"]

EXTENDS = (
    # page, tokens in the state, extend, branching point: depth, length passed, chunk (None: final), last conv inputs
    ((1, 0, 63, None), None),
    ((1, 0, 64, None), (64, 64, None, (61, 63))),
    ((1, 0, 100, None), (64, 100, 1, (61, 63))),
    ((1, 0, 128, None), (128, 128, None, (125, 127))),
    ((1, 0, 130, None), (128, 130, 2, (125, 127))),
    ((1, 64, 70, None), (128, 134, 1, (61, 63))),
    ((1, 100, 130, None), (228, 230, 2, (125, 127))),
    ((128, 0, 192, None), (128, 129, 2, (125, 127))),
    ((128, 0, 256, None), (256, 256, None, (253, 255))),
    ((1, 0, 300, 128), (128, 129, 2, (125, 127))),
)
VERIFIES = (
    # tokens before, kept, interval: step of the window that is stored
    ((254, 4, 256), 1),
    ((256, 3, 256), None),
    ((254, 1, 256), None),
    ((255, 1, 256), 0),
    ((250, 6, 256), 5),
    ((250, 5, 256), None),
    ((252, 4, 256), 3),
)
COPIES = (
    # computed, scheduled, drafts, accepted, block: (column, bias), or no copy
    ((60, 5, 2, 3, 16), (3, 1)),
    ((30, 3, 0, 2, 16), None),
    ((31, 1, 0, 1, 16), (1, 0)),
    ((60, 4, 3, 4, 16), (3, 3)),
    ((60, 4, 3, 3, 16), None),
    ((62, 4, 3, 4, 16), (3, 1)),
    ((63, 1, 0, 1, 16), (3, 0)),
    ((63, 4, 3, 4, 16), (3, 0)),
    ((64, 4, 3, 4, 16), None),
)
COMMITS = (
    # computed, accepted, window, width, block, columns: length, final column, boundary column, tokens before it
    ((2044, 4, 8, 8, 2048, 9), (4, 0, 0, 4)),
    ((2046, 4, 8, 8, 2048, 9), (4, 1, 0, 2)),
    ((2047, 1, 8, 8, 2048, 9), (1, 0, 0, 1)),
    ((2048, 1, 8, 8, 2048, 9), (1, 1, None, 0)),
    ((8180, 4, 8, 8, 2048, 9), (4, 3, None, 0)),
    ((8188, 4, 8, 8, 2048, 9), (4, 3, 3, 4)),
    ((8190, 4, 8, 8, 2048, 9), (4, 4, 3, 2)),
    ((8192, 1, 8, 8, 2048, 9), (1, 4, None, 0)),
    ((100, 9, 3, 8, 2048, 9), (3, 0, None, 0)),
    ((100, 0, 8, 8, 2048, 9), (0, None, None, 0)),
    ((100, -1, 8, 8, 2048, 9), (0, None, None, 0)),
    ((100, 99, 8, 8, 2048, 9), (8, 0, None, 0)),
)
EQUAL = "equal to the integers by hand"


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    return [
        Check("plan-sglang-extend", "plans", EQUAL, _extends),
        Check("plan-sglang-verify", "plans", EQUAL, _verifies),
        Check("plan-vllm-boundary", "plans", EQUAL, _copies),
        Check("plan-vllm-commit", "plans", EQUAL, _commits),
    ]


def _extends(subject: Subject) -> Found:
    return _compare("prefill snapshots", [(str(given), extend_plan(*given), wanted) for given, wanted in EXTENDS])


def extend_plan(page: int, prefix: int, extend: int, branching: int | None) -> object:
    """Depth, length, chunk and conv inputs of an extend's snapshot, as (first, last) of the extend."""
    track = prefill_track(page, prefix, extend, branching)
    if track is None:
        return None
    final = track.depth == prefix + extend
    written = Written.FINAL if final else Written.INTERIOR
    piece = Piece(prefix, prefix + extend, Part.TAIL)
    made = snapshot(piece, Checkpoint("c", 0, track.depth, written), destination=5)
    chunk = None if made.source is Source.FINAL else made.chunk
    return track.depth, track.length, chunk, (made.conv_end - 3, made.conv_end - 1)


def _verifies(subject: Subject) -> Found:
    return _compare("verify snapshots", [(str(given), track_step(*given), wanted) for given, wanted in VERIFIES])


def _copies(subject: Subject) -> Found:
    found = [(given, align_postprocess(*given), wanted) for given, wanted in COPIES]
    pairs = [(str(given), copy and (copy.destination, copy.bias), wanted) for given, copy, wanted in found]
    return _compare("copies to a completed block", pairs)


def _commits(subject: Subject) -> Found:
    found = [(given, recover_plan(*given), RecoverPlan(*wanted)) for given, wanted in COMMITS]
    return _compare("RecoverSSM commits", [(str(given), plan, wanted) for given, plan, wanted in found])


def _compare(what: str, rows: Sequence[tuple[str, object, object]]) -> Found:
    for given, got, wanted in rows:
        if got != wanted:
            return broken(f"a formula for {what} gives another integer", f"{given}: {got}, and should be {wanted}")
    return exact(f"{len(rows)} {what} by hand", rows=len(rows))

"""result.json of ``run --server-options``: architecture × option of llama.cpp's server. No path or time in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record

OptionVerdict = Literal["exact", "noise", "approximate", "fault", "no hit", "crashed", "refused"]


class OptionMove(Record):
    """One request, cached against uncached."""

    move: str = Field(description="what the client did to the text that the server holds")
    hit: int = Field(description="tokens of the prompt that the server took from its cache, by its own count")
    difference: float | None = Field(description="largest of a log-probability, nat; null if nothing was compared")
    positions: int
    verdict: OptionVerdict
    drafted: int = Field(default=0, description="tokens that speculation drafted; accepted ones aren't compared")
    wrong_text: str = Field(default="", description="of a fault: another text that this is the right answer to")


class OptionCell(Record):
    """One architecture under one option."""

    architecture: str
    option: str
    verdict: OptionVerdict = Field(description="the worst of its moves with a hit; or why there is no comparison")
    noise: float | None = Field(description="largest difference between uncached answers in other splits, nat")
    repeat: float | None = Field(description="largest difference of uncached answers that were asked for twice, nat")
    moves: tuple[OptionMove, ...]
    why: str = Field(default="", description="what the server said if it crashed or refused the option")

    @property
    def hits(self) -> int:
        return sum(move.hit > 0 for move in self.moves)

    @property
    def largest(self) -> OptionMove | None:
        """The hit with the largest difference; None without one."""
        hits = [move for move in self.moves if move.hit and move.difference is not None]
        return max(hits, key=lambda move: move.difference or 0.0, default=None)


class ServerOptionsTable(Record):
    """The whole of result.json."""

    schema_version: Literal[1] = 1
    verb: Literal["run --server-options"] = Field(
        default="run --server-options", description="tells this result.json from a run's"
    )
    server: str = Field(description="package and version")
    seed: int
    factor: float = Field(description="times the noise: what is beyond is no noise")
    approximate: dict[str, str] = Field(description="options whose answers aren't meant to be exact, and why")
    cells: tuple[OptionCell, ...]

    def found(self, verdict: OptionVerdict) -> tuple[OptionCell, ...]:
        return tuple(cell for cell in self.cells if cell.verdict == verdict)

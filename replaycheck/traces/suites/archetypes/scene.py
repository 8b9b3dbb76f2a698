"""What an archetype is written for: a size, a voice with a seed of its own, and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.suites.draw import Draw
from replaycheck.traces.suites.script import Script
from replaycheck.traces.suites.sizes import Size
from replaycheck.traces.suites.voice import Voice

__all__ = ["Archetype", "Scene"]

#: Texts are up to an eighth longer or shorter than they are written for.
_SPREAD = 8


@dataclass
class Scene:
    """label: number and name of the archetype. name: of its group or, with a dot and a suffix, groups."""

    size: Size
    seed: int
    label: str
    name: str
    voice: Voice = field(init=False)

    def __post_init__(self) -> None:
        self.voice = Voice(self.seed, self.name)

    @property
    def draw(self) -> Draw:
        return self.voice.draw

    def script(self, suffix: str = "", cluster: str | None = None) -> Script:
        return Script(f"{self.name}.{suffix}" if suffix else self.name, cluster)

    def say(self, kind: str, large: int, least: int = 8) -> str:
        """A text of about a length that is written for the large size; it varies, so that prompts end anywhere."""
        length = self.size.tokens(large, least)
        return self.voice.say(kind, length + self.draw.between(-length // _SPREAD, length // _SPREAD))

    def out(self, first: int, last: int) -> int:
        """The limit of an answer between two lengths that are written for the large size."""
        return self.draw.between(self.size.tokens(first, 4), self.size.tokens(last, 8))


Archetype = Callable[[Scene], tuple[GroupSpec, ...]]

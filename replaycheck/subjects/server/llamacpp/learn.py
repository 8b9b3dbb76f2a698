"""What decides the hits of a server that is given by its address: some is asked, some is told by options, the rest assumed.

The server tells its slots and their length. Whether the model's memory can be cut anywhere, and whether checkpoints are
kept, two requests show: a prompt of L tokens that is sent twice hits L − 1, L − 4 or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from replaycheck.errors import UsageError
from replaycheck.subjects.protocol import SubjectOptions

from .shadow import NAMES, Rules, Shadow
from .wire import Completion, Wire

__all__ = ["OPTIONS", "Learnt", "cuts_prompts", "learn", "told"]


def _on(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError
    return text == "on"


_ASKED = ("parallel", "ctx-size")
"""What the server tells itself."""

_TAKES: Mapping[str, tuple[Callable[[str], Any], str]] = MappingProxyType(
    {name: (int, "a whole number") for name in NAMES if name not in _ASKED}
    | {"slot-prompt-similarity": (float, "a number")}
    | dict.fromkeys(("kv-unified", "cache-idle-slots"), (_on, "on or off"))
)

OPTIONS: Mapping[str, str] = MappingProxyType(dict.fromkeys(_TAKES, "as the server was started with"))

PROMPT = tuple(2 + (at * at + 3 * at) % 97 for at in range(24))
"""The prompt that is sent twice: ids that any model has."""

_LEFT = 4
"""Before so many tokens of a prompt's end a checkpoint is made."""


@dataclass(frozen=True)
class Learnt:
    """shadow: of the server as it is now. not_seen: what was assumed, a sentence."""

    shadow: Shadow
    not_seen: tuple[str, ...]


def learn(wire: Wire, options: SubjectOptions, known: bool = False) -> Learnt:
    """Ask and read; what was asked is in the shadow, too.

    Args:
        known: whether options that aren't given are the defaults, since we started the server.

    Raises:
        UsageError: an option with a value that it can't have.
    """
    given = {NAMES[name]: value for name, value in told(options).items()}
    said, props = _twice(wire), wire.props()
    slots = props.get("total_slots")
    slots = slots if isinstance(slots, int) and slots > 0 else 1
    hit = said[1].cached
    found: dict[str, Any] = {"recurrent": hit != len(PROMPT) - 1, "slots": slots}
    if hit != len(PROMPT) - _LEFT and "checkpoints" not in given:
        found["checkpoints"] = 0
    length = (props.get("default_generation_settings") or {}).get("n_ctx")
    if isinstance(length, int):
        found["context"] = length * (1 if given.get("unified") else slots)
    shadow = Shadow(Rules(**(found | given)))
    for each in said:
        shadow.ask(PROMPT, each.tokens, slot=0)
    assumed = [name for name in _TAKES if NAMES[name] not in (found | given)]
    return Learnt(shadow, () if known or not assumed else (_assumed(assumed),))


def _assumed(names: Sequence[str]) -> str:
    return (
        f"options that decide its hits ({', '.join(names)}), so llama.cpp's defaults are assumed where hits are predicted; "
        "give those that differ as --subject-option NAME=VALUE"
    )


def cuts_prompts(wire: Wire) -> bool:
    """Whether a server cuts prompts before their ends, to make checkpoints there."""
    return _twice(wire)[1].cached == len(PROMPT) - _LEFT


def _twice(wire: Wire) -> list[Completion]:
    return [wire.complete(PROMPT, 1, slot=0, fields={"ignore_eos": True}) for _ in range(2)]


def told(options: SubjectOptions) -> dict[str, Any]:
    """Options of the server that were given, by its own names."""
    found = {}
    for name, (parse, allowed) in _TAKES.items():
        given = options.setting(name)
        if given is None:
            continue
        try:
            found[name] = parse(given)
        except ValueError:
            raise UsageError(
                f"--subject-option {name}={given}: give {allowed}, as the server was started with"
            ) from None
    return found

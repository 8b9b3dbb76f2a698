"""The reference prefix cache: it remembers every checkpoint and finds the longest one that is a prefix of a prompt.

Prefixes are compared by where their tokens come from, turn and offset, not by token ids, so that the plan of a free run,
whose answers aren't known yet, is the same. An answer's role token belongs to its prompt: two answers to one prompt share
it.
"""

from __future__ import annotations

from replaycheck.traces.tree import TokenPath

from .steps import Checkpoint

PrefixKey = tuple[tuple[str, int], ...]


def prefix_key(path: TokenPath, position: int) -> PrefixKey:
    """What the first ``position`` tokens of a path are: (turn, tokens of it) for each turn they touch."""
    parts = [(node, min(stop, position) - start) for node, start, stop in path.nodes if start < position]
    if parts and parts[-1][1] == 1:
        parts[-1] = ("role token", path.tokens[position - 1])
    return ((path.trace, 0), *parts)


class PrefixCache:
    """Checkpoints by prefix; unlimited, first come first kept."""

    def __init__(self) -> None:
        self._by_prefix: dict[PrefixKey, Checkpoint] = {}

    def longest(self, path: TokenPath) -> Checkpoint | None:
        """The longest stored prefix of the prompt; at most prompt − 1 tokens, since the last one must be computed."""
        for position in range(path.prompt - 1, 0, -1):
            found = self._by_prefix.get(prefix_key(path, position))
            if found is not None:
                return found
        return None

    def add(self, path: TokenPath, checkpoint: Checkpoint) -> bool:
        """Remember a checkpoint. False if that prefix is stored already, which keeps the older state."""
        key = prefix_key(path, checkpoint.position)
        if key in self._by_prefix:
            return False
        self._by_prefix[key] = checkpoint
        return True

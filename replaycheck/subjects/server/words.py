"""How a trace becomes prompts of a model with another vocabulary: its ids, folded ids, or its text tokenised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replaycheck.errors import EngineEnvironmentError
from replaycheck.schema.trace import Group
from replaycheck.subjects.protocol import Translated
from replaycheck.traces import vocabulary
from replaycheck.traces.revocabulary import SpecialTokens, folded, tokenised

__all__ = ["Words", "choose_words", "translate"]

Tokenize = Callable[[str], list[int]]

SAMPLE = "The river rose twice."
"""A text whose ids tell whether a tokenizer is the traces' own."""


@dataclass(frozen=True)
class Words:
    """A server's tokenizer. name: of its vocabulary."""

    name: str
    size: int
    encode: Tokenize
    special: SpecialTokens


def choose_words(wanted: str | None, name: str, size: int, tokenize: Tokenize | None) -> Words | None:
    """The tokenizer to use, or None: ids go as they are, folded if they don't fit.

    Args:
        wanted: ``ids``, ``folded``, ``text``; None: text if there is a tokenizer that isn't the traces' own, else ids.

    Raises:
        EngineEnvironmentError: text is wanted and the server doesn't tokenise.
    """
    if wanted in ("ids", "folded"):
        return None
    if tokenize is None:
        if wanted == "text":
            raise EngineEnvironmentError(
                "the server has no /tokenize, so texts can't be sent; give tokens=ids or folded"
            )
        return None
    if wanted is None and tokenize(SAMPLE) == vocabulary.encode(SAMPLE):
        return None
    return Words(name, size, tokenize, _special(tokenize))


def _special(tokenize: Tokenize) -> SpecialTokens:
    """One id for each mark: the first of a word that says it. Both arms get the same, so any would do."""
    roles = {role: tokenize(f"{role}:")[0] for role in ("system", "user", "assistant", "tool")}
    end = tokenize("\n")[0]
    return SpecialTokens(end, roles, end)  # type: ignore[arg-type]


def translate(group: Group, size: int, words: Words | None) -> Translated:
    """The group in ids below ``size``, and what a run says about it."""
    if words is not None:
        made = tokenised(group, words.name, words, words.special)
        return Translated(made.group, made.bos, made.text())
    if size < vocabulary.SIZE:
        made = folded(group, size)
        return Translated(made.group, made.bos, made.text())
    return Translated(group, vocabulary.BOS, "token ids as they are in the traces")

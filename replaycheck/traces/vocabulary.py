"""The vocabulary ``ascii-144``: one token a 7-bit byte, and sixteen special tokens.

The idea: text and tokens line up one to one, so a position in a trace is a position in its text, and no
tokenizer version can move a boundary. The contract: ``decode(encode(text)) == text`` for ASCII text, and
text never becomes a special token, whatever it spells. It is *not* a general tokenizer: text outside
ASCII is refused by :func:`encode`; :func:`transliterate` is the lossy way in.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from replaycheck.errors import UsageError

__all__ = [
    "ASSISTANT",
    "BOS",
    "DOC",
    "END",
    "NAME",
    "PAD",
    "ROLE_TOKENS",
    "SIZE",
    "SPECIAL_NAMES",
    "SYSTEM",
    "TEXT_SIZE",
    "TOOL",
    "USER",
    "decode",
    "encode",
    "prompt_header",
    "transliterate",
    "turn_tokens",
]

NAME: Final = "ascii-144"
TEXT_SIZE: Final = 128
# A multiple of 16, so that matrix products over the vocabulary keep full tiles.
SIZE: Final = 144

PAD: Final = 128
BOS: Final = 129
SYSTEM: Final = 130
USER: Final = 131
ASSISTANT: Final = 132
TOOL: Final = 133
END: Final = 134
DOC: Final = 135

_NAMED: Final = ("pad", "bos", "system", "user", "assistant", "tool", "end", "doc")

#: Name of each special token, by id: ``<|pad|>`` … ``<|doc|>``, then ``<|reserved-0|>`` … ``<|reserved-7|>``.
SPECIAL_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {PAD + i: f"<|{name}|>" for i, name in enumerate(_NAMED)}
    | {DOC + 1 + i: f"<|reserved-{i}|>" for i in range(SIZE - DOC - 1)}
)

#: The token that opens a turn, by role.
ROLE_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {"system": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}
)

# Signs that compatibility decomposition leaves alone, with their usual ASCII spelling.
_SPELLINGS: Final = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": ",", "\u201b": "'", "\u2032": "'",
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u2033": '"',
        "\u00ab": '"', "\u00bb": '"', "\u2039": "'", "\u203a": "'",
        "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "--", "\u2015": "--",
        "\u2212": "-", "\u2044": "/", "\u2022": "*", "\u00b7": "*", "\u00d7": "x", "\u00f7": "/",
        "\u2190": "<-", "\u2192": "->", "\u21d2": "=>", "\u2264": "<=", "\u2265": ">=", "\u2260": "!=",
        "\u00a9": "(c)", "\u00ae": "(R)", "\u20ac": "EUR", "\u00a3": "GBP",
        "\u00df": "ss", "\u00e6": "ae", "\u00c6": "AE", "\u0153": "oe", "\u0152": "OE",
        "\u00f8": "o", "\u00d8": "O", "\u0142": "l", "\u0141": "L", "\u0131": "i",
        "\u00ad": "", "\u200b": "", "\ufeff": "",
    }
)  # fmt: skip


def encode(text: str) -> list[int]:
    """The token ids of ``text``, one a character.

    Raises :class:`UsageError` on the first character outside ASCII, with its position.

    >>> encode("<|end|>")
    [60, 124, 101, 110, 100, 124, 62]
    """
    try:
        return list(text.encode("ascii"))
    except UnicodeEncodeError as error:
        char = text[error.start]
        raise UsageError(
            f"character {char!r} (U+{ord(char):04X}) at position {error.start} is outside ASCII, and the vocabulary "
            f"{NAME!r} holds ASCII only; pass the text through replaycheck.traces.vocabulary.transliterate first"
        ) from None


def decode(ids: Iterable[int]) -> str:
    """The text of ``ids``; special tokens appear by name.

    Raises :class:`UsageError` for an id outside 0…143.

    >>> decode([BOS, *turn_tokens("user", "hi")])
    '<|bos|><|user|>hi<|end|>'
    """
    return "".join(_piece(index, token) for index, token in enumerate(ids))


def _piece(index: int, token: int) -> str:
    if 0 <= token < TEXT_SIZE:
        return chr(token)
    if token in SPECIAL_NAMES:
        return SPECIAL_NAMES[token]
    raise UsageError(
        f"token {token} at position {index} is outside the vocabulary {NAME!r}, whose ids are 0 to {SIZE - 1}; "
        "check which vocabulary these ids were made with"
    )


def transliterate(text: str) -> str:
    """``text`` in ASCII: typographic signs spelled out, accents dropped, anything else ``?``. Lossy.

    >>> transliterate("“naïve” – café")
    '"naive" - cafe'
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_SPELLINGS)).translate(_SPELLINGS)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return bare.encode("ascii", "replace").decode("ascii")


def turn_tokens(role: str, text: str) -> list[int]:
    """One whole turn: the role's token, the bytes of ``text``, ``END``. A conversation is ``[BOS]`` + turns.

    Raises :class:`UsageError` for an unknown role or text outside ASCII.

    >>> turn_tokens("tool", "ok")
    [133, 111, 107, 134]
    """
    return [*prompt_header(role), *encode(text), END]


def prompt_header(role: str) -> list[int]:
    """The tokens that open a turn of ``role``: what a prompt ends with when that role is to speak.

    >>> prompt_header("assistant")
    [132]
    """
    if role not in ROLE_TOKENS:
        raise UsageError(f"role {role!r} is not known; allowed are {', '.join(map(repr, ROLE_TOKENS))}")
    return [ROLE_TOKENS[role]]

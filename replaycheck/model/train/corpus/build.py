"""Writing the corpus: one file of uint8 tokens and a manifest; nothing is downloaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from replaycheck.errors import UsageError
from replaycheck.model.folder import write_json
from replaycheck.model.train.corpus.places import INSTALLED, Places
from replaycheck.model.train.corpus.sources import SOURCES, Source
from replaycheck.say import Say
from replaycheck.traces import vocabulary

__all__ = ["MANIFEST_FILE", "TOKENS_FILE", "Section", "prepare_corpus"]

TOKENS_FILE: Final = "tokens.bin"
MANIFEST_FILE: Final = "manifest.json"
# Below this a document is a stub or an empty page.
_SHORTEST_DOCUMENT: Final = 64
_SHORTEST_CONVERSATION: Final = 8
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class Section:
    """The stretch of the token file that came from one source; sizes in tokens, which are bytes here."""

    name: str
    licence: str
    kind: str
    weight: float
    start: int
    end: int
    documents: int
    blake2b: str


def prepare_corpus(
    out: Path,
    places: Places = INSTALLED,
    sources: Iterable[Source] = SOURCES,
    report: Say = lambda line: None,
) -> tuple[Section, ...]:
    """Write ``out/tokens.bin`` and ``out/manifest.json`` from the sources that are there.

    ``report`` gets a line a source: its size, or that it was skipped. Raises :class:`UsageError` when none is there.
    """
    out.mkdir(parents=True, exist_ok=True)
    temporary = out / f".{TOKENS_FILE}.part"
    seen = set[bytes]()
    with temporary.open("wb") as stream:
        sections = tuple(section for source in sources if (section := _append(stream, source, places, seen, report)))
    if not sections:
        temporary.unlink()
        raise UsageError(
            f"no source of text was found under {places.root} and {places.packages}; install python3-doc or another "
            "package that the model card lists, or name the folder that holds them"
        )
    temporary.replace(out / TOKENS_FILE)
    write_json(out / MANIFEST_FILE, _manifest(sections))
    return sections


def _append(stream: BinaryIO, source: Source, places: Places, seen: set[bytes], report: Say) -> Section | None:
    start, documents, state = stream.tell(), 0, hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for content in _unseen(source.documents(places), seen):
        stream.write(content)
        state.update(content)
        documents += 1
    if documents == 0:
        report(f"{source.name}: not found, skipped")
        return None
    end = stream.tell()
    report(f"{source.name}: {documents} documents, {(end - start) / 1e6:.2f} MB")
    return Section(source.name, source.licence, source.kind, source.weight, start, end, documents, state.hexdigest())


def _unseen(documents: Iterable[list[int]], seen: set[bytes]) -> Iterator[bytes]:
    """Documents long enough and not yet ``seen``: a copy would be learnt by heart, or leak into what is held out."""
    for tokens in documents:
        content = bytes(tokens)
        key = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
        shortest = _SHORTEST_DOCUMENT if tokens[0] == vocabulary.DOC else _SHORTEST_CONVERSATION
        if len(content) >= shortest and key not in seen:
            seen.add(key)
            yield content


def _manifest(sections: tuple[Section, ...]) -> dict[str, object]:
    return {
        "vocabulary": vocabulary.NAME,
        "tokens": sections[-1].end,
        "sections": [vars(section) for section in sections],
    }

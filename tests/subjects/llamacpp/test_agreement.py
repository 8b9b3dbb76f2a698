"""One model, three engines: the lab, transformers and llama.cpp say the same of the shipped model, within their own noise.

Each engine's floor is the largest difference between two of its own legitimate computations: many tokens at once, and
token by token. Two engines may differ by 4 times the larger floor of the two, as two roundings of one function do; what
llama.cpp's graph can't hold (the epsilon of the L2 norms, see the export) lies within.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from replaycheck.assets import model_dir, trace_suite
from replaycheck.model.gguf_export import export_gguf
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.wire import Wire, force
from replaycheck.traces.read import read_groups
from replaycheck.traces.tree import request_paths
from replaycheck.traces.vocabulary import END, SIZE
from tests.against_transformers import of_lab, of_transformers
from tests.tensors import one_thread as one_thread

pytest.importorskip("transformers")

POSITIONS = 100
"""Three turns, of which one ends at a chunk's edge, and the beginning of a fourth."""

FACTOR = 4

LAST = 20
"""Positions at the end that llama.cpp scores behind a prefilled prompt as well; each takes a cold request."""

WHOLE, SINGLE = (POSITIONS,), (1,) * POSITIONS


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    """The beginning of a conversation with tools, special tokens among them."""
    group = next(each for each in read_groups(trace_suite("quick")) if each.group == "edges_64")
    return list(max(request_paths(group), key=lambda path: path.end).tokens[: POSITIONS + 1])


def of_llamacpp(wire: Wire, tokens: list[int], cache: bool) -> tuple[np.ndarray, list[int]]:
    """Every position, in answers that end where turns end; and the hits."""
    ends = [at + 1 for at, token in enumerate(tokens) if token == END]
    found, hits = [], []
    for start, end in zip([1, *ends], [*ends, len(tokens)], strict=True):
        answer = tokens[start:end]
        said = wire.complete(tokens[:start], len(answer), cache=cache, slot=0, grammar=force(answer, frozenset({END})))
        assert list(said.tokens) == answer
        found += [entry[1][token] for token, entry in zip(answer, said.entries, strict=True) if entry]
        hits.append(said.cached or 0)
    return np.array(found), hits


def prefilled(wire: Wire, tokens: list[int]) -> np.ndarray:
    """The last positions, each after a cold prompt of all that stands before it."""
    starts = range(len(tokens) - LAST, len(tokens))
    said = [wire.complete(tokens[:at], 1, cache=False, slot=1).entries[0] for at in starts]
    return np.array([entry[1][tokens[at]] for at, entry in zip(starts, said, strict=True) if entry])


def test_lab_transformers_and_llamacpp_agree_within_their_floors(
    tokens: list[int], serve: Callable[..., LlamaServer], tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    export_gguf(model_dir(None), tmp_path / "shipped.gguf")
    wire = Wire(Client(serve(tmp_path / "shipped.gguf").url), SIZE)
    cold, none = of_llamacpp(wire, tokens, cache=False)
    warm, hits = of_llamacpp(wire, tokens, cache=True)
    decoded = np.abs(cold[-LAST:] - prefilled(wire, tokens)).max()
    assert not any(none) and all(hits[1:]) and len(hits) > 2
    whole, single = (of_transformers(tokens, pieces) for pieces in (WHOLE, SINGLE))
    found = {"transformers": single, "lab": of_lab(tokens, SINGLE), "llama.cpp cold": cold, "llama.cpp warm": warm}
    floors = {
        "transformers": np.abs(whole - single).max(),
        "lab": np.abs(of_lab(tokens, WHOLE) - found["lab"]).max(),
        "llama.cpp cold": decoded,
        "llama.cpp warm": decoded,
    }
    print({name: f"{floor:.2g}" for name, floor in floors.items()})
    for one, two in combinations(found, 2):
        difference, floor = np.abs(found[one] - found[two]).max(), max(floors[one], floors[two])
        record_property(f"{one} and {two}", f"{difference:.3g} nat, {difference / floor:.2f} of the larger floor")
        print(f"{one} and {two}: {difference:.3g} nat, {difference / floor:.2f} of the larger floor")
        assert difference <= FACTOR * floor, (one, two)

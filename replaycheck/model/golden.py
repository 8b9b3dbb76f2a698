"""Golden log-probabilities of the shipped model: what the float64 oracle says at every scored position of a few groups.

They ship as ``traces/golden.safetensors``; the groups are those of suites that ship. Any engine that serves the model can be
held against them (``replaycheck model verify``), and anybody can make them again (``replaycheck model golden``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from replaycheck.assets import trace_suite
from replaycheck.errors import UsageError
from replaycheck.model.checkpoint import digest
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.traces.read import read_groups
from replaycheck.traces.tree import TokenPath, request_paths
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours

__all__ = ["AGREE", "GROUPS", "Golden", "compute", "difference", "golden_groups", "read_golden", "write_golden"]

GROUPS = (("quick", "long_tail"), ("quick", "regenerate_and_fork"), ("archetypes", "small.long_document_qa"))
"""Suite and name: branches, answers that are tried again, and prompts up to 1,700 tokens, which large blocks hit."""

AGREE = 1e-9
"""Two machines' float64 log-probabilities agree to about 1e-13 (sample.py); ten thousand times that isn't rounding."""

Key = tuple[str, int, int, int]


@dataclass(frozen=True)
class Golden:
    """By place (trace, branch, turn, position) the log-probabilities [vocabulary], nat, float64."""

    model: str
    places: tuple[Key, ...]
    tokens: NDArray[np.int32]  # [n] of the answers
    logprobs: NDArray[np.float64]  # [n, vocabulary]


def golden_groups() -> list[Group]:
    """The groups, in the order of ``GROUPS``."""
    found = {(suite, group.group): group for suite in dict(GROUPS) for group in read_groups(trace_suite(suite))}
    return [found[each] for each in GROUPS]


def compute(model: Path, groups: Sequence[Group]) -> Golden:
    """The oracle on the whole path of every request, each from token 0: about 2 ms a token."""
    recipe = preset("oracle")
    network = Network(model, recipe, ours(recipe, "cpu"))
    places: list[Key] = []
    tokens: list[int] = []
    rows: list[NDArray[np.float64]] = []
    for path in _paths(groups):
        places += [(path.trace, path.branch, path.turn_index, at) for at in range(path.prompt, path.end)]
        tokens += path.tokens[path.prompt : path.end]
        rows.append(_path(network, path))
    return Golden(digest(model), tuple(places), np.array(tokens, np.int32), np.concatenate(rows))


def _paths(groups: Sequence[Group]) -> Iterator[TokenPath]:
    return (path for group in groups for path in request_paths(group))


@torch.no_grad()
def _path(network: Network, path: TokenPath) -> NDArray[np.float64]:
    """[answer, vocabulary] log-probabilities of one path."""
    network.reset()
    inputs = path.tokens[: path.end - 1]
    row = RowInput(inputs, 0, "recurrent", network.empty_state(), first_logit=path.prompt - 1)
    logits = network.forward([row])[0].logits.to(torch.float64)
    return np.asarray(torch.log_softmax(logits, dim=1).numpy())


def difference(shipped: Golden, made: Golden) -> str:
    """What isn't as it ships; empty if nothing."""
    if shipped.model != made.model:
        return f"another model: {made.model}, shipped are those of {shipped.model}"
    if shipped.places != made.places or not np.array_equal(shipped.tokens, made.tokens):
        return "other positions or tokens; the suites have changed"
    largest = float(np.abs(shipped.logprobs - made.logprobs).max())
    return f"log-probabilities differ by up to {largest:.3g} nat" if not largest <= AGREE else ""


def write_golden(path: Path, golden: Golden) -> None:
    """One safetensors file; what belongs to a row is in its metadata."""
    metadata = {"model": golden.model, "places": json.dumps(golden.places, separators=(",", ":"))}
    save_file({"logprobs": golden.logprobs, "tokens": golden.tokens}, path, metadata)


def read_golden(path: Path) -> Golden:
    """Raises :class:`UsageError` if it isn't such a file."""
    try:
        with safe_open(path, "numpy") as handle:
            metadata = handle.metadata() or {}
        tensors = load_file(path)
        places = tuple((str(t), int(b), int(n), int(p)) for t, b, n, p in json.loads(metadata["places"]))
        golden = Golden(metadata["model"], places, tensors["tokens"], tensors["logprobs"])
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise UsageError(
            f"{path}: no golden log-probabilities ({error}); make them with replaycheck model golden"
        ) from None
    if golden.logprobs.shape[0] != len(places) or golden.tokens.shape != (len(places),):
        raise UsageError(f"{path}: {len(places)} places, {golden.logprobs.shape[0]} rows; make it again")
    return golden

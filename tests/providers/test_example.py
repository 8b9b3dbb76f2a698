"""The documented example of a third party's provider loads, is right, and refuses what it doesn't declare."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import torch

from replaycheck_kernels.contract import SnapshotRow, SnapshotSource
from replaycheck_kernels.error_model import predict_for
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.providers import Provider, ProviderError, load_provider, loading
from replaycheck_kernels.providers.interpreted import case, error
from replaycheck_kernels.recipe import preset

EXAMPLES = Path(__file__).parents[2] / "examples"
EXACT = preset("exact")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """By entry point, as the example's text says; the folder is on the import path for the test only."""
    monkeypatch.syspath_prepend(EXAMPLES)
    announced = EntryPoints([EntryPoint("mine", "provider:factory", loading.GROUP)])
    monkeypatch.setattr(loading, "entry_points", lambda group: announced.select(group=group))
    return load_provider("mine")


def test_the_example_stays_short() -> None:
    assert len((EXAMPLES / "provider.py").read_text().splitlines()) <= 45


def test_it_also_loads_by_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    assert load_provider("provider:factory").name == "mine"


def test_it_computes_what_it_claims(provider: Provider) -> None:
    found = provider.kernel("kda", "recurrent", "cpu")
    inputs, initial = case(found.kind, [70, 33], 32, 24)
    untouched, rows = initial.clone(), [SnapshotRow(1, 0, 0, SnapshotSource.FINAL)]
    assert found.claim(inputs) == EXACT.name
    got, truth = (kernel(inputs, initial, rows, EXACT) for kernel in (found.kernel, ORACLE_KERNEL))
    allowed = predict_for(inputs, EXACT, "recurrent")
    assert error(got.o, truth.o) <= allowed.output
    assert error(got.final, truth.final) <= allowed.state
    assert torch.equal(got.snapshots[0], got.final[1])
    assert torch.equal(initial, untouched)


def test_it_refuses_what_it_does_not_declare(provider: Provider) -> None:
    found = provider.named("mine/kda")
    inputs, initial = case(found.kind, [3], 8, 8)
    with pytest.raises(ProviderError, match="can't run the lower-bound decay"):
        found.kernel(replace(inputs, lower_bound=-5.0), initial, (), EXACT)
    with pytest.raises(ValueError, match="can't snapshot from accumulator"):
        found.kernel(inputs, initial, [SnapshotRow(0, 0, 0, SnapshotSource.ACCUMULATOR)], EXACT)

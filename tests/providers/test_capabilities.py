"""A kernel refuses what it doesn't declare, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow
from replaycheck_kernels.providers import Capabilities, Decay, ModelKind, ProviderError
from replaycheck_kernels.providers.interpreted import case
from replaycheck_kernels.providers.provider import checked
from replaycheck_kernels.recipe import EXACT, Recipe

KDA, GDN = ModelKind.KDA, ModelKind.GDN
NARROW = Capabilities((), decays=frozenset({Decay.SOFTPLUS}), widest_key=32, widest_value=32)


def run(can: Capabilities, kind: ModelKind, inputs: KdaInputs) -> KdaOutput:
    """Call a kernel that hands v back behind the check."""

    def nothing(x: KdaInputs, initial: torch.Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        return KdaOutput(x.v, initial, initial)

    return checked("some/kernel", kind, can, nothing)(inputs, torch.zeros(0), (), EXACT)


def grouped() -> KdaInputs:
    """Two key heads, four value heads."""
    inputs, _ = case(KDA, [3], 8, 8, heads=4)
    return replace(inputs, q=inputs.q[:, :2], k=inputs.k[:, :2])


def inputs(kind: ModelKind, key: int, value: int, bound: float | None = None) -> KdaInputs:
    return replace(case(kind, [3], key, value)[0], lower_bound=bound)


@pytest.mark.parametrize(
    ("can", "kind", "given", "says"),
    [
        (NARROW, KDA, inputs(KDA, 8, 8, -5.0), "can't run the lower-bound decay; it does softplus"),
        (NARROW, KDA, inputs(KDA, 64, 8), "can't run K=64, V=8"),
        (NARROW, KDA, inputs(KDA, 8, 64), "can't run K=8, V=64"),
        (replace(NARROW, equal_widths=True), KDA, inputs(KDA, 8, 16), "needs K = V"),
        (NARROW, KDA, grouped(), "can't run 4 value heads; it needs 2"),
        (NARROW, KDA, inputs(GDN, 8, 8), "needs 8 in the last axis for kda"),
        (NARROW, GDN, inputs(KDA, 8, 8), "needs 1 in the last axis for gdn"),
    ],
    ids=["decay", "key", "value", "unequal", "grouped", "gdn-as-kda", "kda-as-gdn"],
)
def test_undeclared_input_is_refused(can: Capabilities, kind: ModelKind, given: KdaInputs, says: str) -> None:
    with pytest.raises(ProviderError, match=f"some/kernel.*{says}"):
        run(can, kind, given)


@pytest.mark.parametrize(
    ("can", "kind", "given"),
    [
        (NARROW, KDA, inputs(KDA, 8, 16)),
        (NARROW, GDN, inputs(GDN, 8, 16)),
        (replace(NARROW, decays=frozenset(Decay)), KDA, inputs(KDA, 8, 8, -5.0)),
        (replace(NARROW, grouped_values=True), KDA, grouped()),
    ],
    ids=["kda", "gdn", "lower-bound", "grouped"],
)
def test_declared_input_runs(can: Capabilities, kind: ModelKind, given: KdaInputs) -> None:
    assert run(can, kind, given).o is given.v

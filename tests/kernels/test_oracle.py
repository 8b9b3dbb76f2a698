"""The float64 oracle against the matrix form of the recurrence, and against what a delta-rule memory must do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from replaycheck_kernels.contract import KdaInputs, SnapshotSource
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.recipe import ORACLE
from tests.kernels.cases import LAYERS, REGIMES, WIDTHS, Layer, random_inputs, random_states, tap

F64 = NDArray[np.float64]


def matrix_form(x: KdaInputs, head: int, S: F64, begin: int, end: int) -> tuple[F64, F64]:
    """S_t = S_{t−1} Diag(e^g)(I − β k̂ k̂ᵀ) + β v k̂ᵀ and o = K^-½ S q̂ of one value head, with K×K matrices."""
    v, a, b = (getattr(x, name)[:, head].double().numpy() for name in ("v", "a", "b"))
    shared = head * x.q.shape[1] // x.v.shape[1]
    q, k = (getattr(x, name)[:, shared].double().numpy() for name in ("q", "k"))
    rate, bias = np.exp(float(x.A_log[head])), x.dt_bias[head].double().numpy()
    K, outputs = k.shape[1], []
    for t in range(begin, end):
        unit_k, unit_q = (row / np.sqrt(row @ row + 1e-6) for row in (k[t], q[t]))
        g = -rate * np.logaddexp(0, a[t] + bias)
        if x.lower_bound is not None:
            g = x.lower_bound / (1 + np.exp(-rate * (a[t] + bias)))
        decay = np.diag(np.broadcast_to(np.exp(g), K))
        beta = 1 / (1 + np.exp(-b[t]))
        S = S @ decay @ (np.eye(K) - beta * np.outer(unit_k, unit_k)) + beta * np.outer(v[t], unit_k)
        outputs.append(S @ unit_q / np.sqrt(K))
    return np.array(outputs), S


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("key", "value"), WIDTHS)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_oracle_equals_the_matrix_form(layer: Layer, key: int, value: int, regime: str) -> None:
    x = random_inputs((5, 1, 9), key, value, regime, layer=layer)
    initial = random_states(3, key, value, heads=layer.value_heads)
    found = ORACLE_KERNEL(x, initial, (), ORACLE)
    for r, (begin, end) in enumerate(zip(x.offsets, x.offsets[1:], strict=False)):
        for head in range(layer.value_heads):
            o, S = matrix_form(x, head, initial[r, head].double().numpy(), begin, end)
            # 9 float64 steps of products over K ≤ 128: 1e-13 is some hundred roundings of 1e-16.
            np.testing.assert_allclose(found.final[r, head].numpy(), S, rtol=0, atol=1e-13 * max(1, np.abs(S).max()))
            np.testing.assert_allclose(found.o[begin:end, head].numpy(), o, rtol=0, atol=1e-13)


def memory(tokens: int, width: int) -> KdaInputs:
    """Unit keys e_0, e_1, …, beta = 1 and no decay, in float64. Queries ask for the key of the same token."""
    keys = torch.eye(width, dtype=torch.float64)[:tokens, None, :] * 1e6  # so that the norm's epsilon is nothing
    values = torch.randn(tokens, 1, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return KdaInputs(
        q=keys,
        k=keys,
        v=values,
        a=torch.full_like(keys, -1e4),  # softplus is 0
        b=torch.full((tokens, 1), 1e4, dtype=torch.float64),  # sigmoid is 1
        A_log=torch.zeros(1),
        dt_bias=torch.zeros(1, width),
        offsets=(0, tokens),
    )


def test_orthonormal_keys_recall_their_values_exactly() -> None:
    x = memory(8, 8)
    found = ORACLE_KERNEL(x, torch.zeros(1, 1, 6, 8, dtype=torch.float64), (), ORACLE)
    assert torch.equal(found.final[0, 0], x.v[:, 0].T)
    torch.testing.assert_close(found.o * 8**0.5, x.v, rtol=4.5e-16, atol=0)  # two roundings: the scale and its undoing


def test_writing_a_key_again_replaces_its_value() -> None:
    x = memory(2, 8)
    x.k[1] = x.k[0]
    found = ORACLE_KERNEL(x, torch.zeros(1, 1, 6, 8, dtype=torch.float64), (), ORACLE)
    # v0 + (v1 − v0) in float64
    torch.testing.assert_close(found.final[0, 0, :, 0], x.v[1, 0], rtol=1e-15, atol=1e-15)
    assert torch.count_nonzero(found.final[0, 0, :, 1:]) == 0


def test_oracle_snapshots_are_the_states_of_truncated_runs() -> None:
    x, initial = random_inputs((130,)), random_states(1)
    rows = (tap(1), tap(2, SnapshotSource.CHUNK_STATE), tap(0, SnapshotSource.FINAL))
    whole = ORACLE_KERNEL(x, initial, rows, ORACLE)
    for taken, tokens in zip(whole.snapshots, (64, 128, 130), strict=True):
        _, S = matrix_form(x, 0, initial[0, 0].double().numpy(), 0, tokens)
        # Up to 130 steps, as above; errors of decayed steps don't add up.
        np.testing.assert_allclose(taken[0].numpy(), S, rtol=0, atol=1e-13 * max(1, np.abs(S).max()))

"""Order statistics and cluster means out of core are those of numpy in memory."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.stats.clusters import ClusterMeans
from replaycheck.stats.quantiles import LEVELS, quantiles
from replaycheck.stats.selection import rank_of, select

VALUES = st.lists(st.floats(0, 1e300) | st.sampled_from([0.0, 5e-324, 1.0]), min_size=1, max_size=300)


def chosen(values: np.ndarray, chunks: int) -> dict[str, float]:
    ranks = {name: rank_of(level, len(values)) for name, level in LEVELS.items()}
    found = select(lambda: np.array_split(values, chunks), ranks.values())
    return {name: found[rank] for name, rank in ranks.items()}


@given(VALUES, st.integers(1, 5))
def test_selected_quantiles_are_numpys(values: list[float], chunks: int) -> None:
    whole = np.array(values)
    assert chosen(whole, chunks) == quantiles(whole)


@pytest.mark.parametrize("n", [1, 2, 9, 10, 999, 1000, 1001, 65537, 100_003])
def test_ranks_are_those_of_numpys_inverted_cdf(n: int) -> None:
    wanted = np.quantile(np.arange(n), list(LEVELS.values()), method="inverted_cdf")
    assert [rank_of(level, n) for level in LEVELS.values()] == wanted.tolist()


def test_order_and_chunks_change_nothing() -> None:
    values = np.abs(np.random.default_rng(0).normal(size=5000)) ** 9
    assert chosen(values, 1) == chosen(values[::-1], 7) == chosen(np.sort(values), 50)


def test_neighbouring_numbers_are_told_apart() -> None:
    low = 0.1
    high = float(np.nextafter(low, 1))
    assert select(lambda: [np.array([high, low, high])], [0, 1]) == {0: low, 1: high}


@pytest.mark.parametrize("bit", [0, 16, 32, 48])
def test_numbers_whose_leading_bits_are_neighbours_are_told_apart(bit: int) -> None:
    bits = np.float64(0.1).view(np.uint64) + np.arange(3, dtype=np.uint64) * np.uint64(1 << bit)
    values = bits.view(np.float64)
    assert select(lambda: [values[::-1]], [0, 1, 2]) == dict(enumerate(values.tolist()))


def test_a_trace_counts_once_and_ten_of_one_cluster_count_once() -> None:
    means = ClusterMeans()
    for cluster, mean in [("c", 1.0), ("c", 5.0), ("d", 3.0)]:
        means.add(cluster, mean)
    assert means.finish().tolist() == [3, 3]
    assert ClusterMeans().finish().tolist() == []


def test_a_tiny_mean_is_kept() -> None:
    means = ClusterMeans()
    for cluster in ("a", "b"):
        means.add(cluster, 1e-20)
    assert means.finish().tolist() == [1e-20, 1e-20]


def test_cluster_means_are_exact_but_for_the_last_bits() -> None:
    draws = np.random.default_rng(1)
    frame = pd.DataFrame({"cluster": np.sort(draws.integers(0, 20, 2000)), "mean": draws.lognormal(-9, 4, 2000)})
    means = ClusterMeans()
    for cluster, mean in frame.itertuples(index=False):
        means.add(str(cluster), float(mean))
    exact = [math.fsum(mine) / len(mine) for _, mine in frame.groupby("cluster")["mean"]]
    # Kahan's sum of positive numbers is off by at most 2 units of 2^-53, and the division by one more.
    assert np.allclose(means.finish(), exact, rtol=3 * 2.0**-53, atol=0)

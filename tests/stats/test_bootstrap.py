"""Cluster bootstrap: against scipy's where that can do it, and by its coverage."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from replaycheck.errors import InternalError
from replaycheck.stats import bootstrap
from replaycheck.stats.bootstrap import cluster_bootstrap, pooled_quantile
from replaycheck.stats.estimate import Estimated


def holds(found: Estimated, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def ratio_of_means(a: np.ndarray, b: np.ndarray, seed: int = 0) -> Estimated:
    """A smooth statistic to test the bootstrap with: mean of a over mean of b, paired by cluster."""

    def ratio(counts: bootstrap.Counts) -> np.ndarray:
        # Not a matrix product: its last bits would depend on the number of rows.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((counts * a).sum(axis=1) / (counts * b).sum(axis=1))

    return cluster_bootstrap(ratio, len(a), "ratio of means", seed=seed)


def test_a_ratio_has_the_bca_interval_of_scipy() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(0, 1, 40), rng.lognormal(0.2, 0.5, 40)
    found = ratio_of_means(a, b)
    theirs = stats.bootstrap(
        (a, b), lambda x, y, axis: x.mean(axis) / y.mean(axis), paired=True, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    assert found.value == pytest.approx(a.mean() / b.mean())
    assert "BCa" in found.method
    # 2,000 and 9,999 resamples: the 2.5 % point moves by about 3 % of the interval's width.
    width = theirs.high - theirs.low
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=0.1 * width)


def test_the_same_seed_gives_the_same_interval_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.random.default_rng(0).random((2, 30))
    first = ratio_of_means(a, b)
    monkeypatch.setattr(bootstrap, "_BATCH", 7 * 30)
    assert ratio_of_means(a, b) == first
    assert ratio_of_means(a, b, seed=1) != first


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9, 0.999, 1.0])
def test_a_pooled_quantile_is_that_of_the_drawn_clusters(level: float) -> None:
    """Each row of counts against numpy on the values repeated that often."""
    rng = np.random.default_rng(3)
    cluster = np.sort(rng.integers(0, 6, 300))
    values = rng.random(300) + cluster  # uneven: the largest values belong to one cluster
    _, at, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    counts = rng.multinomial(6, np.full(6, 1 / 6), 50).astype(float)
    expected = [np.quantile(np.repeat(values, row[at].astype(int)), level, method="inverted_cdf") for row in counts]
    assert bootstrap._quantile(values, at, sizes, level)(counts).tolist() == expected


def test_quantiles_over_clusters_cover_and_those_over_tokens_do_not() -> None:
    """Each trace has its own spread, so ten tokens of it are far from ten cases (coverage .24 instead of .92)."""
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(48), 10)

    def noise(traces: int) -> np.ndarray:
        return np.abs(np.exp(rng.normal(0, 1, (traces, 1))) * rng.normal(size=(traces, 10)))

    truth = float(np.quantile(noise(100_000), 0.9))
    sets = [noise(48).ravel() for _ in range(60)]
    by_trace = np.mean([holds(pooled_quantile(each, cluster, 0.9), truth) for each in sets])
    by_token = np.mean([holds(pooled_quantile(each, np.arange(each.size), 0.9), truth) for each in sets[:20]])
    assert by_trace >= 0.83  # .93 less three standard deviations of 60 replicates, .033 each
    assert by_token <= 0.7


def test_ratios_cover() -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(150):
        common = rng.lognormal(0, 0.7, 32)
        found.append(
            ratio_of_means(0.8 * common * rng.lognormal(-0.02, 0.2, 32), common * rng.lognormal(-0.02, 0.2, 32))
        )
    assert np.mean([holds(each, 0.8) for each in found]) >= 0.88  # .94 less three standard deviations of .019


def test_equal_values_give_a_point_where_scipy_gives_nan() -> None:
    with np.errstate(invalid="ignore"), pytest.warns(stats.DegenerateDataWarning):
        theirs = stats.bootstrap((np.zeros(9),), np.mean, rng=np.random.default_rng(0)).confidence_interval
    assert np.isnan(theirs.low)
    found = pooled_quantile(np.zeros(90), np.repeat(np.arange(9), 10), 0.999)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert "exactly 0" in found.method
    same = ratio_of_means(np.full(9, 3.0), np.full(9, 2.0))
    assert (same.value, same.low, same.high) == (1.5, 1.5, 1.5)


def test_where_bca_is_not_defined_percentiles_are_taken() -> None:
    """Fewer clusters than the data's occur in every resample: the bias correction would be infinite."""
    found = cluster_bootstrap(lambda counts: (counts > 0).sum(axis=1) * 1.0, 20, "clusters that occur")
    assert found.method == "clusters that occur, cluster bootstrap (percentile), 95%"
    assert found.value == 20
    assert found.high is not None and found.high < 20  # 20·(1 - 1/e) = 12.6 on average


def test_each_cluster_is_drawn_as_often_as_any_other() -> None:
    drawn = bootstrap._draws(lambda counts: counts, 5, 4000, 0)
    assert drawn.shape == (4000, 5)
    assert (drawn.sum(axis=1) == 5).all()
    # A count is binomial, of 5 draws with a chance of 1/5: its standard deviation is 0.89, the mean's 0.014.
    assert drawn.mean(axis=0) == pytest.approx(np.ones(5), abs=4 * 0.014)


@pytest.mark.parametrize("batch", [1 << 22, 30])
def test_each_cluster_is_left_out_once(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(bootstrap, "_BATCH", batch)
    left = bootstrap._left_out(lambda counts: counts, 7)
    assert left.tolist() == (1 - np.eye(7)).tolist()


def test_bca_levels_are_those_of_efrons_formula() -> None:
    """From draws that are given, so that no Monte Carlo error hides a wrong constant; a tenth of them equal the value."""
    rng = np.random.default_rng(7)
    data = rng.lognormal(0, 1, 30)
    value = float(data.mean())
    drawn = np.append(rng.normal(value - 0.1, 0.3, 900), np.full(100, value))
    levels, kind = bootstrap._bca(value, drawn, lambda counts: (counts * data).sum(1) / counts.sum(1), 30, 0.9)
    bias = stats.norm.ppf(np.mean(drawn < value) + 0.05)
    left_out = np.array([np.delete(data, at).mean() for at in range(30)])
    pull = left_out.mean() - left_out
    skew = np.sum(pull**3) / (6 * np.sum(pull**2) ** 1.5)
    shifted = bias + stats.norm.ppf([0.05, 0.95])
    assert kind == "BCa"
    assert levels == pytest.approx(stats.norm.cdf(bias + shifted / (1 - skew * shifted)).tolist(), rel=1e-9)


def percentiles(statistic: Callable[[bootstrap.Counts], np.ndarray], clusters: int = 20) -> None:
    found = cluster_bootstrap(statistic, clusters, "it", 0.9)
    drawn = bootstrap._draws(statistic, clusters, 2000, 0)
    assert found.method == "it, cluster bootstrap (percentile), 90%"
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])), rel=1e-12)


def test_percentiles_are_taken_where_every_draw_lies_on_one_side() -> None:
    percentiles(lambda counts: (counts > 0).sum(axis=1) * 1.0)
    percentiles(lambda counts: -(counts > 0).sum(axis=1) * 1.0)


@pytest.mark.parametrize("sign", [-1, 1], ids=["skewed to the left", "skewed to the right"])
@pytest.mark.parametrize("shift", [-1.5, 0.5], ids=["all below", "all above"])
def test_a_bias_that_would_be_infinite_is_not_corrected(shift: float, sign: int) -> None:
    data = sign * np.random.default_rng(7).lognormal(0, 1, 30)
    drawn = data.mean() + shift + np.random.default_rng(8).random(100)
    found = bootstrap._bca(float(data.mean()), drawn, lambda counts: (counts * data).sum(1) / counts.sum(1), 30, 0.9)
    assert found == ([pytest.approx(0.05), pytest.approx(0.95)], "percentile")


def test_percentiles_are_taken_where_leaving_out_a_cluster_shows_no_skew() -> None:
    """A cluster that is drawn twice: no cluster left out makes that happen, but draws do."""
    percentiles(lambda counts: (counts[:, 0] > 1) * 1.0)


def test_percentiles_are_taken_where_a_cluster_left_out_has_no_number() -> None:
    def statistic(counts: bootstrap.Counts) -> np.ndarray:
        value = counts @ np.arange(20.0)
        value[(counts == 0).sum(axis=1) == 1] = np.inf  # no draw of 20 misses exactly one: seldom enough
        return value

    with np.errstate(invalid="ignore"):
        percentiles(statistic)


def test_a_correction_that_turns_the_tail_round_is_not_made() -> None:
    """One cluster outweighs all others: skew · shifted is 1 or more, where the formula has its pole."""
    data = np.append(np.zeros(5), 1.0)
    drawn = np.append(np.full(9999, 0.9), 1.1)
    levels, kind = bootstrap._bca(1.0, drawn, lambda counts: counts @ data, 6, 0.999999)
    assert (levels, kind) == ([pytest.approx(5e-7), pytest.approx(1 - 5e-7)], "percentile")


def test_two_clusters_have_an_interval() -> None:
    found = ratio_of_means(np.array([1.0, 2.0]), np.ones(2))
    assert (found.n, found.low, found.high) == (2, pytest.approx(1), pytest.approx(2))


def test_groups_left_out_estimate_the_same_skew(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.random.default_rng(6).lognormal(0, 1, (2, 400))
    single = ratio_of_means(a, b)
    monkeypatch.setattr(bootstrap, "LEFT_OUT", 100)
    grouped = ratio_of_means(a, b)
    width = single.high - single.low
    # The draws are the same; the skew of 100 groups of four moves an end by 1.4 % of the width.
    assert (grouped.low, grouped.high) == pytest.approx((single.low, single.high), abs=0.02 * width)
    assert grouped != single


def test_what_has_no_interval_says_so() -> None:
    rare = ratio_of_means(np.ones(5), np.array([0.0, 0, 0, 0, 1]))
    assert (rare.value, rare.low) == (5, None)
    # A fifth of the draws has no cluster with a denominator five times: 0.8^5 = 0.33 of 2,000 resamples.
    assert 600 <= int(re.fullmatch(r".*: undefined in (\d+) of 2000 resamples, so no interval", rare.method)[1]) <= 710
    none = pooled_quantile(np.array([]), np.array([], np.int64), 0.5)
    assert (none.value, none.n) == (None, 0)
    one = ratio_of_means(np.ones(1), np.ones(1))
    assert (one.value, one.low, one.high) == (1, None, None)
    with pytest.raises(InternalError, match="can't be paired"):
        pooled_quantile(np.ones(3), np.zeros(2, np.int64), 0.5)

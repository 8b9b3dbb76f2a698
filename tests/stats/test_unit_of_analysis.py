"""Why the trace is the unit (docs/statistics.md): what tests on tokens do to a true null that tests on traces keep."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.signal import lfilter

from replaycheck.stats.intervals import mean_of
from replaycheck.stats.reduction import trace_means
from replaycheck.stats.signs import votes

TRACES, TOKENS = 24, 200
TRACE = np.repeat(np.arange(TRACES), TOKENS)


def null(rng: np.random.Generator) -> np.ndarray:
    """[traces, tokens]: a trace's own level is 0.3 of the variance; the rest is AR(1) of 0.9 within the trace."""
    within = lfilter([np.sqrt(0.19)], [1, -0.9], rng.standard_normal((TRACES, TOKENS + 100)), axis=1)[:, 100:]
    return np.sqrt(0.3) * rng.standard_normal((TRACES, 1)) + np.sqrt(0.7) * within


def test_tests_on_tokens_reject_a_true_null_and_those_on_traces_do_not() -> None:
    """Stated: Kolmogorov-Smirnov .93, Welch .83 on tokens; .017 by permutation of trace means (ours: t, about .05)."""
    rng, tokens_ks, tokens_t, traces, signs = np.random.default_rng(0), [], [], [], []
    for _ in range(200):
        a, b = null(rng), null(rng)
        tokens_ks.append(stats.ks_2samp(a.ravel(), b.ravel(), method="asymp").pvalue < 0.05)
        tokens_t.append(stats.ttest_ind(a.ravel(), b.ravel(), equal_var=False).pvalue < 0.05)
        found = trace_means((a - b).ravel(), TRACE)
        interval = mean_of(found.value)
        traces.append(interval.low is not None and interval.high is not None and interval.low * interval.high > 0)
        signs.append(votes(found.value).p < 0.05)
    assert np.mean(tokens_ks) > 0.85
    assert np.mean(tokens_t) > 0.75
    assert np.mean(traces) <= 0.05 + 3 * 0.0154
    assert np.mean(signs) <= 0.05 + 3 * 0.0154

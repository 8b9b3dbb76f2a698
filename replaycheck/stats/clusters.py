"""The trace is the unit (statistics.md C.0): one number a trace, then one a cluster of traces that share text."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["cluster_means", "trace_means"]


def trace_means(values: pd.Series, traces: pd.Series) -> pd.Series:
    """Mean of ``values`` of each trace, by trace name; missing values don't count."""
    return values.groupby(traces.to_numpy()).mean().dropna().sort_index()


def cluster_means(values: pd.Series, traces: pd.Series, clusters: pd.Series) -> NDArray[np.float64]:
    """[clusters] mean of the trace means of each cluster, by cluster name.

    A long trace counts as much as a short one, and ten traces with one system prompt count once.
    """
    by_trace = trace_means(values, traces)
    cluster_of = dict(zip(traces, clusters, strict=True))
    names = np.array([cluster_of[name] for name in by_trace.index], dtype=object)
    return np.asarray(by_trace.groupby(names).mean().sort_index().to_numpy(np.float64))

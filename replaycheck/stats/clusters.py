"""The trace is the unit (docs/statistics.md): one number a trace, then one a cluster of traces that share text."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClusterMeans"]


class ClusterMeans:
    """Mean of the trace means of each cluster, from trace means in the order of clusters.

    A long trace counts as much as a short one, and ten traces with one system prompt count once. Memory: 8 bytes a cluster.
    """

    def __init__(self) -> None:
        self._means = array("d")
        self._cluster: str | None = None
        self._sum = self._lost = 0.0
        self._traces = 0

    def add(self, cluster: str, mean: float) -> None:
        """The next trace. The sum is compensated (Kahan): its last bit doesn't depend on how long the cluster is."""
        if cluster != self._cluster:
            self._close()
            self._cluster = cluster
        value = mean - self._lost
        total = self._sum + value
        self._lost = total - self._sum - value
        self._sum, self._traces = total, self._traces + 1

    def _close(self) -> None:
        if self._traces:
            self._means.append(self._sum / self._traces)
        self._sum = self._lost = 0.0
        self._traces = 0

    def finish(self) -> NDArray[np.float64]:
        """[clusters] in the order in which they came."""
        self._close()
        return np.array(self._means, np.float64)

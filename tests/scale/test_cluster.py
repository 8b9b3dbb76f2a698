"""Ray: a local cluster of two nodes, one of which is lost; needs the extra ``[cluster]``, and skips without it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scale.conftest import environment, files_of

Run = Callable[..., Any]


def test_without_ray_the_extra_is_named(run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = run_here("--cluster", "local", "--out", tmp_path / "run")
    assert outcome.code == 4
    assert "pip install 'replaycheck[cluster]'" in outcome.err


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that takes no tasks and two nodes with a CPU each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # Nodes start their workers with this environment.
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    memory = {"object_store_memory": 100 * 2**20, "memory": 2 * 2**30}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **memory})
    try:
        made.nodes = [made.add_node(num_cpus=1, **memory) for _ in range(2)]
        yield made
    finally:
        made.shutdown()


def test_two_nodes_give_the_same_bytes_and_a_lost_one_changes_nothing(
    cluster: Any, suite: Path, whole: Path, small_parts: None, tmp_path: Path
) -> None:
    from replaycheck.replay.run import run_whole
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.stage import How

    settings, _ = resolve(suite, subject="null")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if "groups (" in line and len(cluster.nodes) == 2:
            cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)

    run_whole(settings, How(cluster=cluster.address), tmp_path / "run", say=say)
    assert any("2 CPUs on 3 machines" in line for line in lines)
    assert len(cluster.nodes) == 1, "a node was lost on the way"
    assert files_of(tmp_path / "run") == files_of(whole)


def test_a_cluster_that_isnt_there_is_an_environment_error(run_here: Run, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    assert run_here("--cluster", "auto", "--out", tmp_path / "run").code == 4
    assert run_here("--cluster", "http://host/x", "--out", tmp_path / "other").code == 2

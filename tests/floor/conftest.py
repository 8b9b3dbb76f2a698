"""A tiny model, and a suite of two short groups over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.replay.settings import Settings, resolve
from replaycheck.state_probes.groups import chain
from replaycheck.traces.write import write_groups
from tests.suites import suite_text
from tests.tensors import model as model
from tests.tensors import one_thread as one_thread

SUITE = suite_text("small", "traces.jsonl")


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite file; each group has a restore on the grid and one at a turn's end."""
    folder = tmp_path_factory.mktemp("suite")
    groups = [chain(70, 4, 30, 3), chain(66, 3, 9, 5)]
    named = [
        group.model_copy(
            update={
                "group": f"g{i}",
                "traces": (group.traces[0].model_copy(update={"id": f"t{i}"}),),
                "requests": tuple(request.model_copy(update={"trace": f"t{i}"}) for request in group.requests),
            }
        )
        for i, group in enumerate(groups)
    ]
    write_groups(folder / "traces.jsonl", iter(named))
    (folder / "suite.toml").write_text(SUITE, encoding="utf-8")
    return folder / "suite.toml"


@pytest.fixture(scope="session")
def settings(suite: Path, model: Path) -> Settings:
    return resolve(suite, model=model, admitted=False)[0]

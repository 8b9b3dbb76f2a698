"""Fixtures for tests of kernels. pytest loads this module in every run, so it imports nothing until a fixture is asked for.

assert_kernel              :func:`replaycheck.testing.assert_kernel` on the device and with the seed of the command line
assert_replay_consistent   :func:`replaycheck.testing.assert_replay_consistent` likewise
kernel_property            one test for each property of ``probe kernels``, by name
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from replaycheck.schema.probe_table import ProbeCell
    from replaycheck.schema.result import Result

__all__ = ["assert_kernel", "assert_replay_consistent", "pytest_addoption", "pytest_generate_tests"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--replaycheck-device`` and ``--replaycheck-seed``."""
    group = parser.getgroup("replaycheck", "kernels under test")
    group.addoption(
        "--replaycheck-device", choices=("cpu", "cuda"), default="cpu", help="where kernels run (default: cpu)"
    )
    group.addoption(
        "--replaycheck-seed", type=int, default=0, metavar="N", help="seed of random inputs and of replay (default: 0)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the argument ``kernel_property`` becomes one test a property, unless it names its own."""
    if "kernel_property" not in metafunc.fixturenames:
        return
    marked = metafunc.definition.iter_markers("parametrize")
    if any("kernel_property" in str(mark.args[0] if mark.args else mark.kwargs.get("argnames")) for mark in marked):
        return
    from replaycheck.testing import PROPERTY_NAMES

    metafunc.parametrize("kernel_property", PROPERTY_NAMES)


@pytest.fixture
def assert_kernel(request: pytest.FixtureRequest) -> Callable[..., tuple[ProbeCell, ...]]:
    """Probe a kernel and fail if a property is broken; arguments given in the test win over the command line's."""
    from replaycheck.testing import assert_kernel as check

    return partial(check, **_chosen(request))


@pytest.fixture
def assert_replay_consistent(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Replay conversations cached and not, and fail unless every gate passes."""
    from replaycheck.testing import assert_replay_consistent as check

    return partial(check, **_chosen(request))


def _chosen(request: pytest.FixtureRequest) -> dict[str, Any]:
    option = request.config.getoption
    return {"device": option("--replaycheck-device"), "seed": option("--replaycheck-seed")}

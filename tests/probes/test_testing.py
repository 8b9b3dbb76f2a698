"""``replaycheck.testing``: its example runs, and a failure says everything that is needed to find it."""

from __future__ import annotations

import doctest

import pytest

import replaycheck.testing
from replaycheck.errors import UsageError
from replaycheck.testing import PROPERTY_NAMES, assert_kernel, probe_kernel
from replaycheck_kernels.compiled import RECURRENT_CPU
from tests.probes import bad_kernels as bad


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(replaycheck.testing, raise_on_error=True)
    assert result.attempted >= 4 and result.failed == 0


@pytest.mark.parametrize("name", PROPERTY_NAMES)
def test_a_function_is_enough(name: str) -> None:
    (cell,) = assert_kernel(RECURRENT_CPU.forward, recipe="sglang", properties=[name], form="recurrent")
    assert cell.verdict != "broken"


def test_a_failure_names_property_share_element_values_allowed_seed_and_command() -> None:
    spoiled = bad.subject(bad.one_chunk_late).found
    with pytest.raises(AssertionError) as caught:
        assert_kernel(spoiled, recipe="sglang", properties=["restore", "repeat"], seed=3)
    text = str(caught.value)
    assert text.startswith("bad/kernel under recipe sglang: restore is broken\n")
    for part in ("elements, ", "worst o[", "was expected", "allowed 0.018", "seed 3; repeat: pytest tests/probes/"):
        assert part in text, text
    assert "repeat is" not in text


def test_outside_pytest_the_call_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(
        AssertionError, match=r"assert_kernel\(bad/kernel, recipe='sglang', properties=\['error'\], seed=0"
    ):
        assert_kernel(bad.subject(bad.beta_raw).found, recipe="sglang", properties=["error"])


def test_noise_fails_where_bits_must_be_the_same() -> None:
    noisy = bad.subject(bad.batch_noise).found
    assert_kernel(noisy, recipe="sglang", properties=["batch"])
    with pytest.raises(AssertionError, match="batch is noise; it must be exact"):
        assert_kernel(noisy, recipe="sglang", properties=["batch"], exact=["batch"])


def test_what_cannot_be_asked_is_no_proof_of_equal_bits() -> None:
    options = {"recipe": "sglang", "properties": ["snapshot"], "form": "recurrent"}
    (cell,) = assert_kernel(RECURRENT_CPU.forward, **options)  # type: ignore[arg-type]
    assert cell.verdict == "can't"
    with pytest.raises(AssertionError, match="snapshot can't be asked; it must be exact"):
        assert_kernel(RECURRENT_CPU.forward, exact=["snapshot"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"), [({"recipe": "none"}, "unknown recipe"), ({"properties": ["none"]}, "unknown property")]
)
def test_unknown_names_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        probe_kernel(RECURRENT_CPU, **options)  # type: ignore[arg-type]

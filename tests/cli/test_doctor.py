"""The doctor answers on any machine: without a GPU, without extras, with a broken torch."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from types import ModuleType

import pytest

from replaycheck import assets, capabilities
from replaycheck.subjects.choose import SUBJECTS
from replaycheck_kernels.providers.loading import BUILT_IN


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An installation that has its model and its suite."""
    folder = tmp_path_factory.mktemp("shipped")
    monkeypatch.setattr(assets, "trace_suites", lambda: {"quick": folder / "quick.jsonl"})
    monkeypatch.setattr(assets, "model_dir", lambda: folder)


def checks(outcome_json: str) -> dict[str, dict[str, object]]:
    return {check["name"]: check for check in json.loads(outcome_json)["capabilities"]}


@pytest.mark.usefixtures("shipped")
def test_a_good_machine_passes(replaycheck: Callable) -> None:
    outcome = replaycheck("doctor")
    assert outcome.code == 0
    assert "replaycheck run can run here" in outcome.out
    assert json.loads(replaycheck("doctor", "--json").out)["usable"] is True


@pytest.mark.usefixtures("shipped")
def test_a_missing_gpu_is_said_and_no_error(replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    outcome = replaycheck("doctor", "--json")
    for name in ("device cuda", "subject lab on cuda"):
        cuda = checks(outcome.out)[name]
        assert (outcome.code, cuda["usable"]) == (0, False)
        assert "torch finds no GPU" in str(cuda["text"])


@pytest.mark.usefixtures("shipped")
def test_a_broken_torch_is_a_finding(replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def broken(name: str, package: str | None = None) -> ModuleType:
        if name == "torch" or name.startswith("replaycheck_kernels"):
            raise OSError("libtorch_cpu.so: cannot open shared object file")
        return real(name, package)

    monkeypatch.setattr(capabilities.importlib, "import_module", broken)
    outcome = replaycheck("doctor", "--json")
    assert outcome.code == 4
    assert "OSError: libtorch_cpu.so" in str(checks(outcome.out)["torch"]["text"])
    assert "can't run here" in replaycheck("doctor").out


@pytest.mark.usefixtures("shipped")
def test_missing_packages_are_named_with_what_to_install(
    replaycheck: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = capabilities.find_spec
    monkeypatch.setattr(capabilities, "find_spec", lambda name: None if name == "pyarrow" else real(name))
    outcome = replaycheck("doctor")
    assert outcome.code == 4
    assert "pyarrow not installed; pip install pyarrow" in outcome.out


@pytest.mark.usefixtures("shipped")
def test_a_missing_extra_is_no_error(replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise capabilities.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(capabilities.metadata, "version", absent)
    outcome = replaycheck("doctor")
    assert outcome.code == 0
    assert "pip install 'replaycheck[models]'" in outcome.out


PACKAGES = {
    "kernels fla": ("fla-core", "pip install fla-core"),
    "kernels sglang": ("sglang", "--kernels-path DIR"),
    "kernels vllm": ("vllm", "--kernels-path DIR"),
    "subject transformers": ("transformers", "pip install 'replaycheck[models]'"),
    "subjects llamacpp, vllm, sglang, openai, openai-text": ("httpx", "pip install 'replaycheck[engines]'"),
    "subject vllm-offline": ("vllm", "--subject vllm --url URL"),
    "model export gguf": ("gguf", "pip install 'replaycheck[engines]'"),
    "run --cluster ray": ("ray", "pip install 'replaycheck[cluster]'"),
    "notebook": ("jupytext", "pip install 'replaycheck[notebook]'"),
}


@pytest.mark.usefixtures("shipped")
def test_what_is_absent_says_what_to_install(replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise capabilities.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(capabilities.metadata, "version", absent)
    found = checks(replaycheck("doctor", "--json").out)
    for name, (package, advice) in PACKAGES.items():
        assert found[name]["usable"] is False
        assert f"{package} isn't installed" in str(found[name]["text"])
        assert advice in str(found[name]["text"])


@pytest.mark.usefixtures("shipped")
def test_an_engine_without_a_gpu_says_which_of_the_two_is_missing(
    replaycheck: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = importlib.import_module("torch")
    real = capabilities.find_spec
    monkeypatch.setattr(capabilities, "find_spec", lambda name: True if name == "triton" else real(name))
    monkeypatch.setattr(capabilities.metadata, "version", lambda name: "9.9")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = str(checks(replaycheck("doctor", "--json").out)["kernels sglang"]["text"])
    assert said.startswith("sglang 9.9 is there, but torch finds no GPU")


@pytest.mark.usefixtures("shipped")
def test_our_kernels_where_triton_is_there_and_no_gpu_dont_ask_for_triton(
    replaycheck: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = importlib.import_module("torch")
    registry = importlib.import_module("replaycheck_kernels.registry")
    real = capabilities.find_spec
    monkeypatch.setattr(capabilities, "find_spec", lambda name: True if name == "triton" else real(name))
    monkeypatch.setattr(capabilities.metadata, "version", lambda name: "9.9")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(
        registry, "UNAVAILABLE", {"ours/chunk-triton": "needs an NVIDIA GPU and triton: pip install triton"}
    )
    said = str(checks(replaycheck("doctor", "--json").out)["kernels ours, cuda"]["text"])
    assert (
        said == "ours/chunk-triton: Triton 9.9 is there, but torch is built without CUDA; install a CUDA wheel of torch"
    )


def test_every_shipped_subject_and_provider_has_a_line() -> None:
    names = " ".join(check.name for check in capabilities.capabilities()).replace(",", "").split()
    assert set(SUBJECTS) - {"null"} <= set(names)
    assert set(BUILT_IN) <= set(names)


def test_an_installation_without_a_model_says_so(replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "models", dict)
    outcome = replaycheck("doctor")
    assert outcome.code == 4
    assert "no model ships with this installation" in outcome.out

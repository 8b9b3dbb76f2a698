"""From --kernels to a provider: built-in names, import paths, entry points, and one line for each mistake."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.providers import MissingPackage, ModelKind, Provider, ProviderError, load_provider
from replaycheck_kernels.providers.collect import collect
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from tests.providers.fake_kernels import KERNEL, factory

FAKE = "tests.providers.fake_kernels"


def test_our_kernels_are_a_provider() -> None:
    ours = load_provider("ours")
    assert ours.kernel("kda", "chunk", "cpu").kernel is CHUNK_EMULATOR
    assert ours.kernel("gdn", "recurrent", "cpu").kernel is RECURRENT_CPU
    assert ours.kernel("kda", "recurrent", "cuda").kernel is RECURRENT_TORCH


def test_import_path_names_a_factory() -> None:
    assert load_provider(f"{FAKE}:factory").named("fake/recurrent").kernel is KERNEL


def test_entry_point_names_a_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[replaycheck.kernels]\nthird = {FAKE}:factory\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_provider("third").name == "fake"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nobody", "choose one of ours, fla, sglang, vllm"),
        (f"{FAKE}:nothing", "has no 'nothing'"),
        (f"{FAKE}:NUMBER", "isn't callable"),
        (f"{FAKE}:broken", "returned a str"),
        ("module_that_is_nowhere:factory", "no module 'module_that_is_nowhere'"),
    ],
)
def test_mistakes_are_told_in_one_line(spec: str, says: str) -> None:
    with pytest.raises(ProviderError, match=says) as caught:
        load_provider(spec)
    assert "\n" not in str(caught.value)


def test_a_folder_is_for_the_built_in_ones() -> None:
    with pytest.raises(ProviderError, match="brings its own files"):
        load_provider(f"{FAKE}:factory", Path())


@pytest.mark.parametrize("name", ["fla", "sglang", "vllm"])
def test_missing_engine_says_what_to_install(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingPackage, match=r"pip install .*, or give --kernels-path"):
        load_provider(name, tmp_path)
    if importlib.util.find_spec(name) is None:
        with pytest.raises(MissingPackage, match="isn't installed; pip install"):
            load_provider(name)


def test_what_a_provider_lacks_is_listed_with_what_it_has() -> None:
    with pytest.raises(ProviderError, match="no chunk kernel for kda; it has fake/recurrent"):
        factory().kernel("kda", "chunk")
    with pytest.raises(ProviderError, match="no recurrent kernel for kda on cuda"):
        factory().kernel("kda", "recurrent", "cuda")
    with pytest.raises(ProviderError, match="no kernel 'other'"):
        factory().named("other")


def test_forms_of_a_kind() -> None:
    assert load_provider("ours").forms(ModelKind.KDA) == ["chunk", "recurrent"]
    assert factory().forms(ModelKind.GDN) == []


@pytest.mark.parametrize(
    ("version", "tested", "warning"),
    [
        ("1.0", ("1.0",), None),
        ("1.1", ("1.0", "1.2"), "fake 1.1 is untested; tested: 1.0, 1.2"),
        ("", ("1.0",), "fake of unknown version is untested; tested: 1.0"),
        ("", (), None),
    ],
)
def test_untested_version_is_a_warning(version: str, tested: tuple[str, ...], warning: str | None) -> None:
    assert Provider("fake", (), version, tested).warning() == warning


def test_what_does_not_load_is_kept_with_its_reason() -> None:
    def fail(name: str) -> list[object]:
        raise ImportError("cannot import name 'x'\nand more")

    kernels, unavailable = collect({"a": lambda name: list(factory().kernels), "b": fail})  # type: ignore[dict-item]
    assert [found.name for found in kernels] == ["fake/recurrent"]
    assert unavailable == {"b": "ImportError: cannot import name 'x'"}
    with pytest.raises(ProviderError, match="not loaded: b: ImportError"):
        Provider("fake", kernels, unavailable=unavailable).kernel("gdn", "chunk")

"""Kernel files are imported without their package, and nothing of it stays in sys.modules."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from replaycheck_kernels.providers.provider import MissingPackage
from replaycheck_kernels.providers.shim import KernelModules, Source

SERVER = "raise RuntimeError('the server was imported')\n"

SOURCE = Source(
    provider="engine",
    package="enginepkg",
    distribution="engine-dist",
    tested=("1.0", "1.2"),
    bare=("enginepkg.kernels",),
    stubs={"enginepkg.srt.utils": {"is_cuda": lambda: False, "answer": 42}},
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """An unpacked wheel whose packages start a server when they are imported."""
    files = {
        "enginepkg/__init__.py": SERVER,
        "enginepkg/kernels/__init__.py": SERVER,
        "enginepkg/srt/__init__.py": SERVER,
        "enginepkg/srt/utils.py": SERVER,
        "enginepkg/kernels/ops.py": "from enginepkg.srt.utils import answer\nfrom .deep.leaf import leaf\n",
        "enginepkg/kernels/deep/__init__.py": "ran = True\n",
        "enginepkg/kernels/deep/leaf.py": "def leaf():\n    from enginepkg.kernels.late import value\n    return value\n",
        "enginepkg/kernels/late.py": "value = 'late'\n",
        "enginepkg/kernels/needy.py": "import package_that_is_nowhere\n",
        "engine_dist-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: engine-dist\nVersion: 1.2\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def leftovers() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == "enginepkg"]


def test_kernel_file_loads_with_stubs_and_without_the_server(wheel: Path) -> None:
    ops = KernelModules(SOURCE, wheel).load("enginepkg.kernels.ops")
    assert ops.answer == 42


def test_packages_that_are_not_bare_are_initialised(wheel: Path) -> None:
    modules = KernelModules(SOURCE, wheel)
    modules.load("enginepkg.kernels.ops")
    assert modules.load("enginepkg.kernels.deep").ran


def test_nothing_stays_in_sys_modules(wheel: Path) -> None:
    before = set(sys.modules)
    KernelModules(SOURCE, wheel).load("enginepkg.kernels.ops")
    assert not leftovers() and set(sys.modules) == before
    assert str(wheel) not in sys.path


def test_nothing_stays_after_a_failure(wheel: Path) -> None:
    with pytest.raises(MissingPackage):
        KernelModules(SOURCE, wheel).load("enginepkg.kernels.needy")
    assert not leftovers()


def test_imports_inside_a_call_work_while_active(wheel: Path) -> None:
    modules = KernelModules(SOURCE, wheel)
    leaf = modules.load("enginepkg.kernels.ops").leaf
    with modules.active():
        assert leaf() == "late"
    with pytest.raises(ModuleNotFoundError):
        leaf()


def test_a_real_package_of_that_name_is_put_back(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, child = ModuleType("enginepkg"), ModuleType("enginepkg.kernels")
    monkeypatch.setitem(sys.modules, "enginepkg", real)
    monkeypatch.setitem(sys.modules, "enginepkg.kernels", child)
    KernelModules(SOURCE, wheel).load("enginepkg.kernels.ops")
    assert sys.modules["enginepkg"] is real and sys.modules["enginepkg.kernels"] is child
    assert leftovers() == ["enginepkg", "enginepkg.kernels"]


def test_a_module_is_loaded_once(wheel: Path) -> None:
    modules = KernelModules(SOURCE, wheel)
    assert modules.load("enginepkg.kernels.ops") is modules.load("enginepkg.kernels.ops")


def test_version_comes_from_the_metadata_beside_the_package(wheel: Path) -> None:
    assert KernelModules(SOURCE, wheel).version == "1.2"


def test_package_without_metadata_has_no_version(wheel: Path) -> None:
    (wheel / "engine_dist-1.2.dist-info" / "METADATA").unlink()
    (wheel / "engine_dist-1.2.dist-info").rmdir()
    assert KernelModules(SOURCE, wheel).version == ""


@pytest.mark.parametrize("path", [None, "here"], ids=["installed", "folder"])
def test_missing_package_says_what_to_install(path: str | None, tmp_path: Path) -> None:
    with pytest.raises(MissingPackage, match=r"pip install engine-dist==1\.2") as caught:
        KernelModules(SOURCE, tmp_path if path else None)
    assert "\n" not in str(caught.value)


def test_missing_dependency_is_named(wheel: Path) -> None:
    with pytest.raises(MissingPackage, match="install package_that_is_nowhere"):
        KernelModules(SOURCE, wheel).load("enginepkg.kernels.needy")


def test_module_of_another_version_is_named(wheel: Path) -> None:
    with pytest.raises(MissingPackage, match=r"version 1\.2\) holds no module enginepkg\.kernels\.gone"):
        KernelModules(SOURCE, wheel).load("enginepkg.kernels.gone")

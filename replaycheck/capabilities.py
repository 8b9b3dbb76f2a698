"""What this machine can run, and for what it can't, why and what to install. Each check stands for itself.

A check never raises: a broken torch is a finding. Packages that aren't needed to answer are looked up, not imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from replaycheck import assets
from replaycheck.errors import ReplayCheckError

__all__ = ["Capability", "capabilities", "usable"]

#: What a run imports beside torch; all are installed and imported by the same name.
_NEEDED = ("numpy", "pandas", "pyarrow", "scipy", "matplotlib", "jinja2", "safetensors", "numba")
_REINSTALL = "install replaycheck again (pip install --force-reinstall replaycheck)"


class _MissingError(Exception):
    """Why something can't be used, and what to do."""


@dataclass(frozen=True)
class Capability:
    """One thing that a user may want to run."""

    name: str
    usable: bool
    #: needed by `replaycheck run` as it stands
    required: bool
    #: what was found, or why it can't be used and what to do
    text: str


def capabilities() -> list[Capability]:
    """Every check, in the order in which they build on each other."""
    return [
        _check("packages", _packages, required=True),
        _check("torch", _torch, required=True),
        _check("kernels", _kernels, required=True),
        _check("traces", _traces, required=True),
        _check("model", _model, required=True),
        _check("subject lab on cpu", _lab_on_cpu, required=True),
        _check("subject lab on cuda", _lab_on_cuda, required=False),
        _check("cross-check with transformers", _transformers, required=False),
    ]


def usable(checks: list[Capability]) -> bool:
    """Whether ``replaycheck run`` can run here."""
    return all(check.usable for check in checks if check.required)


def _check(name: str, look: Callable[[], str], *, required: bool) -> Capability:
    try:
        return Capability(name, True, required, look())
    except (_MissingError, ReplayCheckError) as error:
        return Capability(name, False, required, str(error))
    except Exception as error:  # a broken installation fails in any way
        return Capability(name, False, required, f"{type(error).__name__}: {error}; {_REINSTALL}")


def _packages() -> str:
    absent = [name for name in _NEEDED if find_spec(name) is None]
    if absent:
        raise _MissingError(f"{', '.join(absent)} not installed; pip install {' '.join(absent)}")
    return "all that a run needs"


def _torch() -> str:
    if find_spec("torch") is None:
        raise _MissingError("not installed; pip install torch, with --index-url for a CPU or CUDA wheel if need be")
    torch = importlib.import_module("torch")
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
    return f"{torch.__version__}, {build}, {torch.get_num_threads()} threads"


def _kernels() -> str:
    registry = importlib.import_module("replaycheck_kernels.registry")
    return ", ".join(sorted(registry.KERNELS))


def _traces() -> str:
    suites = assets.trace_suites()
    if not suites:
        raise _MissingError(f"no trace suite ships with this installation; {_REINSTALL}, or give --traces FILE")
    return ", ".join(f"suite:{name}" for name in suites) + "; presets " + ", ".join(assets.presets())


def _model() -> str:
    return str(assets.model_dir())


def _lab_on_cpu() -> str:
    _torch()
    return f"kernels {_kernels()}"


def _lab_on_cuda() -> str:
    _torch()
    torch = importlib.import_module("torch")
    if torch.version.cuda is None:
        raise _MissingError("torch is built without CUDA; install a CUDA wheel of torch")
    if not torch.cuda.is_available():
        raise _MissingError("torch finds no GPU; check nvidia-smi, the driver and CUDA_VISIBLE_DEVICES")
    if find_spec("triton") is None:
        raise _MissingError("Triton isn't installed; pip install triton")
    return f"{torch.cuda.get_device_name()}, Triton {metadata.version('triton')}"


def _transformers() -> str:
    try:
        version = metadata.version("transformers")
    except metadata.PackageNotFoundError:
        raise _MissingError("transformers isn't installed; pip install 'replaycheck[models]'") from None
    if find_spec("fla") is not None:
        return f"transformers {version}; fla is installed, too, and must be hidden from it on a CPU"
    return f"transformers {version}"

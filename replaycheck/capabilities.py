"""What this machine can run, and for what it can't, why and what to install. Each check stands for itself.

A check never raises: a broken torch is a finding. Packages that aren't needed to answer are looked up, not imported, and
no server is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Literal

from replaycheck import assets
from replaycheck.errors import ReplayCheckError

__all__ = ["Capability", "Kind", "capabilities", "usable"]

Kind = Literal["base", "kernels", "subject", "other"]
"""How the checks are grouped: what every run needs, whose kernels there are, what can be under test, the rest."""

#: What a run imports beside torch; all are installed and imported by the same name.
_NEEDED = ("numpy", "pandas", "pyarrow", "scipy", "matplotlib", "jinja2", "safetensors", "numba")
_REINSTALL = "install replaycheck again (pip install --force-reinstall replaycheck)"

#: Providers of kernels: package, what to install, and the versions that they were tested with.
_PROVIDERS = {
    "fla": ("fla-core", "pip install fla-core"),
    "sglang": ("sglang", "pip install sglang, or unpack its wheel and give --kernels-path DIR"),
    "vllm": ("vllm", "pip install vllm, or unpack its wheel and give --kernels-path DIR"),
}


class _MissingError(Exception):
    """Why something can't be used, and what to do."""


@dataclass(frozen=True)
class Capability:
    """One thing that a user may want to run."""

    name: str
    kind: Kind
    usable: bool
    #: needed by `replaycheck run` as it stands
    required: bool
    #: what was found, or why it can't be used and what to do
    text: str


def capabilities() -> list[Capability]:
    """Every check, in the order in which they build on each other."""
    return [
        _check("packages", "base", _packages, required=True),
        _check("torch", "base", _torch, required=True),
        _check("device cuda", "base", _cuda),
        _check("traces", "base", _traces, required=True),
        _check("model", "base", _model, required=True),
        _check("kernels ours, cpu", "kernels", _ours_on_cpu, required=True),
        _check("kernels ours, cuda", "kernels", _ours_on_cuda),
        *(_check(f"kernels {name}", "kernels", partial(_provider, name)) for name in _PROVIDERS),
        _check("subject lab on cpu", "subject", _lab_on_cpu, required=True),
        _check("subject lab on cuda", "subject", _lab_on_cuda),
        _check("subject transformers", "subject", _transformers),
        _check("subjects llamacpp, vllm, sglang, openai, openai-text", "subject", _servers),
        _check("subject vllm-offline", "subject", _offline),
        _check("model export gguf", "other", _gguf),
        _check("run --cluster ray", "other", _ray),
        _check("notebook", "other", _notebook),
    ]


def usable(checks: list[Capability]) -> bool:
    """Whether ``replaycheck run`` can run here."""
    return all(check.usable for check in checks if check.required)


def _check(name: str, kind: Kind, look: Callable[[], str], *, required: bool = False) -> Capability:
    try:
        return Capability(name, kind, True, required, look())
    except (_MissingError, ReplayCheckError) as error:
        return Capability(name, kind, False, required, str(error))
    except Exception as error:  # a broken installation fails in any way
        return Capability(name, kind, False, required, f"{type(error).__name__}: {error}; {_REINSTALL}")


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


def _cuda() -> str:
    _torch()
    torch = importlib.import_module("torch")
    if torch.version.cuda is None:
        raise _MissingError("torch is built without CUDA; install a CUDA wheel of torch")
    if not torch.cuda.is_available():
        raise _MissingError("torch finds no GPU; check nvidia-smi, the driver and CUDA_VISIBLE_DEVICES")
    major, minor = torch.cuda.get_device_capability()
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30
    name, count = torch.cuda.get_device_name(), torch.cuda.device_count()
    return f"{name}, capability {major}.{minor}, {memory:.0f} GiB; {count} in all"


def _traces() -> str:
    suites = assets.trace_suites()
    if not suites:
        raise _MissingError(f"no trace suite ships with this installation; {_REINSTALL}, or give --traces FILE")
    return ", ".join(f"suite:{name}" for name in suites) + "; presets " + ", ".join(assets.presets())


def _model() -> str:
    return str(assets.model_dir())


def _ours_on_cpu() -> str:
    registry = importlib.import_module("replaycheck_kernels.registry")
    return ", ".join(sorted(registry.KERNELS))


def _ours_on_cuda() -> str:
    registry = importlib.import_module("replaycheck_kernels.registry")
    if registry.UNAVAILABLE:
        names, why = ", ".join(sorted(registry.UNAVAILABLE)), next(iter(registry.UNAVAILABLE.values()))
        raise _MissingError(f"{names}: {_without_gpu() or why}")
    return f"in Triton {metadata.version('triton')}"


def _without_gpu() -> str:
    """Why Triton's kernels can't run though it is installed; empty if it isn't, or there is a GPU."""
    if find_spec("triton") is None:
        return ""
    try:
        _cuda()
    except _MissingError as error:
        return f"Triton {metadata.version('triton')} is there, but {error}"
    return ""


def _provider(name: str) -> str:
    """An engine's kernels; they are loaded when they are used, and then say for themselves what they lack."""
    package, install = _PROVIDERS[name]
    found = f"{package} {_version(package, install)}"
    if find_spec("triton") is None:
        raise _MissingError(f"{found} is there, but Triton isn't; pip install triton (its wheels are for Linux)")
    try:
        _cuda()
    except _MissingError as error:
        raise _MissingError(f"{found} is there, but {error}; probe kernels --device cpu interprets them") from None
    return f"{found}; replaycheck probe kernels --kernels {name} --device cuda says what each can do"


def _version(package: str, install: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise _MissingError(f"{package} isn't installed; {install}") from None


def _lab_on_cpu() -> str:
    _torch()
    return f"kernels {_ours_on_cpu()}"


def _lab_on_cuda() -> str:
    found = _cuda()
    if find_spec("triton") is None:
        raise _MissingError("Triton isn't installed; pip install triton")
    return f"{found}, Triton {metadata.version('triton')}"


def _transformers() -> str:
    found = ", ".join(f"{name} {_version(name, _extra('models'))}" for name in ("transformers", "tokenizers"))
    if find_spec("fla") is not None:
        return f"{found}; fla is installed, too, and must be hidden from it on a CPU"
    return f"{found}; --model DIR says which model"


def _servers() -> str:
    return f"httpx {_version('httpx', _extra('engines'))}; --url URL says where a server is; none was asked for"


def _offline() -> str:
    found = (
        f"vllm {_version('vllm', 'pip install vllm; to check a server that runs elsewhere, --subject vllm --url URL')}"
    )
    try:
        _cuda()
    except _MissingError as error:
        raise _MissingError(f"{found} is there, but {error}") from None
    return f"{found}, in this process"


def _gguf() -> str:
    return f"gguf {_version('gguf', _extra('engines'))}"


def _ray() -> str:
    return f"ray {_version('ray', _extra('cluster'))}"


def _notebook() -> str:
    tools = ("jupytext", "nbclient", "ipykernel")
    return ", ".join(f"{name} {_version(name, _extra('notebook'))}" for name in tools) + "; reports/explore.ipynb"


def _extra(name: str) -> str:
    return f"pip install 'replaycheck[{name}]'"

"""What environment.json says: versions, processor, variables that change numerics, command, times.

Torch isn't imported. Only variables from a fixed list are read, and credentials in the command line are blanked, so no
key is ever written.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from replaycheck import __version__
from replaycheck.processes import cores
from replaycheck.schema.environment import Environment

__all__ = ["NUMERIC_VARIABLES", "PACKAGES", "describe", "differences", "finished"]

#: Packages whose version can change bits, or the statistics.
PACKAGES = (
    "torch",
    "triton",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "numba",
    "safetensors",
    "transformers",
    "fla-core",
)

#: Variables that choose kernels, thread counts or precision.
NUMERIC_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS",
    "NUMBA_CPU_NAME",
    "NUMBA_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TRITON_F32_DEFAULT",
    "TRITON_INTERPRET",
)

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_SECRET_OPTION = re.compile(r"^(--?[\w-]*(?:key|token|secret|password))(=.*)?$", re.IGNORECASE)


def describe(
    inputs: Mapping[str, str], device: str, device_name: str | None = None, command: Sequence[str] | None = None
) -> Environment:
    """The environment of a run that starts now; ``inputs`` decide its results. ``command``: None for this process's."""
    return Environment(
        inputs=dict(inputs),
        command=_without_secrets(_this_process() if command is None else command),
        device=device,
        device_name=device_name,
        versions={"replaycheck": __version__, "python": platform.python_version(), **_versions()},
        platform=platform.platform(),
        cpu=_cpu_model(),
        cores=cores(),
        variables={name: os.environ[name] for name in NUMERIC_VARIABLES if name in os.environ},
        started=_now().isoformat(timespec="seconds"),
    )


def _this_process() -> list[str]:
    """As a person would type it: the program by its name, not by where it is installed; a module is the command line."""
    program = Path(sys.argv[0]).name
    return ["replaycheck" if program in ("main.py", "__main__.py") else program, *sys.argv[1:]]


def finished(environment: Environment, cpu_seconds: Mapping[str, float] = MappingProxyType({})) -> Environment:
    """The same environment with the time at which the run ended, how many seconds it took, and CPU seconds by stage."""
    now = _now()
    seconds = (now - datetime.fromisoformat(environment.started)).total_seconds()
    return environment.model_copy(
        update={"finished": now.isoformat(timespec="seconds"), "seconds": seconds, "cpu_seconds": dict(cpu_seconds)}
    )


def differences(a: Environment, b: Environment) -> dict[str, tuple[str | None, str | None]]:
    """What could explain a numeric difference between two runs, by name: the value in ``a`` and in ``b``."""
    left, right = _flat(a), _flat(b)
    names = sorted(left.keys() | right.keys())
    return {name: (left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)}


def _flat(environment: Environment) -> dict[str, str | None]:
    fields = environment.model_dump(include={"device", "device_name", "platform", "cpu", "cores"})
    flat = {name: None if value is None else str(value) for name, value in fields.items()}
    for group in ("inputs", "versions", "variables"):
        flat |= {f"{group}.{name}": value for name, value in getattr(environment, group).items()}
    return flat


def _now() -> datetime:
    return datetime.now(UTC)


def _versions() -> dict[str, str | None]:
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor() or None


def _without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """``--api-key X``, ``--token=X`` and the user part of a URL become ``***``."""
    shown, hide = [], False
    for word in command:
        secret = _SECRET_OPTION.match(word)
        if secret and secret[2] is not None:
            word = f"{secret[1]}=***"
        shown.append("***" if hide else _USERINFO.sub("***@", word))
        hide = secret is not None and secret[2] is None
    return tuple(shown)

"""Which architectures of the installed transformers carry a state: looked up in the release, not in a list of ours.

A causal language model counts if its modelling file speaks of a state that a token changes: a convolution's, a recurrence's,
or one that the library itself calls stateful (generation then refuses to roll back). Families that register one class under
several names count once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean

__all__ = ["CONTROLS", "architectures", "causal_models", "library", "modelling_file", "select", "version"]

#: Attention-only families beside them, dense and with experts: a sweep that calls these faulty is itself at fault.
CONTROLS = ("llama", "qwen3", "qwen3_moe")

_STATE = re.compile(r"conv_state|ssm_state|recurrent_state|rnn_state|linear_attention|_is_stateful = True")


@lru_cache(maxsize=1)
def library() -> Any:
    """The installed transformers. On a CPU an installed ``fla`` would be preferred to the torch code and find no GPU.

    Raises:
        EngineEnvironmentError: it isn't installed.
    """
    from replaycheck.subjects.transformers.load import import_transformers

    return import_transformers("the sweep over architectures")


def version() -> str:
    """Of the installed transformers."""
    return str(library().__version__)


def causal_models() -> Mapping[str, str]:
    """model_type → class, every causal language model of the release."""
    library()
    from transformers.models.auto import modeling_auto

    return MappingProxyType(dict(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def modelling_file(name: str) -> Path:
    """The source file of an architecture's modelling code."""
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    module = model_type_to_module_name(name)
    return Path(library().__file__).parent / "models" / module / f"modeling_{module}.py"


def architectures() -> tuple[str, ...]:
    """The architectures with a state, by name; of several names of one class the one of the text model."""
    by_class: dict[str, str] = {}
    for name, model in causal_models().items():
        if _carries_state(modelling_file(name)) and (model not in by_class or name.endswith("_text")):
            by_class[model] = name
    return tuple(sorted(by_class.values()))


def select(names: tuple[str, ...]) -> tuple[str, ...]:
    """The architectures of these names; ``all``: every one with a state, then the controls.

    Raises:
        UsageError: the release has no causal language model of that name.
    """
    if "all" in names or not names:
        return (*architectures(), *CONTROLS)
    known = causal_models()
    for name in names:
        if name not in known:
            with_state = choices([*architectures(), *CONTROLS])
            raise UsageError(
                f"transformers {version()} has no causal language model {name!r}{did_you_mean(name, known)}; "
                f"choose all, {with_state}"
            )
    return tuple(dict.fromkeys(names))


def _carries_state(path: Path) -> bool:
    return path.is_file() and _STATE.search(path.read_text(encoding="utf-8")) is not None

"""The state of a run between two steps: weights, optimiser, counters; saved and loaded without pickled code."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Parameter

from replaycheck.errors import UsageError
from replaycheck.model.initial import initial_weights
from replaycheck.model.train.settings import TrainSettings

__all__ = ["RunState", "fresh_state", "load_state", "save_state"]


@dataclass
class RunState:
    """``step`` counts finished steps, ``elapsed`` seconds of training, ``tokens`` targets seen."""

    weights: dict[str, Tensor]
    optimizer: torch.optim.Optimizer
    step: int = 0
    elapsed: float = 0.0
    tokens: int = 0


def fresh_state(settings: TrainSettings) -> RunState:
    """Initial weights in fp32 on the device, and AdamW with weight decay on matrices only."""
    drawn = initial_weights(settings.config, settings.seed)
    weights: dict[str, Tensor] = {name: Parameter(tensor.to(settings.device)) for name, tensor in drawn.items()}
    matrices = [tensor for tensor in weights.values() if tensor.ndim == 2]
    others = [tensor for tensor in weights.values() if tensor.ndim != 2]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    fused = settings.device == "cuda"
    return RunState(weights, torch.optim.AdamW(groups, lr=settings.peak_rate, betas=settings.betas, fused=fused))


def save_state(file: Path, state: RunState, settings: TrainSettings) -> None:
    """Write ``file`` by atomic rename."""
    content = {
        "weights": {name: tensor.detach() for name, tensor in state.weights.items()},
        "optimizer": state.optimizer.state_dict(),
        "counters": (state.step, state.elapsed, state.tokens),
        "identity": _identity(settings),
    }
    temporary = file.with_name(f".{file.name}.part")
    torch.save(content, temporary)
    temporary.replace(file)


def load_state(file: Path, settings: TrainSettings) -> RunState:
    """The state in ``file``. Raises :class:`UsageError` for another file, or one of another run."""
    try:
        content = torch.load(file, map_location=settings.device, weights_only=True)
        identity = content["identity"]
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: is not a saved training state ({error}); start without resuming") from None
    if identity != _identity(settings):
        raise UsageError(f"{file}: belongs to a run with {identity}, not {_identity(settings)}; use the same settings")
    state = fresh_state(settings)
    with torch.no_grad():
        for name, tensor in state.weights.items():
            tensor.copy_(content["weights"][name])
    state.optimizer.load_state_dict(content["optimizer"])
    state.step, state.elapsed, state.tokens = content["counters"]
    return state


def _identity(settings: TrainSettings) -> str:
    """What two parts of one run must share; the budget may be extended."""
    return repr((settings.config, settings.seed, settings.stages, settings.betas, settings.weight_decay))

"""The settings of one training run, and the learning rate they imply."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.model.config import ModelConfig
from replaycheck.model.folder import SHIPPED_CONFIG

__all__ = ["Stage", "TrainSettings", "learning_rate"]


@dataclass(frozen=True)
class Stage:
    """A part of the run with its own batch: ``share`` of the budget, ``batch`` sequences of ``length`` tokens."""

    share: float
    batch: int
    length: int


#: Short sequences first, since they give four times as many independent positions a step; long ones at the
#: end, since attention without positions does not extrapolate far beyond the length it has seen.
DEFAULT_STAGES = (Stage(0.8, 64, 1024), Stage(0.2, 16, 4096))


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides a run.

    The budget is ``max_steps`` where given (reproducible), otherwise ``seconds`` of training, which start after
    compilation and are cut where the whole call would take longer than ``total_seconds``. ``out`` is the model
    directory that is written at the end; ``state_file`` is for resuming and is written every ``save_seconds``.
    The rate warms up over ``warmup_steps``, is constant until ``constant_share`` of the budget, then falls
    linearly to ``final_share`` of the peak. ``aligned_share`` of the sequences start where a document or
    conversation starts, the others anywhere.
    """

    corpus: Path
    out: Path
    config: ModelConfig = SHIPPED_CONFIG
    seconds: float = 330.0
    total_seconds: float = 480.0
    max_steps: int | None = None
    stages: tuple[Stage, ...] = field(default=DEFAULT_STAGES)
    peak_rate: float = 3e-3
    warmup_steps: int = 200
    constant_share: float = 0.4
    final_share: float = 0.02
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    aligned_share: float = 0.125
    seed: int = 0
    device: str = "cuda"
    compile: bool = True
    state_file: Path | None = None
    resume: bool = False
    save_seconds: float = 120.0
    log_every: int = 50

    def __post_init__(self) -> None:
        """Refuse settings that no run could follow."""
        if abs(sum(stage.share for stage in self.stages) - 1.0) > 1e-9:
            raise UsageError(f"stages {self.stages} must have shares that add up to 1")
        if self.device not in ("cpu", "cuda"):
            raise UsageError(f"device {self.device!r} is not known; allowed are 'cpu' and 'cuda'")
        if self.resume and self.state_file is None:
            raise UsageError("resume needs a state file; name the one that the interrupted run wrote")

    def stage_at(self, progress: float) -> Stage:
        """The stage at a share of the budget from 0 to 1."""
        passed = 0.0
        for stage in self.stages:
            passed += stage.share
            if progress < passed:
                return stage
        return self.stages[-1]


def learning_rate(settings: TrainSettings, step: int, progress: float) -> float:
    """The rate of one step, counted from 0, at a share of the budget from 0 to 1."""
    if step < settings.warmup_steps:
        return settings.peak_rate * (step + 1) / settings.warmup_steps
    if progress < settings.constant_share:
        return settings.peak_rate
    done = min(1.0, (progress - settings.constant_share) / (1.0 - settings.constant_share))
    return settings.peak_rate * (1.0 - done * (1.0 - settings.final_share))

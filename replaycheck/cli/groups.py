"""Options that are given together: a verb takes a group with one decorator and gets one value.

replayed    what is replayed, on which model and kernels: ``run``, ``floor``, ``sweep``
engine      what is under test where it isn't the lab: ``run``, ``floor``, ``subject check``, ``model verify``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from replaycheck.autotuning import REPLAYED
from replaycheck.cli import options

if TYPE_CHECKING:
    from replaycheck.replay.settings import Settings
    from replaycheck.subjects.protocol import SubjectOptions

__all__ = ["Engine", "Replayed", "engine_options", "replayed_options"]

Command = Callable[..., Any]
Option = Callable[[Command], Command]


@dataclass(frozen=True)
class Engine:
    """``--url``, ``--engine-model``, ``--subject-option``."""

    url: str | None
    engine_model: str | None
    subject_settings: tuple[str, ...]

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """From all parameters of a verb."""
        return cls(**{field.name: parameters[field.name] for field in fields(cls)})

    def with_model(self, model: Path | None, device: str) -> SubjectOptions:
        """What a subject gets. Raises :class:`UsageError` for a setting that isn't NAME=VALUE."""
        return options.subject_options(self.url, model, self.engine_model, device, self.subject_settings)


@dataclass(frozen=True)
class Replayed:
    """``--preset``, ``--traces``, ``--model``, ``--recipe``, three of kernels, ``--seed``, ``--device``, ``--workers``."""

    preset: str | None
    traces: tuple[str, ...]
    model: Path | None
    recipe: str | None
    kernels: str
    kernels_path: Path | None
    autotune: int
    seed: int
    device: str
    workers: int | None

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """From all parameters of a verb."""
        return cls(**{field.name: parameters[field.name] for field in fields(cls)})

    def settings(
        self,
        suite: Path | None = None,
        engine: Engine | None = None,
        subject: str = "lab",
        gates: tuple[str, ...] = (),
        faults: tuple[str, ...] = (),
        free: bool = False,
        admitted: bool = False,
    ) -> tuple[Settings, tuple[str, ...]]:
        """Everything found and read, and warnings; see :func:`replaycheck.replay.settings.resolve`."""
        from replaycheck.replay.settings import resolve
        from replaycheck.subjects.choose import NO_OPTIONS
        from replaycheck.subjects.lab.kernels import KernelChoice

        return resolve(
            suite,
            self.preset,
            self.traces,
            self.model,
            self.recipe,
            gates,
            faults,
            self.seed,
            KernelChoice(self.kernels, self.kernels_path, self.device, self.autotune),
            admitted=admitted,
            subject=subject,
            options=NO_OPTIONS if engine is None else engine.with_model(self.model, self.device),
            free=free,
        )


def _together(kind: type[Engine | Replayed], name: str, *members: Option) -> Option:
    """A decorator that gives a verb all ``members`` (in their order in its help) and passes on their values as ``name``."""
    of = [field.name for field in fields(kind)]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathering(**given: Any) -> Any:
            group = kind.of({each: given.pop(each) for each in of})
            return command(**{name: group}, **given)

        made: Command = gathering
        for member in reversed(members):
            made = member(made)
        return made

    return decorate


# engine: Engine
engine_options = _together(
    Engine, "engine", options.url_option, options.engine_model_option, options.subject_settings_option
)
# replayed: Replayed
replayed_options = _together(
    Replayed,
    "replayed",
    options.preset_option,
    options.traces_option,
    options.model_option,
    options.recipe_option,
    options.one_kernels_option,
    options.kernels_path_option,
    options.autotune_option(REPLAYED),
    options.seed_option,
    options.device_option,
    options.workers_option,
)

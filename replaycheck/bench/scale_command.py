"""``bench scale`` from options to a record: which sizes are measured, and what is written where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from replaycheck.replay.settings import resolve
from replaycheck.say import Say
from replaycheck.schema.bench import Bench, Figure, Target

from .command import Place
from .context import context_cost
from .scale import Measured, figures_of, measure, sessions_for, targets_of


@dataclass(frozen=True)
class ScaleOptions:
    """What ``bench scale`` is asked for.

    Attributes:
        subjects: lab, null or pkg.mod:factory. observations: of the runs under the quick preset's matrix, for each subject.
        sessions: numbers of tiny sessions, with the null subject, for memory. context: measure tokens at growing context.
    """

    subjects: tuple[str, ...]
    observations: tuple[int, ...]
    sessions: tuple[int, ...]
    workers: int
    context: bool


def scale(options: ScaleOptions, out: Path | None, say: Say) -> Bench:
    """Measure, and write the folder if there is to be one.

    Raises:
        UsageError: a folder that isn't empty. EngineEnvironmentError: a run failed.
    """
    settings, _ = resolve(admitted=False)
    given = {
        "subjects": ", ".join(options.subjects),
        "observations": ", ".join(map(str, options.observations)),
        "sessions": ", ".join(map(str, options.sessions)),
        "arms": f"{len(settings.arms)} (quick); 5 for sessions",
        "workers": str(options.workers),
    }
    place = Place.make("cpu", given, out)
    runs = [
        measure(subject, sessions_for(wanted, len(settings.arms)), False, options.workers, say)
        for subject in options.subjects
        for wanted in options.observations
    ]
    many = [measure("null", sessions, True, options.workers, say) for sessions in sorted(options.sessions)]
    figures: list[Figure] = [figure for each in (*runs, *many) for figure in figures_of(each)]
    targets: list[Target] = targets_of(runs, many)
    if options.context:
        say("tokens at growing context")
        more, wanted_too = context_cost(settings)
        figures, targets = figures + more, targets + wanted_too
    return place.keep(
        Bench(
            kind="scale",
            device="cpu",
            device_name=place.device_name,
            versions=dict(place.environment.versions),
            settings=given,
            figures=tuple(figures),
            targets=tuple(targets),
            notes=(
                "Single runs. Outside the subject: compiling, comparing, storing, adding up; not the start and the report.",
                *(_stages(each) for each in (*runs, *many)),
            ),
        )
    )


def _stages(measured: Measured) -> str:
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(measured.stages.items()))
    return f"{measured.name}: CPU seconds {stages}."

"""Replay the points of a sweep and read one record from the cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from replaycheck.errors import UsageError
from replaycheck.replay.assemble import collect
from replaycheck.replay.environment import describe, finished
from replaycheck.replay.possible import possible
from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import How, replay_missing
from replaycheck.replay.store import Run, create_run, read_environment, write_json
from replaycheck.replay.worker import network, one_thread
from replaycheck.say import Say
from replaycheck.schema.arm import Activation, Effect
from replaycheck.schema.result import CellResult
from replaycheck.schema.sweep import ActivationRow, Difference, Sweep, SweepRow
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.kernels import OURS, lab_kernels
from replaycheck_kernels.providers.tuning import bound_autotuning
from replaycheck_kernels.recipe import preset

from .choice import Choice, Point
from .cost import Cost, cost, state_bytes

__all__ = ["for_sweep", "sweep"]


def for_sweep(settings: Settings, asked: Choice) -> Settings:
    """The settings of the sweep's own arms and cells.

    Raises:
        UsageError: the kernels can't do any of it, or aren't ours and activate where they activate.
    """
    if Activation.OUTSIDE in asked.activations and settings.kernels.spec != OURS:
        raise UsageError(
            f"--activation outside with --kernels {settings.kernels.spec}: a compiled kernel activates where it does; "
            "leave one of the two out"
        )
    kernels = lab_kernels(settings.kernels, preset(settings.recipe))
    wanted = possible(*asked.arms_and_cells(settings.suite), kernels, named=False)
    return replace(settings, arms=wanted.arms, cells=wanted.cells, not_checked=wanted.not_checked)


def sweep(
    settings: Settings, asked: Choice, out: Path | None, workers: int | None = None, say: Say = lambda line: None
) -> Sweep:
    """Run it; with ``out``, keep the tables, ``sweep.json`` and the environment there.

    Raises:
        UsageError: the folder can't be used. EngineEnvironmentError: this machine's bits depend on the batch.
    """
    with TemporaryDirectory(prefix="replaycheck-sweep-") as scratch:
        name = None if settings.device == "cpu" else str(torch.cuda.get_device_name(settings.device))
        run = create_run(describe(_inputs(settings, asked), settings.device, name), out or Path(scratch) / "run")
        one_thread()
        if settings.kernels.spec != OURS and settings.device != "cpu":
            bound_autotuning(settings.kernels.autotune)
        check_invariance(network(settings.model, settings.recipe, settings.kernels))
        replay_missing(settings, run, How(workers), say)
        found = _record(settings, asked, run)
        write_json(run.path / "sweep.json", found)
        write_json(run.environment, finished(read_environment(run)))
    return found


def _inputs(settings: Settings, asked: Choice) -> dict[str, str]:
    gates = {"gates", "faults"}
    kept = {name: value for name, value in settings.inputs().items() if name not in gates}
    return kept | {
        "checkpoint intervals": ", ".join(asked.intervals),
        "pools": ", ".join(asked.pools),
        "activations": ", ".join(asked.activations),
        "answers": str(asked.answers),
    }


def _record(settings: Settings, asked: Choice, run: Run) -> Sweep:
    collected = collect(run, settings.arms, settings.cells)
    arms = {arm.name: arm for arm in collected.arms}
    cells = {cell.name: cell for cell in collected.cells}
    points = [point for point in asked.points() if all(name in cells for name in point.cells.values())]
    costs = {point.interval: cost(settings.groups, point.policy) for point in points}
    whole = next(iter(costs.values()))
    return Sweep(
        suite=settings.suite.name,
        suite_digest=settings.suite_digest,
        model=settings.model.resolve().name,
        model_digest=settings.model_digest,
        recipe=settings.recipe,
        kernels=settings.label,
        device=settings.device,
        seed=settings.seed,
        answers=asked.answers,
        groups=len(settings.groups),
        prompts=whole.prompts,
        repeated=whole.repeated,
        rows=tuple(
            _row(settings, point, costs[point.interval], arms[point.warm].proven_hits, cells) for point in points
        ),
        activations=tuple(
            ActivationRow(pool=pool, difference=_difference(cells[name]))
            for pool in asked.pools
            if (name := asked.activation_cell(pool)) in cells
        ),
        not_checked=settings.not_checked,
    )


def _row(settings: Settings, point: Point, spent: Cost, hits: int, cells: Mapping[str, CellResult]) -> SweepRow:
    grid, state, total = (cells[point.cells[effect]] for effect in (Effect.GRID, Effect.STATE, Effect.TOTAL))
    size = state_bytes(settings.model, point.pool)
    return SweepRow(
        interval=point.interval,
        pool=point.pool,
        activation=point.activation,
        hits=hits,
        recomputed=spent.recomputed,
        states=spent.states,
        bytes_a_state=size,
        bytes_stored=size * spent.states,
        grid=_difference(grid),
        state=_difference(state),
        total=_difference(total),
        state_error=state.state_rel_error,
    )


def _difference(cell: CellResult) -> Difference:
    return Difference(
        positions=cell.positions,
        bits_differ=cell.bits_differ,
        p99=cell.abs_dlogp.get("p99"),
        max=cell.abs_dlogp.get("max"),
        flips=cell.flips,
        first_divergence=cell.first_divergence.get("argmax"),
        diverged=cell.diverged_branches.get("argmax", 0),
        branches=cell.diverged_branches.get("all", 0),
    )

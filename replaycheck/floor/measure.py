"""``replaycheck floor``: replay controls over a suite, and write down what they show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from replaycheck.replay.assemble import collect
from replaycheck.replay.environment import describe
from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import How, replay_missing
from replaycheck.replay.store import create_run
from replaycheck.replay.worker import network, one_thread
from replaycheck.say import Say
from replaycheck.schema.arm import Arm, Cell, Compiler, Effect, Kernel, PoolDtype
from replaycheck.schema.floor import Control, FloorFile
from replaycheck.subjects.choose import LAB
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.kernels import OURS
from replaycheck_kernels.providers.tuning import bound_autotuning

from .controls import cold_arms, pairings, with_changes
from .given import place_here
from .own import own_floors

__all__ = ["BUDGETS", "for_floor", "measure_floor"]


BUDGETS = (96, 512)
"""Tokens of a forward pass for the control of other budgets: one that cuts off the chunk grid, and one on it that long
prompts reach."""


def for_floor(settings: Settings) -> Settings:
    """The settings of the floor's own arms: what the suite's warm and cold arms could be held against, and no warm arm."""
    arms = {arm.name: arm for arm in _arms(settings)}
    cells = tuple(
        Cell(effect=Effect.STATE, reference=each.reference.name, candidate=each.candidate.name)
        for each in pairings(tuple(arms.values()))
        if each.control is Control.ROUNDED
    )
    return replace(settings, arms=tuple(arms.values()), cells=cells, faults=(), gates=())


def _arms(settings: Settings) -> Iterator[Arm]:
    """Cold in fp32 with repeats, by the other kernel and with budgets; split, and split-rounded for each pool. As far as the
    subject runs them."""
    can = {arm.compiler for arm in settings.arms}
    plain = [_plain(arm) for arm in settings.arms]
    wide = {arm.name: with_changes(arm, compiler=Compiler.COLD, pool=PoolDtype.FP32) for arm in plain}
    for cold in cold_arms(tuple(wide.values())) if Compiler.COLD in can else ():
        yield from (with_changes(cold, repeat=repeat) for repeat in range(3))
        if settings.subject == LAB and cold.policy.budget is None:
            yield from (with_changes(cold, policy=_budgeted(cold, tokens)) for tokens in BUDGETS)
            if cold.history is cold.tail:
                yield from (with_changes(cold, history=kernel, tail=kernel) for kernel in Kernel)
    for arm in plain:
        if Compiler.SPLIT in can:
            yield with_changes(arm, compiler=Compiler.SPLIT, pool=PoolDtype.FP32)
            yield with_changes(arm, compiler=Compiler.COLD, pool=PoolDtype.FP32)
        if Compiler.SPLIT_ROUNDED in can and arm.pool is not PoolDtype.FP32:
            yield with_changes(arm, compiler=Compiler.SPLIT_ROUNDED)


def _plain(arm: Arm) -> Arm:
    """Decoded token by token, without padding: what the other ways are held against, not floors."""
    return with_changes(arm, rollback=None, ring=None, ring_lag=False, padding=None)


def _budgeted(arm: Arm, tokens: int) -> object:
    return arm.policy.model_copy(update={"budget": tokens})


def measure_floor(settings: Settings, workers: int | None = None, say: Say = lambda line: None) -> FloorFile:
    """Replay ``for_floor(settings)`` and add up.

    Raises:
        EngineEnvironmentError: this machine's bits depend on the batch.
    """
    one_thread()
    if settings.subject == LAB:
        if settings.kernels.spec != OURS and settings.device != "cpu":
            bound_autotuning(settings.kernels.autotune)
        check_invariance(network(settings.model, settings.recipe, settings.kernels))
    name = None if settings.device == "cpu" else str(torch.cuda.get_device_name(settings.device))
    with TemporaryDirectory(prefix="replaycheck-floor-") as scratch:
        run = create_run(describe(settings.inputs(), settings.device, name), Path(scratch) / "run")
        replay_missing(settings, run, How(workers), say)
        collected = collect(run, settings.arms, settings.cells)
    return FloorFile(
        place=place_here(settings),
        suite=settings.suite.name,
        suite_digest=settings.suite_digest,
        seed=settings.seed,
        groups=len(settings.groups),
        floors=own_floors((), collected.controls),
    )

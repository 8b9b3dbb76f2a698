"""The arms and cells of a subject that isn't the lab: what it can do of a suite's, or those that its own cache asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replaycheck.errors import UsageError
from replaycheck.schema.arm import Answers, Arm, Cell, Compiler, Effect, Kernel, PoolDtype
from replaycheck.schema.policy import Policy
from replaycheck.subjects.protocol import Description

from .possible import Possible

__all__ = ["RECIPE", "arms_of", "possible_for"]

RECIPE = "engine"
"""The recipe of arms whose kernels are the engine's own: nobody declares how they round."""


def possible_for(found: Description, arms: Sequence[Arm], cells: Sequence[Cell], named: bool) -> Possible:
    """The cells of a suite whose arms the subject can run; of the others, why not.

    Args:
        named: the user wrote the matrix, so that an impossible cell is a mistake and not a gap.

    Raises:
        UsageError: an impossible cell was named, or none is left.
    """
    reasons = {
        arm.name: f"{found.name} has no {arm.compiler} arm" for arm in arms if arm.compiler not in found.compilers
    }
    why = {cell: reasons.get(cell.candidate) or reasons.get(cell.reference) for cell in cells}
    missing = tuple(f"{cell.name}: {reason}" for cell, reason in why.items() if reason)
    left = tuple(cell for cell, reason in why.items() if not reason)
    if missing and (named or not left):
        raise UsageError(f"{missing[0]}; take such cells out of the matrix")
    needed = {name for cell in left for name in (cell.reference, cell.candidate)}
    return Possible(tuple(arm for arm in arms if arm.name in needed), left, missing)


def arms_of(found: Description, policy: Policy) -> Possible:
    """Cold, warm and what else the subject can do, for a cache that decides its own hits.

    Cold against warm is what a user sees. With a split arm it is told apart; where cold is cut wherever a hit would cut it,
    cold is that arm. Further cold arms are controls: other legitimate ways to compute the same, which give the floor.
    Where requests can be in flight at once, warm is run that way as well and held against warm, one at a time.
    """
    possible = _alone(found, policy)
    if not found.batches:
        return possible
    warm = _arm(found, policy, Compiler.WARM)
    beside = warm.model_copy(update={"repeat": 1})
    cells = (*possible.cells, _cell(Effect.TOGETHER, warm, beside))
    return replace(possible, arms=(*possible.arms, beside), cells=cells)


def _alone(found: Description, policy: Policy) -> Possible:
    """What it can do one request at a time, and the controls."""
    cold = _arm(found, policy, Compiler.COLD)
    warm = _arm(found, policy, Compiler.WARM)
    controls = [cold.model_copy(update={"repeat": 1})] if found.batches else []
    controls += [cold.model_copy(update={"answer": Kernel.CHUNK})] if found.wholes else []
    if found.budget:
        controls.append(_arm(found, policy.model_copy(update={"budget": found.budget}), Compiler.COLD))
    if Compiler.SPLIT in found.compilers:
        split = _arm(found, policy, Compiler.SPLIT)
        cells = (_cell(Effect.GRID, cold, split), _cell(Effect.STATE, split, warm), _cell(Effect.TOTAL, cold, warm))
        return Possible((cold, *controls, split, warm), cells)
    if found.pinned:
        return Possible((cold, *controls, warm), (_cell(Effect.STATE, cold, warm),))
    reason = f"{found.name} can't be made to cut its prefill where a hit cuts it"
    missing = tuple(f"{effect}/{warm.name.partition('/')[2]}: {reason}" for effect in (Effect.GRID, Effect.STATE))
    return Possible((cold, *controls, warm), (_cell(Effect.TOTAL, cold, warm),), missing)


def _arm(found: Description, policy: Policy, compiler: Compiler) -> Arm:
    """Answers enter a later state as part of its prompt. Which kernels run isn't seen; chunk for what is prefilled."""
    return Arm(
        compiler=compiler,
        history=Kernel.CHUNK,
        tail=Kernel.CHUNK,
        answers=Answers.PREFILLED,
        # The one seen in use, else the one asked for: an arm called fp32 would deny what the user or the server said.
        pool=found.pool or found.asked or PoolDtype.FP32,
        policy=policy,
        recipe=RECIPE,
    )


def _cell(effect: Effect, reference: Arm, candidate: Arm) -> Cell:
    return Cell(effect=effect, reference=reference.name, candidate=candidate.name)

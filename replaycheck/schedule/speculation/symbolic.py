"""Run a plan on token lists: a state is the tokens that made it, a convolution window a list of tokens by column.

Everything that a plan can get wrong shows here without a tensor: a wrong slot, column, offset, length, row or order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from replaycheck.schedule.steps import NULL_SLOT

from .method import Setup
from .planner import Planner
from .steps import CopyConv, CopyState, Crop, Expect, Fold, Memory, Operation, Place, Push, Rebuild, Verify

Tokens = tuple[int, ...]
NOTHING = -1
"""A column that nothing wrote, and the token before a path's first."""

WRONG: Tokens = (-2,)
"""A state that is no prefix of anything: records applied to another checkpoint than they were made from."""


@dataclass
class Symbolic:
    """Contents by place, and what went wrong in words.

    ``paths``: the true tokens of each request. ``caches``: attention's cache of each request.
    """

    setup: Setup
    paths: Sequence[Tokens]
    caches: list[Tokens]
    states: dict[Place, Tokens] = field(default_factory=dict)
    windows: dict[Place, list[int]] = field(default_factory=dict)
    rings: dict[int, Tokens] = field(default_factory=dict)
    records: dict[int, tuple[Tokens, Tokens]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def columns(self) -> int:
        return self.setup.history + self.setup.width - 1

    def write(self, place: Place, state: Tokens) -> None:
        if place.slot == NULL_SLOT:
            self.problems.append(f"a state of {len(state)} tokens is written to the null slot")
        self.states[place] = state

    def read(self, place: Place) -> Tokens:
        if place not in self.states:
            self.problems.append(f"{place.memory!s} slot {place.slot} is read, but nothing wrote it")
        return self.states.get(place, WRONG)

    def history(self, place: Place, offset: int) -> list[int]:
        window = self.windows.get(place, [NOTHING] * self.columns)
        if not 0 <= offset <= len(window) - self.setup.history:
            self.problems.append(f"window of slot {place.slot} is read from column {offset}, past its end")
        return window[offset : offset + self.setup.history]


def tail(tokens: Tokens, history: int) -> list[int]:
    """The last inputs of a path; NOTHING before its first token."""
    return [NOTHING, *[NOTHING] * history, *tokens][-history:]


def begin(setup: Setup, plan: Planner, paths: Sequence[Tokens]) -> Symbolic:
    """Prompt states and histories in the slots where the planner wants them."""
    prompts = [path[: answer.computed] for path, answer in zip(paths, plan.answers, strict=True)]
    run = Symbolic(setup, paths, list(prompts))
    for slot, prompt in zip(plan.first, prompts, strict=True):
        place = Place(Memory.POOL, slot)
        run.write(place, prompt)
        run.windows[place] = tail(prompt, setup.history) + [NOTHING] * (setup.width - 1)
    return run


def execute(run: Symbolic, plan: Planner, operations: Sequence[Operation]) -> None:
    """Run operations in order."""
    for operation in operations:
        match operation:
            case Verify():
                _verify(run, plan, operation)
            case CopyState(source, destination):
                run.write(Place(Memory.POOL, destination), run.read(source))
            case CopyConv(source, offset, destination):
                moved, place = run.history(source, offset), Place(Memory.POOL, destination)
                kept = run.windows.get(place, [NOTHING] * run.columns)[run.setup.history :]
                run.windows[place] = moved + kept
            case Rebuild(row, source, length, destination):
                _rebuild(run, row, source, length, destination)
            case Push(row, request, length):
                run.rings[request] = run.rings.get(request, ()) + run.records[row][1][:length]
                if len(run.rings[request]) > (run.setup.capacity or 0):
                    run.problems.append(f"ring of request {request} overflows with {len(run.rings[request])} tokens")
            case Fold(request, slot):
                place = Place(Memory.POOL, slot)
                run.write(place, run.read(place) + run.rings.pop(request, ()))
            case Crop(request, tokens):
                run.caches[request] = run.caches[request][:tokens]
            case Expect():
                _check(run, operation)


def _verify(run: Symbolic, plan: Planner, verify: Verify) -> None:
    window = plan.answers[verify.request].windows[verify.window]
    before = plan.answers[verify.request].before(verify.window)
    tokens = (run.paths[verify.request][before], *window.drafts)
    base = run.read(Place(Memory.POOL, verify.source))
    live = base + run.rings.get(verify.request, ()) if verify.replayed else base
    if live != run.paths[verify.request][:before]:
        run.problems.append(f"request {verify.request} verifies from token {before}, but its state is another")
    for place, position in zip(verify.states, range(len(tokens)), strict=False):
        run.write(place, live + tokens[: position + 1])
    old = run.history(Place(Memory.POOL, verify.conv_source), verify.conv_offset)
    fresh = old[1:] + list(tokens)
    run.windows[verify.conv_destination] = fresh + [NOTHING] * (run.columns - len(fresh))
    run.records[verify.row] = (base, tokens)
    if run.caches[verify.request] != run.paths[verify.request][:before]:
        run.problems.append(f"request {verify.request} verifies from token {before}, but attention's cache is another")
    run.caches[verify.request] += tokens


def _rebuild(run: Symbolic, row: int, source: int, length: int, destination: int) -> None:
    base, tokens = run.records[row]
    right = run.read(Place(Memory.POOL, source)) == base
    run.write(Place(Memory.POOL, destination), base + tokens[:length] if right else WRONG)


def _check(run: Symbolic, expected: Expect) -> None:
    truth = run.paths[expected.request][: expected.tokens]
    stored = truth[: len(truth) - expected.pending]
    if run.read(Place(Memory.POOL, expected.slot)) != stored:
        run.problems.append(
            f"slot {expected.slot} should hold {len(stored)} tokens of request {expected.request} and doesn't"
        )
    if expected.pending and run.rings.get(expected.request, ()) != truth[len(stored) :]:
        run.problems.append(f"the ring of request {expected.request} isn't its last {expected.pending} tokens")
    if run.history(Place(Memory.POOL, expected.conv_slot), expected.conv_offset) != tail(truth, run.setup.history):
        run.problems.append(
            f"window of slot {expected.conv_slot} should end at token {expected.tokens} of request "
            f"{expected.request} and doesn't"
        )

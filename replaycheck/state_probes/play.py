"""Play plans on a real pool: every slot's bytes are held against the state that the plan says is there.

There is no model. The state of a token prefix is drawn from its tokens, so it is the same however a plan cuts them; its
convolution window is the last inputs, one row a token. After each step the slots that the step doesn't name must be
untouched, and those it names must hold what it says, bit for bit: temporal state, convolution, and an extra tensor of each
layer, as some layer may have. Problems are kept by the rule that they break.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from replaycheck.errors import InternalError
from replaycheck.schedule.steps import (
    NULL_SLOT,
    Checkpoint,
    Clear,
    Commit,
    Compute,
    Copy,
    CopyReason,
    Evict,
    Free,
    Row,
    Schedule,
    Source,
    Step,
)
from replaycheck.schema.arm import CHUNK
from replaycheck.subjects.lab.pool import TORCH_DTYPE, Pool, cast, derive
from replaycheck.subjects.lab.state import SequenceState

__all__ = ["HISTORY", "Played", "play", "state_of"]

LAYERS, HEADS, VALUE, KEY, HISTORY, CHANNELS = 2, 2, 6, 4, 3, 5
EXTRA = "ring"
Tokens = tuple[int, ...]
_SHAPE = (LAYERS, HEADS, VALUE, KEY)


@dataclass
class Played:
    """What was seen. ``seen``: events by rule; ``problems``: the first one of each rule, in words."""

    seen: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)

    def look(self, rule: str, right: bool, problem: str) -> None:
        self.seen[rule] += 1
        if not right:
            self.problems.setdefault(rule, problem)


def state_of(tokens: Tokens, conv_end: int) -> SequenceState:
    """The state of a prefix: temporal [L, H, V, K] in fp32 from its tokens, conv [L, W − 1, D] of its last inputs, and an
    extra tensor [L, 2] int32."""
    name = derive("state", tokens)
    draws = torch.Generator().manual_seed(int.from_bytes(name[:6], "big"))
    temporal = torch.randn(LAYERS, HEADS, VALUE, KEY, generator=draws) if tokens else torch.zeros(1).expand(_SHAPE)
    first = max(0, conv_end - HISTORY)
    inputs = [_input(tokens[at], at) for at in range(first, min(conv_end, len(tokens)))]
    window = [[0.0] * CHANNELS] * (HISTORY - len(inputs)) + inputs
    conv = torch.tensor(window).expand(LAYERS, -1, -1)
    ring = torch.tensor([conv_end, sum(tokens)], dtype=torch.int32).expand(LAYERS, -1)
    pages = np.arange(len(tokens), dtype=np.int64)
    return SequenceState(conv, temporal, pages, name + bytes([conv_end % 256]), {EXTRA: ring})


def _input(token: int, position: int) -> list[float]:
    """Exact in bf16: small integers and halves, unlike for neighbours."""
    return [token / 2, float(position % 128), float(position // 128), 1.0, -token / 2]


def play(schedule: Schedule, pool: type[Pool], device: str, kind: str) -> Played:
    """Play a plan. ``kind``: the rule that its FORK copies are booked under (forks, block moves, stores of live states)."""
    game = _Game(schedule, pool, device, kind)
    for number, step in enumerate(schedule.steps):
        game.step(number, step)
    return game.played


class _Game:
    def __init__(self, schedule: Schedule, pool: type[Pool], device: str, kind: str) -> None:
        self.played = Played()
        self._schedule, self._kind = schedule, kind
        self._states = schedule.checkpoints()
        self._dtype = TORCH_DTYPE[schedule.arm.pool]
        empty = state_of((), 0)
        like = _on(empty, device)
        self._pool = pool(schedule.slots, like, self._dtype, torch.bfloat16, "play")
        self._device = device
        self._reused: set[int] = set()
        self._stored: set[int] = set()
        self._forked: dict[int, dict[str, bytes]] = {}
        self._known: dict[tuple[int, int], dict[str, bytes]] = {}
        self._before = [self._bytes(slot) for slot in range(schedule.slots)]

    def step(self, number: int, step: Step) -> None:
        where = f"step {number}"
        if isinstance(step, Clear):
            self._clear(step.slot, where)
        elif isinstance(step, Copy):
            self._copy(step, where)
        elif isinstance(step, Commit):
            self._commit(step, where)
        elif isinstance(step, Evict):
            self._stored.discard(step.slot)
        elif isinstance(step, Free):
            self._free(step.slot, where)
        else:
            self._compute(step, where)
        self._others(_named(step), where)

    def _others(self, named: set[int], where: str) -> None:
        """What the step doesn't name, and what is stored, has the bytes of before; the null slot those of the start."""
        for slot, old in enumerate(self._before):
            now = self._before[slot] = self._bytes(slot)
            if slot == NULL_SLOT:
                self.played.look("null", now == old, f"{where}: the null slot was written")
            elif slot in self._stored:
                self.played.look("stored", now == old, f"{where}: stored slot {slot} has other bytes than when stored")
            elif slot not in named:
                self.played.look("others", now == old, f"{where}: slot {slot}, which the step doesn't name, changed")

    def _bytes(self, slot: int) -> dict[str, bytes]:
        return {name: _raw(part) for name, part in self._pool.tensors(slot).items()}

    def _wanted(self, request: int, tokens: int) -> dict[str, bytes]:
        """The bytes of a stored prefix: one direct cast of the temporal state."""
        if (request, tokens) not in self._known:
            state = state_of(self._schedule.requests[request].tokens[:tokens], tokens)
            parts = {
                "temporal": cast(state.temporal, self._dtype),
                "conv": state.conv.to(torch.bfloat16),
                **state.extra,
            }
            self._known[request, tokens] = {name: _raw(part) for name, part in parts.items()}
        return self._known[request, tokens]

    def _clear(self, slot: int, where: str) -> None:
        self._pool.clear(slot)
        zero = all(bool((part == 0).all()) for part in self._pool.tensors(slot).values())
        rule = "clear" if slot in self._reused else "clear-first"
        self.played.look(rule, zero, f"{where}: slot {slot} isn't zero after it was cleared")

    def _copy(self, copy: Copy, where: str) -> None:
        source = self._bytes(copy.source)
        self._pool.copy(copy.source, copy.destination)
        rule = self._kind if copy.reason is CopyReason.FORK else str(copy.reason)
        what = f"{where}: {copy.reason} of {copy.checkpoint} from slot {copy.source} to {copy.destination}"
        self.played.look(rule, self._bytes(copy.destination) == source, f"{what} changes bytes")
        self.played.look("source", self._bytes(copy.source) == source, f"{what} changes its source")
        if copy.reason is CopyReason.FORK:
            self._forked[copy.source] = source
        self._held(rule, copy.destination, self._states[copy.checkpoint], f"{what}: it is another state")

    def _held(self, rule: str, slot: int, state: Checkpoint, problem: str) -> None:
        """The slot holds that prefix, temporal state and convolution both; told apart for the convolution's own row."""
        found, wanted = self._bytes(slot), self._wanted(state.request, state.position)
        self.played.look(rule, found == wanted, problem)
        self.played.look("conv", found["conv"] == wanted["conv"], f"{problem}: its convolution has other inputs")

    def _commit(self, commit: Commit, where: str) -> None:
        problem = f"{where}: {commit.checkpoint} is stored in slot {commit.slot}, which holds another state"
        self._held("label", commit.slot, self._states[commit.checkpoint], problem)
        self._stored.add(commit.slot)

    def _free(self, slot: int, where: str) -> None:
        self._pool.free(slot)
        poison = all(map(_poisoned, self._pool.tensors(slot).values()))
        self.played.look("poison", poison, f"{where}: slot {slot} isn't poisoned after it was freed")
        try:
            self._pool.load(slot)
            refused = False
        except InternalError:
            refused = True
        self.played.look("freed", refused, f"{where}: slot {slot} can be read after it was freed")
        self._reused.add(slot)
        self._forked.pop(slot, None)

    def _compute(self, step: Compute, where: str) -> None:
        for row in step.rows:
            self._read(row, where)
        for row in step.rows:
            self._write(row)

    def _read(self, row: Row, where: str) -> None:
        what = f"{where}: a row from token {row.a} of request {row.request} reads slot {row.source}"
        try:
            self._pool.load(row.source)
            self.played.look("freed", True, "")
        except InternalError:
            self.played.look("freed", False, f"{what}, which nothing wrote or which was freed")
        rule = "read" if row.a else "read-empty"
        self.played.look(rule, self._bytes(row.source) == self._wanted(row.request, row.a), f"{what}: another state")
        if row.source in self._forked:
            kept = self._bytes(row.source) == self._forked.pop(row.source)
            self.played.look("source", kept, f"{what}: it was forked from and changed before it went on")

    def _write(self, row: Row) -> None:
        tokens = self._schedule.requests[row.request].tokens
        for snap in row.snapshots:
            position = row.b if snap.source is Source.FINAL else row.a + snap.chunk * CHUNK
            self._store(snap.destination, tokens[:position], row.a + snap.conv_end)
        self._store(row.destination, tokens[: row.b], row.b)

    def _store(self, slot: int, tokens: Tokens, conv_end: int) -> None:
        self._pool.store(slot, _on(state_of(tokens, conv_end), self._device))


def _on(state: SequenceState, device: str) -> SequenceState:
    extra = {name: part.to(device) for name, part in state.extra.items()}
    return replace(state, conv=state.conv.to(device), temporal=state.temporal.to(device), extra=extra)


def _poisoned(part: Tensor) -> bool:
    """NaN everywhere; in a tensor of integers, the largest."""
    wrong = part.isnan() if part.is_floating_point() else part == torch.iinfo(part.dtype).max
    return bool(wrong.all())


def _named(step: Step) -> set[int]:
    """Slots that a step may write."""
    if isinstance(step, Compute):
        return {row.destination for row in step.rows} | {s.destination for row in step.rows for s in row.snapshots}
    return {step.destination if isinstance(step, Copy) else step.slot}


def _raw(part: Tensor) -> bytes:
    found: bytes = part.contiguous().view(torch.uint8).numpy().tobytes()
    return found


def total(games: list[tuple[str, Played]]) -> tuple[Counter[str], dict[str, str]]:
    """Events by rule, and the first problem of each, with the plan's name."""
    seen: Counter[str] = Counter()
    problems: dict[str, str] = {}
    for name, played in games:
        seen += played.seen
        for rule, problem in played.problems.items():
            problems.setdefault(rule, f"{name}, {problem}")
    return seen, defaultdict(str, problems)

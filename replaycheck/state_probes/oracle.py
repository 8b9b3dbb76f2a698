"""The slow references: every stored state as the tokens that it holds, found by comparing token by token.

They know nothing of trees, numbers or names. What is stored is a list, least recently used first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replaycheck.prefixes import common
from replaycheck.schema.policy import CheckpointPolicy, Policy, SglangPolicy, VllmPolicy

Tokens = tuple[int, ...]


@dataclass
class Oracle:
    """states: oldest use first. held: by request, the tokens of the one state that it reads."""

    policy: Policy
    states: list[Tokens] = field(default_factory=list)
    held: dict[int, Tokens] = field(default_factory=dict)

    def hit(self, tokens: Tokens, known: int) -> Tokens:
        """The longest stored prefix that leaves a token to compute; empty: none."""
        prompt = tokens[: known - 1]
        found = [state for state in self.states if prompt[: len(state)] == state]
        return max(found, key=len, default=())

    def use(self, request: int, state: Tokens) -> None:
        if state:
            self.states.remove(state)
            self.states.append(state)
            self.held[request] = state

    def covered(self, tokens: Tokens, known: int) -> int:
        """Tokens of a prompt that some stored state has, in whole pages; only a tree has more than states."""
        assert isinstance(self.policy, SglangPolicy)
        prompt, page = tokens[: known - 1], self.policy.page
        longest = max((common(prompt, state) for state in self.states), default=0)
        return longest // page * page

    def store(self, state: Tokens) -> tuple[bool, Tokens]:
        """Whether a state was stored, and which one left for it."""
        tree = isinstance(self.policy, SglangPolicy)
        capacity = self.policy.capacity
        free = [old for old in self.states if old not in self.held.values()]
        full = capacity is not None and len(self.states) >= capacity
        if state in self.states:
            if tree:
                self.states.remove(state)
                self.states.append(state)
            return False, ()
        if full and not free:
            return False, ()
        gone = free[0] if full else ()
        if gone:
            self.states.remove(gone)
        self.states.append(state)
        return True, gone

    def release(self, request: int) -> None:
        self.held.pop(request, None)


@dataclass(frozen=True)
class Call:
    """Tokens a … b − 1 of a request whose prompt (or known tokens) end at ``goal`` and which is over at ``end``."""

    a: int
    b: int
    prompt: int
    goal: int
    end: int
    decoding: bool


def left_behind(policy: Policy, call: Call, covered: int) -> list[int]:
    """Positions of the states that a call leaves behind, position by position."""
    return [p for p in range(call.a + 1, call.b + 1) if _kept(policy, call, covered, p)]


def _kept(policy: Policy, call: Call, covered: int, p: int) -> bool:
    if isinstance(policy, CheckpointPolicy):
        return _reference(policy, call, p)
    if isinstance(policy, VllmPolicy):
        return policy.cache == "vllm-align" and _align(policy, call, p)
    if not isinstance(policy, SglangPolicy):
        raise TypeError(f"{policy.cache} isn't planned, but decided by a server")
    if policy.cache == "sglang-no-buffer":
        return p == call.b and (p == call.end or not call.decoding)
    return _extra_buffer(policy, call, covered, p)


def _reference(policy: CheckpointPolicy, call: Call, p: int) -> bool:
    grid = bool(policy.every) and not call.decoding and (p - call.a) % (policy.every or 1) == 0
    over = policy.turn_end and p == call.end
    return grid or over or (policy.prompt_end and not call.decoding and p == call.b == call.prompt)


def _align(policy: VllmPolicy, call: Call, p: int) -> bool:
    """Only ends of calls; a block end if retention keeps it, or the last hash block of the prompt."""
    if p != call.b:
        return False
    unit = policy.tail or policy.block
    replay = max(q for q in range(call.prompt) if q % unit == 0)
    if p % policy.block:
        return policy.tail is not None and p == replay
    reached = max(q for q in range(replay + 1) if q % policy.block == 0)
    every = policy.retain if isinstance(policy.retain, int) else policy.block
    return p == reached or (policy.retain != "reachable" and p % every == 0)


def _extra_buffer(policy: SglangPolicy, call: Call, covered: int, p: int) -> bool:
    grid = next(g for g in range(64, 10**6) if g % 64 == 0 and g % policy.page == 0)
    if call.decoding:
        step = next(g for g in range(grid, 10**6, grid) if g % policy.track_interval == 0)
        return p == call.b and p % step == 0
    points = list(range(call.a + grid, call.b + 1, grid))
    branch = max(range(0, covered + 1, grid))
    inside = bool(points) and call.a < branch < call.b and (branch - call.a) % max(64, policy.page) == 0
    # A branching point beyond the last snapshot isn't reached where the backend is told of that one, not of the end.
    told = call.b if points and (call.b - call.a) // 64 * 64 == points[-1] - call.a else (points or [0])[-1] + 1
    return bool(points) and p == (branch if inside and branch < told else points[-1])

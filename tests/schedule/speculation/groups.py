"""Groups whose answers are decoded in windows: each accepted count, drafts round chunk ends, both ends of an answer."""

from __future__ import annotations

from replaycheck.schema.arm import Arm, Compiler, PoolDtype, Rollback
from replaycheck.schema.policy import CheckpointPolicy, Policy
from replaycheck.schema.trace import Group
from replaycheck.state_probes.groups import Counts, chain, windowed
from replaycheck.state_probes.policies import arm_of

TURN = CheckpointPolicy(every=64, turn_end=True)

EACH_COUNT: Counts = [(3, 0), (3, 1), (3, 2), (3, 3), (0, 0), (1, 0), (1, 1), (5, 4), (5, 0), (5, 5)]
"""0 … k accepted, two windows in a row, rejected ones, and a step without drafts."""


def _end(answer: int, drafts: int, accepted: int) -> Counts:
    """Steps without drafts, then one window that keeps the answer's last inputs."""
    return [(0, 0)] * (answer - 1 - accepted) + [(drafts, accepted)]


def boundary(accepted: int, gap: int) -> Group:
    """An answer whose window of 4 starts ``gap`` tokens before position 128, then a turn that restores its end."""
    # Prompt: BOS, the user's role, text and END, the role of the answer.
    counts = [(0, 0)] * (28 - gap) + [(3, accepted), (3, 3), (3, 0)]
    return windowed(chain(96, 40, 9, 3), {"a0": counts})


GROUPS: dict[str, Group] = {
    # Windows from the answers' first token; turns that continue them; the last window ends with the answer.
    "each count": windowed(chain(70, 40, 20, 9, 3, 6), {"a0": EACH_COUNT, "a1": _end(10, 4, 4), "a2": [(2, 2)] * 3}),
    # The whole answer is one window, and one whose drafts run past its end.
    "one window": windowed(chain(5, 4, 60, 2, 1, 1), {"a0": [(3, 3)], "a1": [(6, 1)], "a2": [(2, 0)]}),
    "rejected": windowed(chain(30, 12, 8, 5), {"a0": [(4, 0)] * 12, "a1": [(1, 0)] * 5}),
}


def spec_arm(
    compiler: Compiler,
    rollback: Rollback | None,
    pool: PoolDtype = PoolDtype.FP32,
    policy: Policy = TURN,
    ring: int | None = None,
) -> Arm:
    """An arm whose answers are decoded in windows."""
    return arm_of(compiler, policy, pool=pool).model_copy(update={"rollback": rollback, "ring": ring})

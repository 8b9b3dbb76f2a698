"""Where a policy stores states within one request: positions and how each is written.

``every`` counts from the start of the extend (SGLang: D = P + ⌊E/grid⌋·grid for the last one; here each multiple is kept),
so with 64-token chunks a checkpoint inside an extend sits at the start of one of its chunks.
"""

from __future__ import annotations

from replaycheck.schema.policy import CHUNK, CheckpointPolicy

from .steps import Written


def positions(
    policy: CheckpointPolicy, start: int, prompt: int, end: int, whole: bool = True
) -> list[tuple[int, Written]]:
    """Checkpoints of a request that computes [start, prompt) as one extend and then decodes to ``end`` − 1.

    Args:
        start: tokens already in the state. prompt, end: as in RequestPlan.
        whole: False where the extend doesn't end with the prompt: a piece of it, or a recomputed answer.

    Returns:
        (position, how written), rising, each position once.
    """
    aligned = (prompt - start) % CHUNK == 0
    inside, final = (Written.INTERIOR_GRID, Written.FINAL_GRID) if aligned else (Written.INTERIOR, Written.FINAL)
    found: dict[int, Written] = {}
    if policy.every:
        for position in range(start + policy.every, prompt + 1, policy.every):
            found[position] = final if position == prompt else inside
    if policy.prompt_end and whole:
        found[prompt] = final
    last = end - 1
    if policy.turn_end and last not in found:
        found[last] = Written.DECODE if last > prompt else final
    return sorted(found.items())

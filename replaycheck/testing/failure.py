"""What ``assert_replay_consistent`` says when it fails: in the words of torch.testing, and how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from replaycheck.replay.store import Run, read_table
from replaycheck.report.gate_lines import by_weight, numbers
from replaycheck.schema.arm import Effect
from replaycheck.schema.result import GateResult, Result
from replaycheck.testing.kernels import running_test

__all__ = ["replay_failure"]


def replay_failure(run: Run, result: Result, command: str) -> str:
    """The text of the AssertionError. ``command``: the command line that repeats it; "" if there is none but the test's."""
    lines = [_head(result), "", *_positions(run, result), *_states(run), *_gates(result)]
    lines += [f"{one.code} {one.title}: {one.sentence}" for one in result.findings[:3]]
    lines.append(f"Seed: {result.seed}")
    lines.append(
        f"To repeat: {running_test() or command or 'call assert_replay_consistent again with these arguments'}"
    )
    if command and running_test():
        lines.append(f"On the command line: {command}")
    return "\n".join(lines)


def _head(result: Result) -> str:
    bad = [gate for gate in result.gates if gate.verdict != "pass"]
    return (
        f"Replay is not consistent: {len(bad)} of {len(result.gates)} gates don't pass with kernels {result.kernels}, "
        f"recipe {result.recipe}, on {result.device}"
    )


def _positions(run: Run, result: Result) -> Iterator[str]:
    """Log-probabilities of warm against split-rounded, whose bits must be the same."""
    exact = {cell.name: cell for cell in result.cells if cell.effect is Effect.EXACT}
    pairs = read_table(run, "pairs")
    mine = pairs[pairs["cell"].isin(exact)]
    differ = mine[~mine["bits_equal"].fillna(True).astype(bool)]
    if differ.empty:
        return
    yield f"Mismatched logits: {len(differ)} / {len(mine)} positions ({len(differ) / len(mine):.1%})"
    worst = differ.loc[differ["dlogp"].abs().fillna(np.inf).idxmax()]
    cell = exact[str(worst["cell"])]
    index = ", ".join(f"{name} {worst[name]}" for name in ("trace", "branch", "turn", "position"))
    yield (
        f"Greatest absolute difference of a log-probability: {abs(worst['dlogp']):.6g} nat at index ({index}) "
        "(up to 0 allowed)"
    )
    found, expected = (_logprob(run, arm, worst) for arm in (cell.candidate, cell.reference))
    yield f"  cached: {found}, computed: {expected}, in {cell.name}"


def _logprob(run: Run, arm: str, at: pd.Series) -> str:
    """What an arm recorded at a position."""
    said = read_table(run, "observations")
    here = said["arm"].eq(arm) & said["experiment"].eq("forced")
    for name in ("trace", "branch", "turn", "position"):
        here &= said[name].eq(at[name])
    rows = said[here]
    return f"{float(rows['logprob'].iloc[0]):.9g}" if len(rows) else "not recorded"


def _states(run: Run) -> Iterator[str]:
    """Restored states, each head of each layer an element."""
    restores = read_table(run, "restores")
    mine = restores[restores["cell"].str.startswith(f"{Effect.EXACT}/") & restores["max_error"].notna()]
    bad = mine[mine["max_error"] > 0]
    if bad.empty:
        return
    yield f"Mismatched states: {len(bad)} / {len(mine)} heads of restored states ({len(bad) / len(mine):.1%})"
    worst = bad.loc[bad["max_error"].idxmax()]
    index = ", ".join(f"{name} {worst[name]}" for name in ("trace", "restore", "layer", "head"))
    yield f"Greatest absolute difference of a state: {worst['max_error']:.6g} at index ({index}) (up to 0 allowed)"


def _gates(result: Result) -> Iterator[str]:
    bad: list[GateResult] = [gate for gate in by_weight(result.gates) if gate.verdict != "pass"]
    for gate in bad:
        yield f"Gate {gate.file}/{gate.name} {gate.verdict}: {gate.sentence} {numbers(gate)}"

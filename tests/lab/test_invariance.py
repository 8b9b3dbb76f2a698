"""The start-up check passes here and refuses a network whose bits depend on the batch, by each of its four checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from replaycheck.errors import EngineEnvironmentError, ExitCode
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput
from replaycheck.subjects.lab.state import SequenceState

Hit = Callable[[RowInput, int], bool]


class Unsteady:
    """The network, but for the last bits of the rows that ``hit`` picks by themselves and the size of their pack."""

    def __init__(self, network: Network, hit: Hit, of: str) -> None:
        self._network, self._hit, self._of = network, hit, of

    def empty_state(self) -> SequenceState:
        return self._network.empty_state()

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        outputs = self._network.forward(rows)
        return [self._nudge(out) if self._hit(row, len(rows)) else out for row, out in zip(rows, outputs, strict=True)]

    def _nudge(self, output: RowOutput) -> RowOutput:
        if self._of == "logits":
            return replace(output, logits=output.logits * (1 + 2.0**-23))
        return replace(output, final=replace(output.final, temporal=output.final.temporal * (1 + 2.0**-23)))


def test_the_lab_does_not_depend_on_the_batch_on_this_machine(sglang: Network) -> None:
    check_invariance(sglang)


@pytest.mark.parametrize("of", ["logits", "state"])
@pytest.mark.parametrize(
    ("hit", "named"),
    [
        pytest.param(lambda row, n: n > 1 and row.form == "chunk", "a chunk row in a pack", id="chunk-in-a-pack"),
        pytest.param(
            lambda row, n: n > 1 and row.form == "recurrent", "a recurrent row in a pack", id="recurrent-in-a-pack"
        ),
        pytest.param(lambda row, n: row.start == 128, "a chunk row cut on the grid", id="cut-on-the-grid"),
        pytest.param(
            lambda row, n: row.form == "recurrent" and len(row.tokens) == 1,
            "a row decoded token by token",
            id="token-by-token",
        ),
    ],
)
def test_bits_that_depend_on_the_batch_are_refused(sglang: Network, hit: Hit, named: str, of: str) -> None:
    with pytest.raises(EngineEnvironmentError, match=f"exact gates can't judge on this machine: {named}") as caught:
        check_invariance(Unsteady(sglang, hit, of))
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "OMP_NUM_THREADS=1" in str(caught.value)

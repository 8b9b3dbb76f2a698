"""The audit beside the executor: it counts what a wrong plan or a wrong pool does, or raises at the first event."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from replaycheck.audit.labels import AuditError, AuditMode
from replaycheck.faults.fault import find_fault
from replaycheck.faults.pools import conv_left_behind, rounded_copies
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.state_probes.groups import GROUPS
from replaycheck.state_probes.policies import PLAYED, arm_of
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.lab.state import SequenceState


def plan(name: str = "tiers", pool: PoolDtype = PoolDtype.FP32, fault: str | None = None) -> Schedule:
    schedule = compile_schedule(GROUPS[name], arm_of(Compiler.WARM, PLAYED[0], pool=pool))
    return find_fault(fault).on_schedule(schedule) if fault else schedule


def run(
    network: Network, schedules: Sequence[Schedule], mode: AuditMode, pool: type[Pool] = Pool
) -> list[tuple[int, int]]:
    network.reset()
    done = execute([ArmRun(schedule, network, mode, pool) for schedule in schedules])
    return [(each.label_mismatches, each.content_mismatches) for each in done]


@pytest.mark.parametrize("pool", PoolDtype, ids=str)
def test_right_plans_raise_nothing(sglang: Network, pool: PoolDtype) -> None:
    plans = [plan(name, pool) for name in ("tiers", "conversation", "preempted")]
    assert run(sglang, plans, AuditMode.RAISE) == [(0, 0)] * 3


def test_a_restore_of_another_state_is_counted_by_label_and_by_bytes(sglang: Network) -> None:
    ((labels, content),) = run(sglang, [plan("conversation", fault="restore-late")], AuditMode.RECORD)
    assert labels > 0
    assert content > 0


def test_raising_stops_at_the_first_and_says_slot_label_and_content(sglang: Network) -> None:
    with pytest.raises(AuditError) as caught:
        run(sglang, [plan("conversation", fault="restore-late")], AuditMode.RAISE)
    text = str(caught.value)
    assert "group 'g', arm warm/chunk-chunk" in text
    assert "means" in text and "tokens; slot" in text and "holds" in text


@pytest.mark.parametrize("kind", [rounded_copies(Pool), conv_left_behind(Pool)])
def test_a_pool_that_copies_wrongly_has_right_labels_and_other_bytes(sglang: Network, kind: type[Pool]) -> None:
    """No plan is wrong, so only the checksum sees it."""
    ((labels, content),) = run(sglang, [plan()], AuditMode.RECORD, kind)
    assert labels == 0
    assert content > 0
    with pytest.raises(AuditError, match=r"slot \d+ is said to hold r\d+@\d+, \d+ tokens, checksum"):
        run(sglang, [plan()], AuditMode.RAISE, kind)


def test_a_state_that_changes_while_it_is_stored_is_seen_at_its_restore(sglang: Network) -> None:
    class Scribbles(Pool):
        """A store to a working slot also hits the convolution of the slot three above."""

        def store(self, slot: int, state: SequenceState) -> None:
            super().store(slot, state)
            if slot + 3 < len(self._conv):
                self._conv[slot + 3] = torch.zeros_like(self._conv[slot + 3])

    ((labels, content),) = run(sglang, [plan("conversation")], AuditMode.RECORD, Scribbles)
    assert (labels, content > 0) == (0, True)

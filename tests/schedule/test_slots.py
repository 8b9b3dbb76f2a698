"""The free list: the slot that was freed last comes back first, and none changes its side."""

from __future__ import annotations

from replaycheck.schedule.slots import Slots
from replaycheck.schedule.steps import Free


def test_new_slots_are_counted_up_behind_the_null_slot() -> None:
    slots = Slots()
    assert [slots.take(), slots.take(), slots.take()] == [1, 2, 3]
    assert slots.count == 4


def test_the_slot_that_was_freed_last_comes_back_first() -> None:
    slots = Slots(5)
    assert [slots.take() for _ in range(3)] == [5, 6, 7]
    assert [slots.give(6), slots.give(5)] == [Free(6), Free(5)]
    assert [slots.take(), slots.take(), slots.take()] == [5, 6, 8]
    assert slots.count == 9


def test_a_slot_keeps_its_side() -> None:
    slots = Slots()
    device, host = slots.take(), slots.take(host=True)
    slots.give(host)
    slots.give(device)
    assert slots.take(host=True) == host
    assert slots.take(host=True) == 3
    assert [slots.take(), slots.take()] == [device, 4]
